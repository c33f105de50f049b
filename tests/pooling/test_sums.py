"""Sums of rows against loops over rows, and how far one row moves them, by search.

Contracts have rows of norm 3 and targets up to 50, so that a wrong unit shows.
"""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from sudare.calibration import SESSION_WEIGHT, session_sensitivity
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.pooling import NoiseShares, PoolTerms, Session, pooled_release, session_steps
from sudare.pooling._sums import agreed_theta, read_moments, read_newton
from sudare.releases import Contract, PooledRelease
from tests.pooling import pools
from tests.pooling.pools import CLASSES, NUMBERS, Party, Pool

Array = NDArray[np.float64]
NO_CONSTANT = Contract(features=2, row_norm=3.0, target_bound=50.0)
THREE = Contract(features=3, row_norm=3.0, classes=(0, 1))


@cache
def session(contract: Contract, number: int = 0) -> Session:
    kind = "logistic" if number else "moments"
    return PoolTerms.of(pools.plan(pools.parties(3), contract, kind=kind)).sessions[number]


def naive_rows(contract: Contract, table: Array) -> list[list[float]]:
    """Shortened to norm 3, the constant added, divided by the norm of both."""
    whole = math.hypot(contract.row_norm, contract.constant)
    found = []
    for row in table.tolist():
        factor = min(1.0, contract.row_norm / max(math.hypot(*row), 1e-300))
        long = [factor * x for x in row] + ([contract.constant] if contract.constant else [])
        found.append([x / whole for x in long])
    return found


def naive_moments(contract: Contract, each: Party) -> dict[str, Any]:
    rows = naive_rows(contract, each.table)
    y = [t / (contract.target_bound or 1.0) for t in each.targets.tolist()]
    p, n = len(rows[0]), len(rows)
    cross = [math.fsum(t * row[i] for t, row in zip(y, rows, strict=True)) for i in range(p)]
    gram = [[math.fsum(row[i] * row[j] for row in rows) for j in range(p)] for i in range(p)]
    length = min(math.hypot(*cross), 0.5 * n)
    return {
        "cross": np.array(cross),
        "gram": np.array(gram),
        "squares": math.fsum(t * t for t in y),
        "apart": length**2 / n if n >= 10 else 0.0,
    }


def naive_newton(contract: Contract, each: Party, theta: Array) -> tuple[Array, Array]:
    p = contract.dimension
    score, hessian = np.zeros(p), np.zeros((p, p))
    for row, y in zip(naive_rows(contract, each.table), each.targets.tolist(), strict=True):
        margin = y * sum(x * t for x, t in zip(row, theta.tolist(), strict=True))
        wrong = 1 / (1 + math.exp(margin))
        for i in range(p):
            score[i] += y * wrong * row[i]
            for j in range(p):
                hessian[i, j] += wrong * (1 - wrong) * row[i] * row[j]
    return score, hessian


class TestAgainstLoops:
    @pytest.mark.parametrize("contract", [CLASSES, NUMBERS, NO_CONSTANT])
    def test_moments(self, contract: Contract) -> None:
        here = session(contract)
        half = 2.0 ** here.shares().grid_exponent / 2
        for each in pools.parties(3, contract, rows=15):
            steps = session_steps(here, contract, each.table, each.targets)
            found, naive = read_moments(here, steps), naive_moments(contract, each)
            assert found.cross == pytest.approx(naive["cross"], abs=1.001 * half)
            assert found.gram == pytest.approx(naive["gram"], abs=1.5 * half)
            assert found.apart == pytest.approx(naive["apart"], abs=4.01 * half)
            if contract.classes is None:
                assert found.squares == pytest.approx(naive["squares"], abs=1.5 * half)
            else:
                assert found.squares is None

    @pytest.mark.parametrize("length", [0.0, 2.0, 15.0])
    def test_newton(self, length: float) -> None:
        here, theta = session(CLASSES, 1), length * np.array([0.6, 0.0, -0.8])
        half = 2.0 ** here.shares(theta).grid_exponent / 2
        for each in pools.parties(3, rows=15):
            steps = session_steps(here, CLASSES, each.table, each.targets, theta)
            found = read_newton(here, steps, theta)
            score, hessian = naive_newton(CLASSES, each, theta)
            assert found.score == pytest.approx(score, abs=1.001 * half)
            assert found.hessian == pytest.approx(hessian, abs=1.5 * half / SESSION_WEIGHT)

    def test_many_blocks_of_rows(self) -> None:
        (each,) = pools.parties(1, NUMBERS, rows=1300)
        here = session(NUMBERS)
        found = read_moments(here, session_steps(here, NUMBERS, each.table, each.targets))
        naive = naive_moments(NUMBERS, each)
        assert found.gram == pytest.approx(naive["gram"], abs=2.0 ** here.shares().grid_exponent)

    def test_rows_out_of_bounds_are_brought_in(self) -> None:
        here = session(NUMBERS)
        table, far = np.array([[3.0, 0.0]] * 12), np.array([[3e9, 0.0]] * 12)
        one = session_steps(here, NUMBERS, table, np.full(12, 50.0))
        other = session_steps(here, NUMBERS, far, np.full(12, 7e5))
        assert np.abs(one - other).max() <= 1

    def test_apart_leaves_out_small_organisations_and_cuts_long_means(self) -> None:
        here = session(NO_CONSTANT)

        def apart(n: int, y: float) -> float:
            steps = session_steps(here, NO_CONSTANT, np.array([[3.0, 0.0]] * n), np.full(n, y))
            return read_moments(here, steps).apart

        assert apart(9, 50.0) == 0.0
        assert apart(10, 50.0) == pytest.approx(0.25 * 10, rel=1e-3)
        assert apart(10, 10.0) == pytest.approx(0.04 * 10, rel=1e-2)
        assert apart(400, 50.0) == pytest.approx(0.25 * 400, rel=1e-4)

    def test_what_is_refused(self) -> None:
        here = session(CLASSES)
        table, y = np.ones((4, 2)), np.ones(4)
        for rows, targets in ((table, y[:3]), (table[:0], y[:0])):
            with pytest.raises(InvalidInput, match="a target for each row"):
                session_steps(here, CLASSES, rows, targets)
        with pytest.raises(InvalidInput, match="10 numbers"):
            read_moments(here, np.zeros(9, dtype=np.int64))
        with pytest.raises(InvalidInput, match="coefficients"):
            session_steps(session(CLASSES, 1), CLASSES, table, y)


class KnownShares:
    """In place of OpenDP: every draw is on record."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drawn: list[list[int]] = []
        rng = seeded(11)

        def add_to(noise: NoiseShares, steps: list[int]) -> list[int]:
            share = np.rint(noise.scale * rng.standard_normal(len(steps))).astype(int).tolist()
            self.drawn.append(share)
            return [step + each for step, each in zip(steps, share, strict=True)]

        monkeypatch.setattr(NoiseShares, "add_to", add_to)


class TestWholePools:
    @pytest.mark.parametrize("many", [3, 5])
    @pytest.mark.parametrize(
        ("contract", "kind"), [(CLASSES, "moments"), (NUMBERS, "moments"), (CLASSES, "logistic")]
    )
    def test_sums_are_the_plain_sums_and_the_shares(
        self, many: int, contract: Contract, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        known = KnownShares(monkeypatch)
        who = pools.parties(many, contract)
        pool = Pool(who, pools.plan(who, contract, kind=kind, colluders=1))
        board = pool.run()
        for number, here in enumerate(pool.terms.sessions):
            theta = board.theta(number)
            shares = known.drawn[many * number : many * (number + 1)]
            plain = [
                session_steps(here, contract, each.table, each.targets, theta).tolist()
                for each in who
            ]
            expected = [sum(column) for column in zip(*plain, *shares, strict=True)]
            assert board.sum(number).tolist() == expected

    def test_with_real_shares(self) -> None:
        who = pools.parties(4)
        pool = Pool(who, pools.plan(who, kind="logistic"))
        board = pool.run()
        for number in range(3):
            noisy = [pool.noisy[each.name, number] for each in who]
            assert board.sum(number).tolist() == [sum(c) for c in zip(*noisy, strict=True)]

    def test_the_release_is_in_the_contracts_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With no noise at all: what leaves is the sum of the loops over all rows."""
        monkeypatch.setattr(NoiseShares, "add_to", lambda noise, steps: steps)
        who = pools.parties(3, NUMBERS)
        board = Pool(who, pools.plan(who, NUMBERS)).run()
        release = pooled_release(board)
        assert isinstance(release, PooledRelease)
        every = [naive_moments(NUMBERS, each) for each in who]
        rough = 3 * 2.0 ** board.terms.sessions[0].shares().grid_exponent
        assert release.cross_vector == pytest.approx(sum(m["cross"] for m in every), abs=rough)
        assert release.gram_matrix == pytest.approx(sum(m["gram"] for m in every), abs=rough)
        assert release.squares == pytest.approx(sum(m["squares"] for m in every), abs=rough)
        assert release.apart == pytest.approx(sum(m["apart"] for m in every), abs=4 * rough)
        assert (release.n, release.sizes) == (63, (20, 21, 22))


class TestSensitivity:
    """The last row is replaced by another; what it moves, in steps, is what the noise hides."""

    def moved(self, contract: Contract, rest: Array, y: Array, pair: Array) -> float:
        """`pair` holds two rows with their targets, in units of the contract."""
        here = session(contract)
        found = [
            session_steps(
                here,
                contract,
                np.vstack([rest, one[:-1] * contract.row_norm]),
                np.append(y, one[-1] * (contract.target_bound or 1.0)),
            )
            for one in pair
        ]
        return float(np.linalg.norm(found[0] - found[1])) / here.shares().hidden

    @pytest.mark.parametrize("contract", [NO_CONSTANT, NUMBERS])
    def test_moments_by_search(self, contract: Contract) -> None:
        rng = seeded(5)
        # 39 rows whose Σyx is at the end of where it counts: 0.5·40, less one step of a row.
        rest = np.tile([contract.row_norm, 0.0], (39, 1))
        y = np.full(39, 19.0 / 39 * 50.0)

        def objective(flat: Array) -> float:
            pair = flat.reshape(2, 3)
            rows = pair[:, :2] / np.maximum(1, np.linalg.norm(pair[:, :2], axis=1, keepdims=True))
            clipped = np.column_stack([rows, np.clip(pair[:, 2], -1, 1)])
            return -self.moved(contract, rest, y, clipped)

        found = [-objective(2 * rng.standard_normal(6)) for _ in range(300)]
        for _ in range(3):
            start = 2 * rng.standard_normal(6)
            found.append(-minimize(objective, start, method="Nelder-Mead").fun)
        assert max(found) <= 1.0
        if contract is NO_CONSTANT:  # a constant feature cannot be turned round
            opposite = np.array([[1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]])
            assert 0.99 < self.moved(contract, rest, y, opposite) <= 1.0
            assert max(found) > 0.9

    def test_without_the_last_number_it_would_be_two(self) -> None:
        """Far from where it counts, the same pair moves the others by 2, and that one by less."""
        rest, y = np.tile([3.0, 0.0], (39, 1)), np.zeros(39)
        pair = np.array([[1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]])
        assert self.moved(NO_CONSTANT, rest, y, pair) == pytest.approx(
            2 / math.hypot(2, 0.5), rel=2e-3
        )

    def test_apart_by_search(self) -> None:
        """min(‖s‖, n/2)²/n moves by at most 2 when s moves by 2, and by nearly as much."""
        rng = seeded(6)
        worst = 0.0
        for n in (10, 11, 50, 1000, 10**6):
            near = 0.5 * n + rng.normal(size=4000)
            length = np.concatenate([np.linspace(0, 0.5 * n + 4, 4000), near])
            start = np.column_stack([length, np.zeros_like(length)])
            angle = rng.uniform(0, 2 * np.pi, len(length))
            angle[::2] = 0.0
            end = start + 2 * np.column_stack([np.cos(angle), np.sin(angle)])
            values = [np.minimum(np.linalg.norm(s, axis=1), 0.5 * n) ** 2 / n for s in (start, end)]
            worst = max(worst, float(np.abs(values[0] - values[1]).max()))
        assert 1.99 < worst <= 2.0 + 1e-9

    @pytest.mark.parametrize("length", [0.0, 1.0, 5.0])
    def test_newton_by_search(self, length: float) -> None:
        here, theta = session(THREE, 1), length * np.array([0.6, 0.0, -0.8])
        rng = seeded(7)

        def vectors(rows: Array) -> Array:
            k, m = np.triu_indices(3)
            wrong = 1 / (1 + np.exp(rows @ theta))
            halves = np.where(k == m, 1 / math.sqrt(2), 1.0)
            outer = (wrong * (1 - wrong))[..., None] * rows[..., k] * rows[..., m] * halves
            return np.concatenate([wrong[..., None] * rows, SESSION_WEIGHT * outer], axis=-1)

        def inside(pairs: Array) -> Array:
            return pairs / np.maximum(1.0, np.linalg.norm(pairs, axis=-1, keepdims=True))

        def objective(flat: Array) -> float:
            one, other = vectors(inside(flat.reshape(2, 3)))
            return -float(np.linalg.norm(one - other))

        pairs = 2 * rng.standard_normal((20_000, 2, 3))
        found = vectors(inside(pairs))
        best = pairs[np.argsort(np.linalg.norm(found[:, 0] - found[:, 1], axis=-1))[-40::8]]
        widest = min((minimize(objective, pair.ravel()) for pair in best), key=lambda m: m.fun)
        pair = inside(widest.x.reshape(2, 3))
        rest = rng.standard_normal((20, 3))
        steps = [
            session_steps(here, THREE, np.vstack([rest, 3 * one]), np.ones(21), theta)
            for one in pair
        ]
        shares = here.shares(theta)
        apart = float(np.linalg.norm(steps[0] - steps[1]))
        assert apart <= shares.hidden
        in_units = apart * 2.0**shares.grid_exponent
        certified = session_sensitivity(length, SESSION_WEIGHT)
        assert 0.99 * certified < in_units < 1.001 * certified


class TestAgreedCoefficients:
    def test_are_short_and_on_a_grid(self) -> None:
        rng = seeded(8)
        for size in (1e-9, 1.0, 15.9, 16.0, 1e9, 1e300):
            theta = agreed_theta(size * rng.standard_normal(5), 16.0)
            assert math.hypot(*theta) <= 16.0
            assert np.array_equal(np.rint(theta * 2**20), theta * 2**20)
        assert agreed_theta(np.array([0.1, -0.2]), 16.0) == pytest.approx([0.1, -0.2], abs=1e-6)

    @pytest.mark.parametrize("wrong", [math.nan, math.inf])
    def test_of_what_is_no_number(self, wrong: float) -> None:
        assert agreed_theta(np.array([1.0, wrong]), 16.0).tolist() == [0.0, 0.0]
