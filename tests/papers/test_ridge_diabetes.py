"""Ridge regression together on diabetes."""

from papers import Verdict
from papers.regressions import HEDGED, MIRROR, OWN, POOLED
from papers.ridge_diabetes import PANELS
from tests.papers.smoke import check_figure, results, verdict


def test_it_runs() -> None:
    check_figure("ridge-diabetes", "predicting the mean", "10 organisations")


def test_the_claim_is_about_mirror_averaging_and_the_correction_about_the_blend() -> None:
    def world(mirror: float, hedged: float) -> Verdict:
        errors = {MIRROR: mirror, HEDGED: hedged}
        return verdict("ridge-diabetes", lambda p, c, x, v: errors.get(c, 0.6))

    assert world(0.5, 0.7) is Verdict.HOLDS
    assert world(0.7, 0.5) is Verdict.CORRECTED
    assert world(0.7, 0.6) is Verdict.FAILS


def test_errors_are_as_is_known() -> None:
    """Least squares on all 442 patients leaves about half of the variance."""
    for panel in PANELS:
        pooled = results("ridge-diabetes").at(panel, POOLED, 1.0).value
        own = results("ridge-diabetes").at(panel, OWN, 1.0).value
        assert 0.4 < pooled < 0.65
        assert pooled < own < 1.1
