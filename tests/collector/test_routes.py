"""The table of routes: whole, and free of contradictions."""

from sudare.collector._messages import PROBLEMS
from sudare.collector._routes import ENDPOINTS


def test_every_route_can_be_served_and_described() -> None:
    for each in ENDPOINTS:
        assert (each.handle is None) != (each.raw is None), each.path
        assert each.summary
        assert set(each.problems) <= set(PROBLEMS)
        assert each.operator <= ("unauthorised" in each.problems)
        if "{id}" in each.path:
            assert "unknown_survey" in each.problems
    assert len({(each.method, each.path) for each in ENDPOINTS}) == len(ENDPOINTS)
