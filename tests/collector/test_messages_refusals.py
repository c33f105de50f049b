"""One shape for every refusal."""

import json

import pytest

from sudare.collector._engine import Verdict
from sudare.collector._messages import PROBLEMS, Refusal, body_of, headers_of


@pytest.mark.parametrize("code", PROBLEMS)
def test_every_refusal_has_the_same_shape(code: str) -> None:
    told = json.loads(body_of(code))
    assert told == {"error": {"code": code, "message": PROBLEMS[code].message}}
    assert told["error"]["message"].endswith(".")
    assert PROBLEMS[code].status >= 400
    headers = dict(headers_of(code))
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"cache-control"] == b"no-store"


def test_what_the_engine_refuses_has_its_refusal() -> None:
    assert {v.name.lower() for v in Verdict if v > Verdict.REPEATED} <= set(PROBLEMS)
    statuses = {
        "wrong_mark": 403, "unknown_slot": 400, "too_early": 425, "too_late": 410,
        "malformed": 400, "oversized": 413, "unavailable": 503, "rate_limited": 429,
    }  # fmt: skip
    assert statuses == {code: PROBLEMS[code].status for code in statuses}


def test_when_to_try_again_is_rounded_up() -> None:
    def told(seconds: float) -> int:
        return int(dict(headers_of("rate_limited", seconds))[b"retry-after"])

    assert [told(s) for s in (0.001, 0.4, 1.0, 1.2, 59.9)] == [1, 1, 1, 2, 60]
    assert int(dict(headers_of("unavailable"))[b"retry-after"]) >= 1
    assert b"retry-after" not in dict(headers_of("malformed"))


def test_refusals_name_known_problems_only() -> None:
    assert Refusal("too_late").problem.status == 410
    with pytest.raises(KeyError):
        Refusal("no such thing")
