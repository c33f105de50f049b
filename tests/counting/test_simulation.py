"""Simulated surveys: the law of all counts together by enumeration, then sizes and mistakes."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from sudare.counting._simulation import Simulation, simulate
from sudare.counting._survey import Survey
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from tests.counting.enumerated import indexed, law_of_blocks, law_of_shares
from tests.statistical import only_counts_fit, only_fits


def survey(method: str = "glance", epsilon: float = 1.0, rounds: int = 3, **more: Any) -> Survey:
    return Survey(name="t", rounds=rounds, epsilon=epsilon, method=method, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("glance", {}),
        ("masks", {"slots": 2}),
        ("masks", {"slots": 3, "threshold": 1}),
    ],
)
def test_counts_have_the_law_of_the_mechanism(
    method: str, more: dict[str, int], blocks: bool
) -> None:
    # In blocks, half of one: which seats are taken matters.
    held, users = ([1, 2, 0, 1], 2) if blocks else ([1, 2, 0], 3)
    ways = [survey(method, e, len(held), **more) for e in (2.0, 1.2, 2.9)]
    exact = law_of_blocks if blocks else law_of_shares
    right, *wrong = (exact(way, held, users) for way in ways)
    told = simulate(
        ways[0],
        np.array(held) / users,
        users,
        runs=100_000,
        rng=1,
        blocks=blocks,
    )
    counts = indexed(right, np.hstack([told.reporters, told.ones]))
    others = [[law[key] for key in right] for law in wrong]
    assert only_counts_fit(counts, list(right.values()), others)


def test_rappor_hears_everybody_in_every_round() -> None:
    told = simulate(survey("rappor", 6.0), np.array([0.25, 1.0, 0.0]), 40, runs=20_000, rng=1)
    assert (told.reporters == 40).all()
    p = told.survey.law.probability(0)
    ones, zeros = (np.asarray(binom.pmf(range(n + 1), n, x)) for n, x in ((10, p), (30, 1 - p)))
    pmf = np.convolve(ones, zeros)
    assert only_fits(told.ones[:, 0], lambda y: np.cumsum(pmf)[y.astype(int)], off=0.1)
    assert only_fits(told.ones[:, 1], lambda y: binom.cdf(y, 40, p), off=0.03)


@pytest.mark.parametrize("method", ["harmony", "harmony-signed"])
def test_harmony_counts_what_glance_counts(method: str) -> None:
    shares = np.array([0.2, 0.9, 0.5])
    glance, harmony = (simulate(survey(m), shares, 300, runs=4, rng=3) for m in ("glance", method))
    assert (glance.ones == harmony.ones).all()
    assert not np.allclose(glance.raw, harmony.raw)
    many = simulate(survey(method, 3.0), shares, 300, runs=4_000, rng=4)
    spread = many.raw.std(axis=0) / math.sqrt(4_000)
    assert (np.abs(many.raw.mean(axis=0) - shares) < 5 * spread).all()


def test_one_report_a_round_is_drawn_without_replacement() -> None:
    # ε so large that nothing is flipped: what is left is the hypergeometric law itself.
    told = simulate(survey(epsilon=40.0, rounds=1), np.array([0.3]), 200, runs=500, rng=1)
    assert told.errors == pytest.approx(0.0, abs=1e-12)
    half = simulate(survey(epsilon=40.0, rounds=2), np.full(2, 0.3), 50, runs=20_000, rng=1)
    n25 = half.ones[half.reporters[:, 0] == 25, 0]
    assert only_fits(n25, lambda y: hypergeom.cdf(y, 50, 15, 25), off=0.1)
    assert not only_fits(n25, lambda y: binom.cdf(y, 25, 0.3), off=0.1)


# T = 50, N = 10,000, mean of max |estimate − share|: an independent simulation of 4,000 runs.
KNOWN = [
    ("glance", 1.0, 0.5, 0.192),
    ("glance", 8.0, 0.5, 0.088),
    ("glance", 1.0, 0.9995, 0.171),
    ("glance", 4.0, 0.9995, 0.026),
    ("harmony", 2.0, 0.5, 0.164),
    ("harmony", 8.0, 0.9995, 0.176),
    ("harmony-signed", 1.0, 0.5, 0.191),
    ("rappor", 1.0, 0.5, 1.25),
]


@pytest.mark.parametrize(("method", "epsilon", "share", "error"), KNOWN)
def test_known_errors(method: str, epsilon: float, share: float, error: float) -> None:
    told = simulate(survey(method, epsilon, 50), np.full(50, share), 10_000, runs=1_000, rng=1)
    assert told.mean_error == pytest.approx(error, rel=0.025)


def test_blocks_hear_everyone_and_every_round_alike() -> None:
    told = simulate(survey(rounds=7), np.full(7, 0.5), 24, runs=2_000, rng=1, blocks=True)
    assert (told.reporters.sum(axis=1) == 24).all()
    assert set(np.unique(told.reporters)) == {3, 4}
    assert only_counts_fit((told.reporters == 4).sum(axis=0), np.full(7, 1 / 7), [])
    bits = (seeded(1).random((24, 7)) < 0.5).astype(np.uint8)
    by_user = simulate(survey(rounds=7), bits, runs=200, rng=1, blocks=True)
    assert set(np.unique(by_user.reporters)) == {3, 4}
    slots = survey("masks", rounds=7, slots=3)
    several = simulate(slots, np.full(7, 0.5), 24, runs=200, rng=1, blocks=True)
    assert (several.reporters.sum(axis=1) == 72).all()
    assert several.reporters.min() >= 9


def test_tickets_in_row_order_do_not_stratify() -> None:
    # If neighbours in the matrix got neighbouring tickets, each round would hear exactly half.
    bits = np.repeat(np.array([[1], [0]], np.uint8), 100, axis=0) * np.ones(10, np.uint8)
    told = simulate(survey(epsilon=40.0, rounds=10), bits, runs=200, rng=1, blocks=True)
    assert told.errors.mean() > 0.1


def test_smoothing_helps_where_nothing_changes() -> None:
    told = simulate(survey(rounds=50), np.full(50, 0.4), 10_000, runs=50, rng=1)
    assert told.smoothed.shape == told.raw.shape
    assert told.smoothed_errors.mean() < 0.6 * told.mean_error


def test_a_silent_round_counts_as_the_worst_answer() -> None:
    told = simulate(survey(rounds=4), np.array([0.0, 1.0, 0.5, 0.0]), 2, runs=20, rng=1)
    assert np.isnan(told.raw).any(axis=1).all()
    assert (told.errors >= 0.5).all()
    assert np.isfinite(told.errors).all()


def test_seeds_progress_and_standard_error() -> None:
    seen: list[tuple[int, int]] = []

    def run(seed: int | None) -> Simulation:
        return simulate(
            survey(rounds=1000),
            np.full(1000, 0.5),
            500,
            runs=600,
            rng=seed,
            progress=lambda done, total: seen.append((done, total)),
        )

    first, again, other = run(1), run(1), run(None)
    assert (first.raw == again.raw)[~np.isnan(first.raw)].all()
    assert not (first.ones == other.ones).all()
    assert seen[-1] == (600, 600)
    assert len(seen) > 3
    expected = first.errors.std(ddof=1) / math.sqrt(600)
    assert first.standard_error == pytest.approx(expected)
    assert math.isnan(simulate(survey(), np.zeros(3), 5).standard_error)


def test_shares_become_whole_users() -> None:
    told = simulate(survey(), np.array([0.26, 0.5, 0.74]), 4)
    assert told.truth.tolist() == [0.25, 0.5, 0.75]
    assert simulate(survey(), np.array([[True, False, True]])).truth.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("signal", "users", "message"),
    [
        (np.zeros(4), 10, "3 rounds"),
        (np.zeros((2, 2, 3)), 10, "3 rounds"),
        (np.zeros(3), None, "Expected users"),
        (np.zeros(3), 0, "users=0 >= 1"),
        (np.zeros(3), 10**9, "users=1000000000 < "),
        (np.array([0.0, 1.5, 0.0]), 10, r"shares in \[0, 1\]"),
        (np.array([0.0, np.nan, 0.0]), 10, "finite"),
        (np.full((4, 3), 2, np.uint8), None, "matrix of 0 and 1"),
        (np.zeros((4, 3)), None, "matrix of 0 and 1"),
        (np.zeros((4, 3), np.uint8), 5, "users=5 to be the matrix's 4"),
    ],
)
def test_mistakes_are_told(signal: Any, users: int | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate(survey(), signal, users)
    with pytest.raises(InvalidInput, match="runs"):
        simulate(survey(), np.zeros(3), 5, runs=0)
