"""Where sessions are evaluated: on rows of laws that a start from moments does not expect."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray
from scipy.special import expit

from sudare.exchange import load_keyring
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import Generator, seeded
from sudare.learners import logistic_from_moments
from sudare.pooling import open_pooled
from sudare.pooling._estimate import newton_step
from sudare.pooling._sums import MomentSums
from sudare.pooling._walk import (
    MOST_SCORES,
    bounded_step,
    logistic_start,
    positive,
    shortened,
)
from tests.pooling import pools
from tests.pooling.pools import Pool

Array = NDArray[np.float64]
GOLDEN = Path(__file__).parents[1] / "golden"
CONSTANT, N, NOISE = 0.24, 4000, 9.0
TRUTH = np.array([-0.9, 1.5, 1.4, 1.3, 4.3, -0.6 / 0.24])


def skewed(rng: Generator) -> tuple[Array, Array]:
    """Three columns of two categories, the rarest in a tenth of the rows, and two long tails."""
    pulls = np.sqrt(0.2) * rng.standard_normal((N, 1)) + np.sqrt(0.8) * rng.standard_normal((N, 5))
    tails = (np.clip(np.exp(0.3 + 0.6 * pulls[:, :2]), 0, 10) - 2) / 3
    classes = np.where(pulls[:, 2:] > [0.0, 0.6745, 1.2816], 1.0, -1.0)
    rows = np.column_stack([tails / np.sqrt(5), classes / np.sqrt(5), np.full(N, CONSTANT)])
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    return rows, np.where(rng.random(N) < expit(rows @ TRUTH), 1.0, -1.0)


def symmetric(rng: Generator, p: int = 6) -> Array:
    noise = rng.standard_normal((p, p))
    return np.asarray(noise + noise.T) / np.sqrt(2)


def moments(rows: Array, y: Array, rng: Generator) -> MomentSums:
    cross = rows.T @ y + NOISE * rng.standard_normal(rows.shape[1])
    return MomentSums(cross, rows.T @ rows + NOISE * symmetric(rng, rows.shape[1]), None, 0.0)


def session(rows: Array, y: Array, theta: Array, rng: Generator) -> tuple[Array, Array]:
    wrong = expit(-y * (rows @ theta))
    hessian = (rows * (wrong * (1 - wrong))[:, None]).T @ rows
    score = (y * wrong) @ rows + NOISE * rng.standard_normal(len(theta))
    return score, hessian + NOISE / 4 * symmetric(rng, len(theta))


def away(rows: Array, theta: Array) -> float:
    """Of the scores that matter, by root mean square: where 1 is, nothing is told."""
    likely = expit(rows @ TRUTH)
    weights = likely * (1 - likely)
    return float(np.sqrt(weights @ (rows @ (theta - TRUTH)) ** 2 / weights.sum()))


def walked(start: Callable[..., Array], bounded: bool, rows: Array, y: Array, seed: int) -> float:
    rng = seeded(seed)
    theta = start(moments(rows, y, rng))
    score, hessian = session(rows, y, theta, rng)
    if bounded:
        found = bounded_step(theta, score, hessian, (NOISE, NOISE / 4), CONSTANT, flattens=True)
    else:
        found = newton_step(theta, score, hessian, NOISE, NOISE / 4).theta
    return away(rows, found)


def test_skewed_rows_are_walked_to_where_an_unbounded_walk_is_led_away() -> None:
    """Thirty pools with fixed seeds."""
    ends = []
    for seed in range(30):
        rows, y = skewed(seeded(100 + seed))
        old = walked(
            lambda s: logistic_from_moments(s.cross, s.gram, N, NOISE, CONSTANT),
            False, rows, y, seed,
        )  # fmt: skip
        new = walked(lambda s: logistic_start(s, N, NOISE, CONSTANT), True, rows, y, seed)
        ends.append((old, new))
    old_ends, new_ends = np.array(ends).T
    assert np.mean(old_ends < 1) <= 0.1
    assert np.median(new_ends) < 0.5
    assert np.mean(new_ends < 1) >= 0.9


def test_the_start_of_normal_rows_is_the_truth() -> None:
    rng, n = seeded(1), 400_000
    truth = np.array([1.5, -1.0, -0.7 / CONSTANT])
    rows = np.column_stack(
        [rng.standard_normal((n, 2)) * [0.4, 0.5] + [0.3, -0.2], np.full(n, CONSTANT)]
    )
    y = np.where(rng.random(n) < expit(rows @ truth), 1.0, -1.0)
    found = logistic_start(MomentSums(rows.T @ y, rows.T @ rows, None, 0.0), n, 1e-9, CONSTANT)
    assert found == pytest.approx(truth, abs=0.05)


def test_without_a_constant_feature_it_is_the_truth_as_well() -> None:
    rng, n, truth = seeded(2), 400_000, np.array([1.5, -1.0])
    rows = rng.standard_normal((n, 2)) * [0.4, 0.5]
    y = np.where(rng.random(n) < expit(rows @ truth), 1.0, -1.0)
    found = logistic_start(MomentSums(rows.T @ y, rows.T @ rows, None, 0.0), n, 1e-9, 0.0)
    assert found == pytest.approx(truth, abs=0.05)
    step = bounded_step(np.zeros(2), 400.0 * truth, 400.0 * np.eye(2), (1e-9, 1e-9), 0.0)
    assert 0 < step @ truth <= 1.5 * truth @ truth


def test_scores_begin_no_farther_apart_than_they_may() -> None:
    """Certain outcomes: there is no end to the coefficients that moments ask for."""
    rng = seeded(3)
    rows = np.column_stack([0.6 * rng.standard_normal((N, 2)), np.full(N, CONSTANT)])
    y = np.where(rows[:, 0] > 0, 1.0, -1.0)
    found = logistic_start(MomentSums(rows.T @ y, rows.T @ rows, None, 0.0), N, 1e-9, CONSTANT)
    assert np.var(rows @ found) == pytest.approx(MOST_SCORES, rel=0.01)


def test_a_step_that_noise_made_moves_scores_by_one_at_most() -> None:
    rng = seeded(4)
    hessian = np.diag([60.0, 40.0, 50.0 * CONSTANT**2])
    far = []
    for _ in range(200):
        score = 100.0 * rng.standard_normal(3)
        step = bounded_step(np.zeros(3), score, hessian, (100.0, 25.0), CONSTANT, flattens=True)
        far.append(float(step @ hessian @ step) / float(np.trace(hessian)))
    assert max(far) <= 2 * (1 + 1e-9)
    assert np.median(far) <= 1
    # What is more than noise may go farther, and is lengthened: weights fall on the way.
    start = np.array([1.0, 0.5, 0.0])
    hessian = hessian + 1000 * np.diag([0.2, 0.2, CONSTANT**2])
    score = hessian @ [0.6, 0.3, 0.0]
    plain = bounded_step(start, score, hessian, (0.1, 0.1), CONSTANT) - start
    longer = bounded_step(start, score, hessian, (0.1, 0.1), CONSTANT, flattens=True) - start
    assert longer == pytest.approx(plain * (longer[0] / plain[0]))
    assert 1.05 < longer[0] / plain[0] < 2


def test_a_small_change_of_the_sums_makes_a_small_one() -> None:
    """Machines round differently; they must come to the same coefficients."""
    rng = seeded(5)
    rows, y = skewed(rng)
    sums = moments(rows, y, rng)
    start = logistic_start(sums, N, NOISE, CONSTANT)
    score, hessian = session(rows, y, start, rng)
    end = bounded_step(start, score, hessian, (NOISE, NOISE / 4), CONSTANT, flattens=True)
    for _ in range(50):
        moved = MomentSums(sums.cross + 1e-9 * rng.standard_normal(6), sums.gram, None, 0.0)
        assert logistic_start(moved, N, NOISE, CONSTANT) == pytest.approx(start, abs=1e-9)
        other = bounded_step(
            start, score + 1e-9 * rng.standard_normal(6), hessian, (NOISE, NOISE / 4), CONSTANT,
            flattens=True,
        )  # fmt: skip
        assert other == pytest.approx(end, abs=1e-9)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6, 1e15])
@pytest.mark.parametrize("constant", [0.0, CONSTANT])
def test_sums_that_no_rows_can_have_lead_somewhere(size: float, constant: float) -> None:
    rng = seeded(6)
    for _ in range(20):
        sums = MomentSums(size * rng.standard_normal(6), size * symmetric(rng), None, 0.0)
        start = logistic_start(sums, 50, 3.0, constant)
        assert np.isfinite(start).all()
        score, hessian = size * rng.standard_normal(6), size * symmetric(rng)
        for flattens in (False, True):
            found = bounded_step(start, score, hessian, (3.0, 1.0), constant, flattens=flattens)
            assert np.isfinite(found).all()


def test_shortened_to_a_square_in_a_metric() -> None:
    metric = np.array([[4.0, 1.0], [1.0, 9.0]])
    step = np.array([3.0, -2.0])
    cut = shortened(step, metric, 5.0)
    assert cut @ metric @ cut == pytest.approx(5.0)
    assert cut / step == pytest.approx([cut[0] / step[0]] * 2)
    assert shortened(step, metric, 1000.0) is step
    assert positive(np.diag([2.0, -3.0])) == pytest.approx(np.diag([2.0, 0.0]))


class TestWhichWalk:
    def test_plans_of_before_keep_their_digest_and_their_walk(self) -> None:
        """A pooled file that was made before there was a choice of walks."""
        data = (GOLDEN / "logistic-1.pooled").read_bytes()
        board = open_pooled(data, load_keyring(GOLDEN / "keyring-logistic-1.toml"))
        plan = board.terms.plan
        assert plan.walk is msgspec.UNSET
        assert plan.digest() == "70115bb02a357d2487f96027019d851d2b1369b4da3832443b9ad6a046268bbf"
        assert board.theta(1) == pytest.approx([5.8037138, -0.06376934, -2.75872135], abs=1e-6)
        assert board.theta(2) == pytest.approx([6.45738602, -0.50132847, -4.28598213], abs=1e-6)
        said = board.newton(2)
        assert said.score == pytest.approx([-3.93847656, -0.04858398, -0.61425781], abs=1e-6)

    def test_both_walks_can_be_walked_and_differ(self) -> None:
        who = pools.parties(3, rows=60)
        before = pools.plan(who, kind="logistic", epsilon=8.0)
        boards = [Pool(who, each).run() for each in (before, replace(before, walk="bounded"))]
        for board in boards:
            assert board.session is None
            assert np.isfinite(board.newton(2).score).all()
        starts = [board.theta(1) for board in boards]
        assert starts[0] is not None
        assert starts[1] is not None
        assert np.abs(starts[0] - starts[1]).max() > 0.1

    def test_only_logistic_pools_have_a_choice(self) -> None:
        who = pools.parties(3)
        for kind in ("moments", "gradients"):
            with pytest.raises(InvalidInput, match="walk"):
                pools.plan(who, kind=kind, walk="bounded")
