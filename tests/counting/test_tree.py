"""The tree: stretches add up to prefixes, and Bernstein's interval holds."""

from typing import Any

import numpy as np
import pytest

from sudare.counting import Survey, Tally, estimate
from sudare.counting._simulation import simulate
from sudare.counting.tree import dampings, loads, offset, prefix_cells, stretch_ending
from sudare.foundations.checks import InvalidInput
from tests.statistical import rate_at_least, rate_at_most


def stretches(rounds: int) -> list[range]:
    """What each cell is about, in the order of cells: level by level, in time."""
    return [
        range(i << level, (i + 1) << level)
        for level in range(rounds.bit_length())
        for i in range(rounds >> level)
    ]


@pytest.mark.parametrize("rounds", [*range(1, 34), 100])
def test_every_prefix_is_a_sum_of_stretches_of_different_levels(rounds):
    cells, used = prefix_cells(rounds)
    about = stretches(rounds)
    for t in range(rounds):
        mine = [about[cell] for cell in cells[t][used[t]]]
        assert sorted(s for each in mine for s in each) == list(range(t + 1))
        lengths = [len(each) for each in mine]
        assert lengths == [1 << level for level in np.flatnonzero(used[t])]


@pytest.mark.parametrize("rounds", [1, 2, 7, 8, 13])
def test_a_stretch_is_reported_when_it_ends(rounds):
    about = stretches(rounds)
    for level in range(rounds.bit_length()):
        ends = {t: s for t in range(rounds) if (s := stretch_ending(t, level)) is not None}
        assert list(ends.values()) == list(range(rounds >> level))
        for t, s in ends.items():
            assert about[offset(rounds, level) + s][-1] == t


def survey_of(rounds: int, changes: int, epsilon: float, **more: Any) -> Survey:
    return Survey(name="t", rounds=rounds, epsilon=epsilon, method="tree", changes=changes, **more)


def few_flips(rounds: int, changes: int, epsilon: float) -> Survey:
    return survey_of(rounds, changes, epsilon, flips="stretches")


def test_no_more_flips_than_stretches():
    survey = few_flips(13, 4, 2.0)
    assert [survey.law_at(level).slots for level in range(4)] == [4, 4, 3, 1]
    assert [survey_of(13, 4, 2.0).law_at(level).slots for level in range(4)] == [4] * 4
    assert few_flips(3, 8, 2.0).law.slots == survey_of(3, 8, 2.0).law.slots == 3
    assert dampings(survey_of(13, 4, 2.0)).tolist() == [1.0] * 4
    assert loads(survey_of(13, 4, 2.0)).tolist() == [t.bit_count() for t in range(1, 14)]
    c = [survey.law_at(level).attenuation for level in range(4)]
    assert c[0] == c[1] < c[2] < c[3]
    assert dampings(survey) == pytest.approx([c[0] / each for each in c])
    assert loads(survey)[12] == pytest.approx(1 + (c[0] / c[2]) ** 2 + (c[0] / c[3]) ** 2)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_fewer_flips_are_right_more_often(epsilon):
    c = [survey_of(32, k, epsilon).law.exact_attenuation for k in range(1, 31)]
    assert c == sorted(c, reverse=True)
    assert len(set(c)) > 10


@pytest.mark.parametrize("make", [survey_of, few_flips])
def test_noiseless_reports_give_the_shares(make):
    """Every user heard at every level, and reports right as often as they are on average."""
    rng = np.random.default_rng(1)
    survey = make(13, 3, 1.0)
    bits = (rng.random((4000, 13)) < np.linspace(0.1, 0.9, 13)).astype(int)
    before = np.hstack([np.zeros((4000, 1), int), bits])
    moved = np.array([(bits[:, each[-1]] - before[:, each[0]]).sum() for each in stretches(13)])
    n = np.full(survey.cells, 4000 * 10**6)
    levels = np.repeat(np.arange(4), [13 >> level for level in range(4)])
    c = np.array([survey.law_at(level).attenuation for level in range(4)])[levels]
    ones = np.rint(n / 2 + c * moved * 10**6 / 2).astype(np.int64)
    found = estimate(Tally(survey.digest(), n, ones), survey, users=4000 * 10**6 * survey.levels)
    assert found.raw == pytest.approx(bits.mean(axis=0), abs=1e-6)


@pytest.mark.parametrize(
    ("rounds", "epsilon", "step"), [(7, 2.0, 3), (8, 8.0, 0), (3, 0.5, 1)], ids=["7", "8", "3"]
)
def test_the_interval_covers(rounds, epsilon, step):
    """Simulated: misses of all rounds together stay below β, and intervals of 40 % the width miss
    more often than that; each verdict is wrong with probability below 1e-12."""
    users, runs, beta = 150, 1500, 0.2
    signal = (np.arange(rounds) >= step).astype(float)
    survey = survey_of(rounds, 1, epsilon)
    done = simulate(survey, signal, users, runs=runs, rng=5)
    missed = narrow = 0
    for n, y in zip(done.reporters, done.ones, strict=True):
        found = estimate(Tally(survey.digest(), n, y), survey, users=users, beta=beta)
        missed += bool(((found.low > signal) | (found.high < signal)).any())
        half = _half_width(found.raw, found.std, survey, users, beta)
        narrow += bool((np.abs(found.raw - signal) > 0.4 * half).any())
    assert rate_at_most(missed, runs) < beta
    assert rate_at_least(narrow, runs) > beta


def _half_width(raw, std, survey, users, beta):
    """Bernstein's, written once more: 2·exp(−½x²/(V + bx/3)) = β/T."""
    log = np.log(2 * survey.rounds / beta)
    largest = survey.levels / (users * survey.attenuation) + 1 / users
    linear = largest * log / 3
    return linear + np.sqrt(linear**2 + 2 * std**2 * log)


def test_the_interval_is_bernsteins():
    survey = survey_of(7, 1, 2.0)
    n, y = np.full(survey.cells, 1000), np.full(survey.cells, 550)
    found = estimate(Tally(survey.digest(), n, y), survey, users=3000)
    half = _half_width(found.raw, found.std, survey, 3000, 0.05)
    assert found.high == pytest.approx(np.clip(found.raw + half, 0, 1), rel=1e-12)
    assert found.low == pytest.approx(np.clip(found.raw - half, 0, 1), rel=1e-12)
    assert 0 < found.low[-1] < found.high[-1] < 1  # nothing was clipped away


def test_the_interval_covers_where_levels_differ():
    """A bit that turns at every other round, at most eight times in sixteen; as above."""
    users, runs, beta, survey = 200, 1000, 0.2, few_flips(16, 8, 4.0)
    bits = np.tile((np.arange(16) // 2 % 2).astype(np.uint8), (users, 1))
    done = simulate(survey, bits, runs=runs, rng=5)
    half = _half_width(done.raw[0], done.std[0], survey, users, beta)
    off = np.abs(done.raw - bits[0])
    assert rate_at_most(int((off > half).any(axis=1).sum()), runs) < beta
    assert rate_at_least(int((off > 0.4 * half).any(axis=1).sum()), runs) > beta


def test_std_is_above_the_standard_deviation():
    """It holds for users of every kind, so it is no smaller than what is seen, and not by far."""
    survey = survey_of(7, 1, 3.0)
    done = simulate(survey, np.array([0, 0, 0, 1, 1, 1, 1.0]), 2000, runs=400, rng=2)
    seen = done.raw.std(axis=0)
    assert (seen < 1.15 * done.std[0]).all()
    assert (seen > 0.6 * done.std[0]).all()


def test_a_stretch_nobody_reported_on_leaves_its_rounds_open():
    survey = survey_of(4, 1, 1.0)
    n = np.array([5, 5, 5, 5, 5, 0, 5])  # the pair of rounds 2 and 3 is missing
    found = estimate(Tally(survey.digest(), n, n * 0), survey, users=15)
    assert np.isnan(found.raw).tolist() == [False, False, False, False]
    n[4] = 0  # the pair of rounds 0 and 1: rounds 1 and 2 need it
    found = estimate(Tally(survey.digest(), n, n * 0), survey, users=15)
    assert np.isnan(found.raw).tolist() == [False, True, True, False]
    assert found.low[1:3].tolist() == [0, 0]
    assert found.high[1:3].tolist() == [1, 1]


def test_users_are_needed_and_enough():
    """Long stretches are not heard of until late: counting heads would mislead early on."""
    survey = survey_of(4, 1, 1.0)
    n = np.array([5, 5, 5, 5, 5, 5, 5])
    tally = Tally(survey.digest(), n, n)
    with pytest.raises(InvalidInput, match="Expected users"):
        estimate(tally, survey)
    with pytest.raises(InvalidInput, match="users=14"):
        estimate(tally, survey, users=14)
    estimate(tally, survey, users=15)
