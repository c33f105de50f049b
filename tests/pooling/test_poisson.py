"""Pools of counts: what a row can move, what the sums say, where they lead.

Rows have norm 3, and the contract's targets are within 50, which stands for 12 events: a wrong
unit shows.
"""

import dataclasses
import math
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import minimize

from sudare.audit import audit
from sudare.calibration import poisson_session_sensitivity
from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import account
from sudare.foundations.randomness import seeded
from sudare.learners import solve
from sudare.pooling import (
    CountScale,
    NoiseShares,
    PoolPlan,
    PoolTerms,
    Session,
    pooled_release,
    read_plan,
    session_steps,
    trust_pooled,
    write_pooled,
)
from sudare.pooling._estimate import newton_step
from sudare.pooling._poisson import count_scale, poisson_from_moments, prior_stds
from sudare.pooling._sessions import LARGEST_POISSON, POISSON_WEIGHT
from sudare.pooling._sums import MomentSums, read_newton
from sudare.releases import Contract, PooledRelease
from tests.pooling import pools
from tests.pooling.pools import NUMBERS, Party, Pool
from tests.pooling.test_sums import naive_rows
from tests.statistical import FALSE_ALARM

Array = NDArray[np.float64]
MOST = 12
SCALE = CountScale(MOST, 4.0)
NO_CONSTANT = Contract(features=2, row_norm=3.0, target_bound=50.0)


def counters(many: int = 3, rows: int = 20, slope: float = 0.5) -> list[Party]:
    """Organisations whose targets are counts: 0 is −50, 12 is 50."""
    made = []
    for number, each in enumerate(pools.parties(many, NUMBERS, rows)):
        table = np.clip(each.table, -2, 2)
        events = seeded(90 + number).poisson(np.exp(slope * table[:, 0] - 0.3))
        made.append(dataclasses.replace(each, table=table, targets=coded(events)))
    return made


def coded(events: Any) -> Array:
    return np.minimum(np.asarray(events, dtype=float), MOST) / MOST * 100 - 50


def plan(who: list[Party], contract: Contract = NUMBERS, **changed: Any) -> PoolPlan:
    settings: dict[str, Any] = {"kind": "poisson", "most_count": MOST}
    return pools.plan(who, contract, **settings | changed)


@cache
def session(contract: Contract = NUMBERS) -> Session:
    return PoolTerms.of(plan(pools.parties(3), contract)).sessions[1]


def naive(contract: Contract, each: Party, theta: Array) -> tuple[Array, Array]:
    """Row by row, as the definition says."""
    p = contract.dimension
    score, hessian = np.zeros(p), np.zeros((p, p))
    for row, target in zip(naive_rows(contract, each.table), each.targets.tolist(), strict=True):
        mean = min(MOST, math.exp(sum(x * t for x, t in zip(row, theta.tolist(), strict=True))))
        events = round((target + 50) / 100 * MOST)
        for i in range(p):
            score[i] += (events - mean) * row[i]
            for j in range(p):
                hessian[i, j] += min(mean, 4.0) * row[i] * row[j]
    return score, hessian


class TestSums:
    @pytest.mark.parametrize("length", [0.0, 0.7, 5.0, 64.0])
    def test_against_loops(self, length: float) -> None:
        here, theta = session(), length * np.array([0.6, 0.0, -0.8])
        half = MOST * 2.0 ** here.shares().grid_exponent / 2
        for each in counters(rows=600):
            steps = session_steps(here, NUMBERS, each.table, each.targets, theta, SCALE)
            found = read_newton(here, steps, theta)
            score, hessian = naive(NUMBERS, each, theta)
            assert MOST * found.score == pytest.approx(score, abs=1.001 * half)
            rough = 1.5 * half / MOST * 4.0 / POISSON_WEIGHT
            assert 4.0 * found.hessian == pytest.approx(hessian, abs=rough)

    def test_needs_coefficients_and_a_scale(self) -> None:
        with pytest.raises(InvalidInput, match="theta"):
            session_steps(session(), NUMBERS, np.ones((4, 2)), np.ones(4), None, SCALE)
        with pytest.raises(InvalidInput, match="scale"):
            session_steps(session(), NUMBERS, np.ones((4, 2)), np.ones(4), np.ones(3))

    @pytest.mark.parametrize("contract", [NO_CONSTANT, NUMBERS])
    @pytest.mark.parametrize("length", [0.0, 1.0, 64.0])
    def test_a_row_moves_them_by_what_the_noise_hides(
        self, contract: Contract, length: float
    ) -> None:
        rng, here = seeded(5), session(contract)
        theta = np.zeros(contract.dimension)
        theta[0] = length
        rest, y = rng.standard_normal((700, 2)), coded(rng.poisson(2.0, 700))

        def moved(flat: Any) -> float:
            ends = [
                session_steps(
                    here,
                    contract,
                    np.vstack([rest, one[:2] * contract.row_norm]),
                    np.append(y, 200 * one[2]),
                    theta,
                    SCALE,
                )
                for one in flat.reshape(2, 3)
            ]
            return float(np.linalg.norm(ends[0] - ends[1])) / here.shares().hidden

        found = [moved(3 * rng.standard_normal(6)) for _ in range(200)]
        # Both rows across θ but for a little: one with the largest mean and no event, the other
        # the other way round.
        found.append(moved(np.array([0.1, 1.0, -1.0, -0.1, 1.0, 1.0])))
        for _ in range(3):
            start = 2 * rng.standard_normal(6)
            best: Any = minimize(lambda at: -moved(at), start, method="Nelder-Mead")  # type: ignore[call-overload]
            found.append(-best.fun)
        assert max(found) <= 1.0
        if length == 64.0:
            assert max(found) > (0.99 if contract is NO_CONSTANT else 0.9)

    def test_the_noise_is_for_any_model_with_these_bounds(self) -> None:
        """Residuals and means up to the largest count, whatever the coefficients are."""
        shares = session().shares(np.array([0.0, 0.0, 60.0]))
        assert shares == session().shares(np.zeros(3))
        expected = poisson_session_sensitivity(MOST, MOST, POISSON_WEIGHT) / MOST
        assert expected == pytest.approx(math.sqrt(4 + POISSON_WEIGHT**2 / 2), rel=1e-9)
        assert shares.hidden * 2.0**shares.grid_exponent == pytest.approx(expected, rel=1e-3)
        assert shares.entries == 9


class TestAudit:
    """M = 3, of which one colludes: a session without its shares, along the widest difference."""

    @pytest.mark.parametrize(("quieter", "violated"), [(1.0, False), (0.8, True)])
    def test_one_session(self, quieter: float, violated: bool) -> None:
        who = pools.parties(3, NO_CONSTANT)
        terms = PoolTerms.of(
            plan(who, NO_CONSTANT, epsilon=1.5, delta=0.1, colluders=1, most_rows=1000)
        )
        here = terms.sessions[2]
        shares = here.shares()
        shares = dataclasses.replace(shares, loudness=quieter * shares.loudness)
        theta, rest = np.array([64.0, 0.0]), np.tile([0.0, 1.0], (20, 1))

        def steps(last: tuple[float, float]) -> NDArray[np.int64]:
            side, events = last
            table = np.vstack([rest, [side, 3.0]])
            targets = np.append(coded(np.full(20, 2)), coded(events))
            return session_steps(here, NO_CONSTANT, table, targets, theta, SCALE)

        one, other = (0.3, 0.0), (-0.3, float(MOST))
        apart = (steps(one) - steps(other)).astype(np.float64)
        # Of the five numbers two differ by enough to look at.
        seen = np.abs(apart) > 0.1 * np.abs(apart).max()
        assert seen.sum() == 2
        assert np.linalg.norm(apart[seen]) > 0.98 * shares.hidden

        def attack(last: tuple[float, float], runs: int, rng: Generator) -> Any:
            found = np.tile(steps(last)[seen], (runs, 1)).astype(np.float64)
            for _ in range(terms.plan.honest):
                drawn = shares.add_to([0] * (runs * 2))
                found += np.array(drawn, dtype=np.float64).reshape(runs, 2)
            return found @ (apart[seen] / np.linalg.norm(apart[seen]))

        priced = here.event(terms.plan.honest)
        claimed = account([priced], 0.1).epsilon()
        finding = audit(
            attack,
            other,
            one,
            epsilon=claimed,
            delta=0.1,
            runs=40_000,
            confidence=1 - FALSE_ALARM,
            rng=1,
        )
        assert finding.violated == violated
        assert finding.epsilon_lower > 0.6 * claimed


class TestEstimate:
    def test_without_noise_it_is_the_regression_of_all_rows(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(NoiseShares, "add_to", lambda noise, steps: steps)
        who = counters(rows=700)
        board = Pool(who, plan(who, epsilon=100.0)).run()  # little noise is reckoned with
        rows = np.vstack([naive_rows(NUMBERS, each.table) for each in who])
        events = np.rint((np.concatenate([each.targets for each in who]) + 50) / 100 * MOST)
        best = np.zeros(3)
        for _ in range(60):
            means = np.exp(rows @ best)
            best = best + solve((rows * means[:, None]).T @ rows, rows.T @ (events - means))
        last = board.newton(2)
        noise = last.noise_std, last.hessian_noise_std
        found = newton_step(last.start, last.score, last.hessian, *noise, prior_stds(NUMBERS))
        exact = newton_step(last.start, last.score, last.hessian, 1e-9, 1e-9)
        # Far nearer than sampling lets one see, and the start is near already.
        deviations = np.sqrt(np.diag(exact.covariance))
        assert (np.abs(exact.theta - best) / deviations).max() < 0.1
        assert np.linalg.norm(board.newton(1).start - best) < 0.5 * np.linalg.norm(best)
        assert (np.sqrt(np.diag(found.covariance)) > deviations).all()
        assert last.noise_std == pytest.approx(MOST * board.terms.sessions[2].shares().noise_std(3))
        assert last.hessian_noise_std == pytest.approx(last.noise_std / POISSON_WEIGHT)
        # The mean is below 1 and above ½, so weights of the first step are cut at 4, a third of
        # the largest count; those of the last are not.
        assert 0.5 < events.mean() < 1
        assert (board.count_scale(1), board.count_scale(2)) == (SCALE, CountScale(MOST, 12.0))
        first = board.newton(1)
        assert first.hessian_noise_std == pytest.approx(first.noise_std / 3 / POISSON_WEIGHT)
        release = pooled_release(board)
        assert isinstance(release, PooledRelease)
        assert release.numbers == 3 + 6 + 1 + 1

    def test_the_start_is_the_truth_for_normal_rows(self) -> None:
        rng, n, constant = seeded(4), 400_000, 0.3
        rows = rng.standard_normal((n, 2)) * [0.5, 0.3] + [0.2, -0.4]
        rates = np.array([0.8, -0.5])
        events = rng.poisson(np.exp(rows @ rates - 1.0))
        assert events.max() <= MOST
        whole = np.column_stack([rows, np.full(n, constant)])
        y = 2 * events / MOST - 1
        sums = MomentSums(whole.T @ y, whole.T @ whole, float(y @ y), 0.0)
        found = poisson_from_moments(sums, n, 1e-9, constant, MOST)
        assert found == pytest.approx([0.8, -0.5, -1.0 / constant], abs=0.05)

    @pytest.mark.parametrize(
        ("level", "heaviest"), [(-0.99, 0.25), (-0.9, 4.0), (0.5, 12.0), (-3.0, 0.0625), (9, 12)]
    )
    def test_weights_are_cut_where_few_rows_are(self, level: float, heaviest: float) -> None:
        """A mean of .06, of .6, of 9; of less than nothing, and of more than all."""
        sums = MomentSums(np.array([0.0, 0.3 * level * 50]), np.eye(2), 1.0, 0.0)
        assert count_scale(sums, 50, 0.3, MOST) == CountScale(MOST, heaviest)

    def test_the_start_of_nonsense_is_finite(self) -> None:
        rng = seeded(6)
        for _ in range(20):
            noise = rng.standard_normal((3, 3)) * 1e3
            sums = MomentSums(1e3 * rng.standard_normal(3), noise + noise.T, 7.0, 0.0)
            assert np.isfinite(poisson_from_moments(sums, 50, 1e3, 0.24, MOST)).all()

    def test_without_a_constant_feature_it_begins_at_zero(self) -> None:
        sums = MomentSums(np.ones(2), np.eye(2), 1.0, 0.0)
        assert poisson_from_moments(sums, 10, 1.0, 0.0, MOST).tolist() == [0.0, 0.0]
        assert prior_stds(NO_CONSTANT).tolist() == [10.0, 10.0]

    def test_real_noise_leaves_the_coefficients_near(self) -> None:
        """ε = 5, 15,000 rows: the expected error is .2; it fails at five times that."""
        who = counters(5, rows=3000)
        board = Pool(who, plan(who, epsilon=5.0)).run()
        last = board.newton(2)
        noise = last.noise_std, last.hessian_noise_std
        theta = newton_step(last.start, last.score, last.hessian, *noise, prior_stds(NUMBERS)).theta
        unit = NUMBERS.full_norm
        assert theta[0] / unit == pytest.approx(0.5, abs=0.35)
        assert math.hypot(*board.theta(2)) < LARGEST_POISSON  # type: ignore[misc]


class TestPlan:
    def test_costs_what_a_logistic_pool_does(self) -> None:
        who = pools.parties(3)
        here, other = PoolTerms.of(plan(who)), PoolTerms.of(pools.plan(who, kind="logistic"))
        # One number more is summed: Σy².
        assert [each.entries for each in here.sessions] == [11, 9, 9]
        for (_, one), (_, two) in zip(here.curve, other.curve, strict=True):
            assert one == pytest.approx(two, rel=1e-6)

    def test_counts_are_written_only_where_there_are_any(self, tmp_path: Any) -> None:
        who = pools.parties(3)
        made = plan(who)
        path = tmp_path / "pool.toml"
        path.write_text(made.to_toml())
        assert "most_count = 12" in made.to_toml()
        assert read_plan(path).digest() == made.digest()
        assert made.digest() != plan(who, most_count=13).digest()
        plain = pools.plan(who, NUMBERS)
        assert b"most_count" not in msgspec.json.encode(plain)
        assert "most_count" not in plain.to_toml()

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"most_count": msgspec.UNSET}, "the target is no count"),
            ({"most_count": 0}, "most_count"),
            ({"most_count": 10**9}, "most_count"),
            ({"kind": "moments", "contract": pools.CLASSES}, "two classes"),
            ({"kind": "logistic"}, "'moments', 'poisson', or 'gradients'"),
        ],
    )
    def test_what_is_refused(self, changed: dict[str, Any], reason: str) -> None:
        with pytest.raises(InvalidInput, match=reason):
            plan(pools.parties(3), **changed)

    def test_it_opens_as_a_release_with_a_certificate(self) -> None:
        who = counters()
        here = Pool(who, plan(who))
        board = here.run()
        trusted = trust_pooled(write_pooled(board), here.keyring)
        assert trusted.release == pooled_release(board)
        told = trusted.signed.certificate.parameters
        assert (told["kind"], told["most_count"], told["numbers"]) == ("poisson", 12, 29)
