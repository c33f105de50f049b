"""Estimates are unbiased, by exact enumeration, and say so where there is nothing to estimate."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from sudare.calibration import estimate_variance
from sudare.counting import METHODS, Survey, Tally, empty_tally, estimate, open_office
from sudare.counting._estimation import (
    Interval,
    binomial_interval,
    population_interval,
    raw_shares,
)
from sudare.foundations.checks import InvalidInput
from tests.counting.enumerated import law_of_matrix


def survey_of(method: str, rounds: int = 3, epsilon: float = 1.5) -> Survey:
    more: dict[str, Any] = {"changes": 2} if method.startswith("tree") else {}
    if method == "tree, few flips":
        method, more["flips"] = "tree", "stretches"
    if method == "masks":
        more["slots"] = 2
    return Survey(name="s", rounds=rounds, epsilon=epsilon, method=method, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", [*METHODS, "tree, few flips"])
def test_every_method_is_unbiased(method):
    """Expected counts, by going through every coin of four users, give the true shares.

    Harmony's and the tree's estimates are linear in the counts. The others are y/n up to constants,
    where y given n is on average what the shares say: tested below.
    """
    bits = np.array([[0, 1, 1], [1, 1, 0], [0, 0, 0], [0, 0, 1]], np.uint8)
    survey = survey_of(method)
    counts = np.zeros(2 * survey.cells)
    for key, chance in law_of_matrix(survey, bits).items():
        counts += chance * np.array(key)
    many = 10**12
    n, y = np.rint(counts * many).astype(np.int64).reshape(2, -1)
    tally = Tally(survey.digest(), n, y)
    found = estimate(tally, survey, users=4 * many, interval="binomial")
    assert found.raw == pytest.approx(bits.mean(axis=0), abs=1e-9)
    # The reject arm: another ε.
    other = survey_of(method, epsilon=1.65)
    wrong = estimate(Tally(other.digest(), n, y), other, users=4 * many, interval="binomial")
    assert wrong.raw != pytest.approx(bits.mean(axis=0), abs=1e-3)


@pytest.mark.parametrize("method", ["glance", "masks"])
def test_given_how_many_reported_the_estimate_is_unbiased(method):
    bits = np.array([[0, 1, 1], [1, 1, 0], [0, 0, 0]], np.uint8)
    survey = survey_of(method)
    total: dict[tuple[int, int], float] = {}
    weight: dict[tuple[int, int], float] = {}
    for key, chance in law_of_matrix(survey, bits).items():
        n, y = np.array(key).reshape(2, -1)
        raw = estimate(Tally(survey.digest(), n, y), survey, users=3, interval="binomial").raw
        for t in np.flatnonzero(n):
            cell = int(t), int(n[t])
            total[cell] = total.get(cell, 0.0) + chance * raw[t]
            weight[cell] = weight.get(cell, 0.0) + chance
    assert len(total) == 9
    for cell, value in total.items():
        assert value / weight[cell] == pytest.approx(bits[:, cell[0]].mean(), abs=1e-12)


def moments(
    method: str, users: int, share: float, rounds: int, epsilon: float
) -> tuple[float, float]:
    """Exact mean and variance of a round's estimate when users draw their rounds themselves and
    each holds a one with probability `share`; silent rounds, of chance 1e-3 here, are left out."""
    survey = survey_of(method, rounds, epsilon)
    pi = 0.5 + survey.attenuation * (share - 0.5)
    numbers, ones, chances = [], [], []
    for n in range(1, 40):
        heard = math.comb(users, n) * (1 / rounds) ** n * (1 - 1 / rounds) ** (users - n)
        for y in range(n + 1):
            numbers.append(n)
            ones.append(y)
            chances.append(heard * math.comb(n, y) * pi**y * (1 - pi) ** (n - y))
    raws: list[float] = []
    for start in range(0, len(ones), rounds):
        part = slice(start, start + rounds)
        counts = np.zeros((2, rounds), np.int64)
        counts[:, : len(ones[part])] = numbers[part], ones[part]
        tally = Tally(survey.digest(), *counts)
        found = estimate(tally, survey, users=users, interval="binomial")
        raws += found.raw[: len(ones[part])].tolist()
    raw, p = np.array(raws), np.array(chances) / sum(chances)
    mean = float(p @ raw)
    return mean, float(p @ (raw - mean) ** 2)


def test_harmony_ties_with_glance_and_loses_by_the_root_of_two():
    """At μ = ½, N = 400, T = 50: signed as good as Glance, 0/1 worse by √(2 − 1/T)."""
    glance, signed, zero_one = (
        moments(method, 400, 0.5, 50, 2.0) for method in ("glance", "harmony-signed", "harmony")
    )
    for mean, _ in (glance, signed, zero_one):
        assert mean == pytest.approx(0.5, abs=2e-3)
    # Glance pays E(1/n)·N/T, here 1.16; that vanishes as N grows.
    assert 0.8 < signed[1] / glance[1] < 1
    assert zero_one[1] / signed[1] == pytest.approx(2 - 1 / 50, rel=5e-3)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_the_variance_is_the_formulas(share):
    for n in (1, 6):
        survey = survey_of("glance", n + 1, 2.0)
        c = survey.attenuation
        tally = Tally(survey.digest(), np.full(n + 1, n), np.arange(n + 1))
        found = estimate(tally, survey)
        p = binom.pmf(np.arange(n + 1), n, 0.5 + c * (share - 0.5))
        assert p @ found.raw == pytest.approx(share, abs=1e-12)
        variance = p @ (found.raw - share) ** 2
        assert variance == pytest.approx(estimate_variance(survey.law, share, n), rel=1e-9)


def test_std_is_about_the_standard_deviation():
    survey = survey_of("glance", 3, 2.0)
    n = np.array([10_000, 10_000, 100])
    pi = np.array([0.5, 0.2, 0.5])
    found = estimate(Tally(survey.digest(), n, (n * pi).astype(np.int64)), survey)
    expected = np.sqrt(pi * (1 - pi) / n) / survey.attenuation
    assert found.std == pytest.approx(expected, rel=0.02)
    # With no variety among the reports it is small, but never zero.
    one_sided = estimate(Tally(survey.digest(), n, n), survey).std
    assert (one_sided > 0).all()
    assert (one_sided < expected / 4).all()


@pytest.mark.parametrize("method", METHODS)
def test_where_nobody_reported_there_is_no_estimate(method):
    survey = survey_of(method)
    found = estimate(empty_tally(survey), survey, users=10)
    for each, record in enumerate(found.to_dicts()):
        assert record == {"round": each, "reporters": 0, "share": None, "low": 0.0, "high": 1.0}
    json.dumps(found.to_dicts(), allow_nan=False)
    assert np.isnan(found.share).all()
    assert np.isposinf(found.std).all()


@pytest.mark.parametrize("method", METHODS)
def test_rounds_to_come_do_not_touch_those_that_were(method):
    """Half-way through a survey the first rounds read as they will at its end."""
    survey = survey_of(method, 4)
    n, y = np.full(survey.cells, 20), np.arange(survey.cells) + 5
    whole = estimate(Tally(survey.digest(), n, y), survey, users=80)
    # Of the tree's cells: rounds 0 and 1, and the pair of them.
    early = np.array([1, 1, 0, 0, 1, 0, 0] if method == "tree" else [1, 1, 0, 0])
    half = estimate(Tally(survey.digest(), n * early, y * early), survey, users=80)
    assert half.raw[:2].tolist() == whole.raw[:2].tolist()
    assert half.low[:2].tolist() == whole.low[:2].tolist()
    assert np.isnan(half.raw[2:]).all()


def test_shares_lie_between_zero_and_one():
    survey = survey_of("glance")
    found = estimate(Tally(survey.digest(), np.array([9, 9, 9]), np.array([0, 5, 9])), survey)
    assert found.raw[0] < 0
    assert found.raw[2] > 1
    assert found.share[[0, 2]].tolist() == [0, 1]


def refused(
    message: str, method: str = "glance", counts: Sequence[int] | None = None, **more: Any
) -> None:
    survey = survey_of(method)
    n = np.array(counts or [3] * survey.cells)
    tally = Tally(more.pop("digest", survey.digest()), n, n)
    with pytest.raises(InvalidInput, match=message):
        estimate(tally, survey, **more)


def test_refusals():
    for method in ("harmony", "harmony-signed", "tree"):
        refused("Expected users", method)
    refused("Expected users: the population interval", interval="population")
    refused("at least a round's reporters", users=2)
    refused("at least those who reported", "tree", users=5)
    refused("tally of this survey", digest=bytes(32))
    refused("tally of this survey", counts=[3, 3])
    refused("tally of this survey", counts=[3, 3, 3, 3])
    refused("users", users=0)
    refused("users", users=2.5)
    refused("users", users=True)
    refused("users", users="7")
    refused("interval", interval="exact")
    for beta in (0, 1, -0.1, 2, math.nan, "0.05", None):
        refused("beta", beta=beta)


@pytest.mark.parametrize("method", ["glance", "rappor", "harmony", "tree"])
@pytest.mark.parametrize("interval", ["auto", "population"])
def test_users_beyond_all_people_are_refused(method: str, interval: str):
    for users in (2**53 + 1, 10**400, -(10**400)):
        refused("Expected users", method, users=users, interval=interval)


def test_every_part_that_divides_by_users_checks_them():
    survey = survey_of("harmony")
    n, y = np.array([3, 3, 3]), np.array([1, 2, 3])
    for users in (0, -1, 2.5, True, None, 10**400):
        with pytest.raises(InvalidInput, match="Expected users"):
            raw_shares(n, y, survey, users)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="Expected users"):
            population_interval(n, y, 0.5, users, 0.05)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="users=2 to be at least a round's reporters"):
        population_interval(n, y, 0.5, 2, 0.05)


def test_as_many_users_as_floats_can_count_are_taken():
    survey = survey_of("glance")
    tally = Tally(survey.digest(), np.array([3, 3, 3]), np.array([1, 2, 3]))
    assert estimate(tally, survey, users=2**53).raw == pytest.approx(estimate(tally, survey).raw)


@pytest.mark.parametrize("level", [0.3, 0.01])
@pytest.mark.parametrize("c", [1.0, 0.4])
def test_binomial_intervals_are_as_wide_as_they_must_be(level: float, c: float):
    """Each end is where a tail has half the level (Clopper and Pearson), or one report away."""
    n = np.full(41, 40)
    y = np.arange(41)
    low, high = (0.5 + c * (end - 0.5) for end in binomial_interval(n, y, c, level))
    guarded_low, guarded_high = np.maximum((y - 1) / n, 0), np.minimum((y + 1) / n, 1)
    # Shares end at 0 and 1, and so do the ends here.
    inside = [(end > 0.5 - c / 2) & (end < 0.5 + c / 2) for end in (low, high)]
    lower, upper = inside[0] & (low < guarded_low), inside[1] & (high > guarded_high)
    assert min(lower.sum(), upper.sum()) >= 10
    assert binom.sf(y[lower] - 1, 40, low[lower]) == pytest.approx(level / 2)
    assert binom.cdf(y[upper], 40, high[upper]) == pytest.approx(level / 2)
    assert (low <= guarded_low + 1e-12)[inside[0]].all()
    assert (high >= guarded_high - 1e-12)[inside[1]].all()


@pytest.mark.parametrize("users", [np.int8(100), np.uint8(100), np.int64(100)])
@pytest.mark.parametrize("method", ["rappor", "harmony", "tree"])
def test_users_as_narrow_numbers_count_as_well(method: str, users: Any):
    """127 + 1 does not fit into eight bits."""
    survey = survey_of(method)
    n = np.full(survey.cells, 30)
    tally = Tally(survey.digest(), n, n // 3)
    interval: Interval = "auto" if method == "tree" else "population"
    found, right = (estimate(tally, survey, users=u, interval=interval) for u in (users, 100))
    for name in ("raw", "low", "high", "std"):
        np.testing.assert_array_equal(getattr(found, name), getattr(right, name))


def test_levels_beyond_the_floats_give_wide_intervals():
    survey = survey_of("glance")
    tally = Tally(survey.digest(), np.array([50, 50, 50]), np.array([0, 25, 50]))
    for beta in (1e-15, 1e-17, 1e-300):
        found = estimate(tally, survey, beta=beta)
        usual = estimate(tally, survey)
        assert np.isfinite(found.low).all()
        assert (found.low <= usual.low).all()
        assert (found.high >= usual.high).all()


def test_fewer_users_than_rounds():
    """Most rounds stay open; a single report of ε = 2 says next to nothing."""
    survey = survey_of("glance", 10, 2.0)
    office = open_office(survey, bytes(32))
    cells = office.cells(range(3), [0, 0, 0])
    found = estimate(empty_tally(survey).add(cells, [1, 0, 1]), survey, users=3)
    assert sorted(np.flatnonzero(~np.isnan(found.raw))) == sorted(cells)
    assert (found.low == 0).all()
    assert (found.high == 1).all()
