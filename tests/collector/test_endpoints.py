"""Which of the routes pages of other origins may use."""

from sudare.collector._routes import ENDPOINTS


def test_which_routes_other_origins_may_use() -> None:
    closed = {each.path for each in ENDPOINTS if not each.shared}
    assert closed == {
        "/", "/try", "/pages/{file}", "/v1/surveys/{id}/operator", "/v1/surveys/{id}/enrolment",
        "/v1/surveys/{id}/session", "/rehearsal/v1/surveys", "/rehearsal/v1/surveys/{id}",
        "/rehearsal/v1/surveys/{id}/tickets", "/rehearsal/v1/surveys/{id}/reports",
        "/rehearsal/v1/surveys/{id}/estimates",
    }  # fmt: skip
