"""Every case comes out as it should.

Seeds are fixed. For fresh seeds, a case that should pass would fail with probability 0.001 at most.
The two cases in ten dimensions are given fewer runs here than they suggest, to save time.
"""

import json

import pytest

from sudare.audit import ExactFinding, Finding, catalogue
from sudare.audit._findings import rounded_down
from sudare.foundations.randomness import seeded

CASES = catalogue()
MISTAKES = [
    "ridge-without-ball",
    "ridge-clipped-afterwards",
    "ridge-paper-constants",
    "logistic-free-intercept",
    "gibbs-paper-temperature",
    "gibbs-paper-failure-rate",
]


def test_six_mistakes_each_followed_by_its_correction():
    names = list(CASES)
    assert names[::2] == MISTAKES
    for mistake, correction in zip(names[::2], names[1::2], strict=True):
        assert CASES[mistake].expected == "caught"
        assert CASES[correction].expected == "passes"
        assert CASES[mistake].partner == correction
        assert CASES[correction].partner == mistake
        assert CASES[mistake].method == CASES[correction].method


def test_the_mapping_is_the_callers_own():
    catalogue().clear()
    assert list(catalogue()) == list(CASES)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_texts_can_be_printed(case):
    for text in (case.name, case.title, case.what, case.claim):
        assert text == text.strip()
        assert "\n" not in text
        assert "  " not in text
    assert case.what.endswith(".")
    assert case.claim.count("ε = ") == 1
    assert len(case.title) < 80


@pytest.mark.parametrize("name", CASES)
def test_every_case_comes_out_as_expected(name):
    case = CASES[name]
    runs = min(case.suggested_runs, 200_000) or None
    finding = case.run(runs, seeded(11))
    assert finding.violated is (case.expected == "caught")
    assert case.as_expected(finding)
    assert isinstance(finding, ExactFinding if case.method == "exact" else Finding)
    json.dumps(finding.to_dict(), allow_nan=False)
    claimed = case.claim.split("ε = ")[1].split()[0].rstrip(",:")
    if finding.delta:
        claimed += f" with δ = {case.claim.split('δ = ')[1].split()[0]}"
    assert f"claims ε = {claimed}." in finding.verdict


@pytest.mark.parametrize(
    ("name", "runs"),
    [("ridge-without-ball", 100_000), ("ridge-clipped-afterwards", 60_000),
     ("logistic-free-intercept", 2_000)],
)  # fmt: skip
def test_fewer_runs_than_suggested_also_catch_the_mistakes(name, runs):
    finding = CASES[name].run(runs, seeded(12))
    assert isinstance(finding, Finding)
    assert finding.violated
    assert finding.runs == runs
    assert f"ε ≥ {rounded_down(finding.epsilon_lower, above=1.0)}" in finding.verdict
