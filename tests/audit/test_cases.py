"""What a case does with what it is given: runs, coins, progress, confidence."""

import pytest

from sudare.audit import Case, ExactFinding, Finding, catalogue
from sudare.foundations.checks import InvalidInput

CASES = catalogue()


def test_runs_are_those_suggested_unless_told():
    asked = []

    def check(runs, rng, progress, confidence):
        asked.append((runs, float(rng.random()), confidence))
        return ExactFinding(1.0, 0.0, 0.0, 0.5, 1e-12)

    case = Case("name", "Title", "What.", "claim", "passes", "exact", "", 700, check)
    case.run(rng=3)
    case.run(200, 3, confidence=0.9)
    assert [one[0] for one in asked] == [700, 200]
    assert asked[0][1] == asked[1][1], "the same seed, the same coins"
    assert [one[2] for one in asked] == [0.999, 0.9]


def test_a_surprise_is_reported_as_one():
    caught = ExactFinding(0.1, 0.0, 1e-3, 0.2, 1e-12)
    assert CASES["ridge-paper-constants"].as_expected(caught)
    assert not CASES["ridge-corrected-constants"].as_expected(caught)


@pytest.mark.parametrize(
    "name", ["ridge-in-ball", "ridge-paper-constants", "gibbs-paper-temperature"]
)
def test_progress_reaches_the_end(name):
    calls = []
    CASES[name].run(1000, 0, lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] > 0


def test_confidence_is_passed_on():
    finding = CASES["ridge-in-ball"].run(1000, 0, confidence=0.9)
    assert isinstance(finding, Finding)
    assert finding.confidence == 0.9


@pytest.mark.parametrize(
    ("arguments", "message"), [((10,), "runs"), ((1000, 0, None, 1.5), "conf")]
)
def test_bad_input_is_named(arguments, message):
    for name in ("ridge-in-ball", "ridge-paper-constants"):
        with pytest.raises(InvalidInput, match=message):
            CASES[name].run(*arguments)
