"""Samples, intervals, findings and verdicts."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from papers.figure import (
    Conclusion,
    Finding,
    Results,
    Sample,
    Setting,
    Size,
    Verdict,
    computed,
    measured,
)
from sudare.foundations.randomness import seeded


def test_intervals_are_students() -> None:
    values = seeded(1).normal(3.0, 2.0, size=9)
    found = Results([measured("p", "c", 1.0, values)]).at("p", "c", 1.0)
    low, high = stats.t.interval(0.95, 8, values.mean(), stats.sem(values))
    assert found.runs == 9
    np.testing.assert_allclose(found[:3], (values.mean(), low, high), rtol=1e-12)


def test_intervals_cover_as_often_as_they_say() -> None:
    rng = seeded(2)
    for positive in (False, True):
        missed = 0
        for _ in range(2_000):
            values = rng.gamma(9.0, 1 / 9, size=10)
            found = Results([measured("p", "c", 0.0, values)], positive).at("p", "c", 0.0)
            missed += not found.low <= 1.0 <= found.high
        # 5 %, a little more for a skew law: between 3 and 8.
        assert 60 <= missed <= 160


def test_intervals_of_sizes_stay_above_zero() -> None:
    values = [1e-6, 1e-6, 1.0]
    plain, sizes = (
        Results([measured("p", "c", 0.0, values)], positive).at("p", "c", 0.0)
        for positive in (False, True)
    )
    assert plain.low < 0 < sizes.low < plain.value == sizes.value < sizes.high
    assert math.log(sizes.high / sizes.value) == pytest.approx(math.log(sizes.value / sizes.low))


def test_one_run_says_nothing_about_its_error() -> None:
    found = Results([measured("p", "c", 0.0, 2.0)]).at("p", "c", 0.0)
    assert (found.value, found.low, found.high, found.runs) == (2.0, -math.inf, math.inf, 1)


def test_computed_numbers_are_exact() -> None:
    found = Results([computed("p", "c", 0.0, 2.0)]).at("p", "c", 0.0)
    assert found == (2.0, 2.0, 2.0, 0)


def test_curves_of_one_task_are_paired() -> None:
    rng = seeded(3)
    shared = rng.normal(0, 100, size=6)
    samples = []
    for s in shared:
        samples += [measured("p", "a", 0.0, s + 1), measured("p", "b", 0.0, s)]
    found = Results(samples)
    assert found.difference("p", "a", "b", 0.0).half_width < 1e-9
    assert found.difference("p", "a", "b", 0.0).value == pytest.approx(1.0)
    assert found.at("p", "a", 0.0).half_width > 10


def test_results_are_kept_in_order() -> None:
    samples = [measured(p, c, x, x) for p, c, x in product("qp", "dc", (2.0, 1.0))]
    found = Results(samples)
    assert found.panels == ["q", "p"]
    assert found.curves("q") == ["d", "c"]
    assert found.places("q", "d") == [1.0, 2.0]
    np.testing.assert_array_equal(found.series("p", "c").value, [1.0, 2.0])
    assert len(found.rows()) == 8


def test_samples_of_one_place_are_pooled() -> None:
    found = Results([measured("p", "c", 1, [1.0, 2.0]), Sample("p", "c", 1.0, np.array([3.0]))])
    np.testing.assert_array_equal(found.values("p", "c", 1.0), [1.0, 2.0, 3.0])


def _finding(holds: bool, corrected: bool = False) -> Finding:
    return Finding("s", "e", "m", holds, corrected)


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ([_finding(True)], Verdict.HOLDS),
        ([_finding(True), _finding(False, True)], Verdict.HOLDS),
        ([_finding(False)], Verdict.FAILS),
        ([_finding(True), _finding(False)], Verdict.FAILS),
        ([_finding(False), _finding(True, True)], Verdict.CORRECTED),
        ([_finding(False), _finding(True, True), _finding(False, True)], Verdict.FAILS),
    ],
)
def test_verdicts(findings: list[Finding], verdict: Verdict) -> None:
    assert Conclusion("Measured.", "Differs.", tuple(findings)).verdict is verdict


def test_seeds_differ_by_seed_figure_and_task() -> None:
    seeds = [
        s
        for seed, name in product((0, 1, 10), ("a", "b", "1/a"))
        for s in Setting(seed=seed).seeds(name, 50)
    ]
    assert len(set(seeds)) == len(seeds)


def test_a_longer_run_begins_with_the_shorter_one() -> None:
    assert Setting(seed=4).seeds("a", 9)[:3] == Setting(Size.QUICK, 4).seeds("a", 3)


def test_sizes() -> None:
    runs = [Setting(size).runs(full=3, quick=2, smoke=1) for size in Size]
    assert runs == [3, 2, 1]
