"""Gradient sessions: what a row can move, what they cost, where they lead."""

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
from scipy.stats import chi

from sudare.audit import audit
from sudare.foundations.randomness import seeded
from sudare.learners import inverse
from sudare.pooling import (
    Descent,
    NoiseShares,
    PoolInvalid,
    PoolTerms,
    Session,
    pooled_release,
    session_steps,
    trust_pooled,
    write_pooled,
)
from sudare.pooling._plan import SPLITS
from sudare.pooling._sessions import CLIP, FARTHEST_THETA
from sudare.pooling._sums import read_gradient
from sudare.releases import Contract, PooledLearner
from tests.pooling import pools
from tests.pooling.pools import CLASSES, NUMBERS, Party, Pool
from tests.pooling.test_board import resigned
from tests.pooling.test_sums import naive_rows
from tests.statistical import FALSE_ALARM

Array = NDArray[np.float64]
NO_CONSTANT = Contract(features=2, row_norm=3.0, classes=("no", "yes"))
BOTH = pytest.mark.parametrize("contract", [CLASSES, NUMBERS])


@cache
def session(contract: Contract) -> Session:
    plan = pools.plan(pools.parties(3, contract), contract, kind="gradients")
    return PoolTerms.of(plan).sessions[0]


def naive_gradient(contract: Contract, each: Party, theta: Array) -> Array:
    """Row by row, as the definition says."""
    total = np.zeros(contract.dimension)
    for row, target in zip(naive_rows(contract, each.table), each.targets.tolist(), strict=True):
        score = sum(x * t for x, t in zip(row, theta.tolist(), strict=True))
        y = target / (contract.target_bound or 1.0)
        pull = score - y if contract.classes is None else -y / (1 + math.exp(y * score))
        length = abs(pull) * math.hypot(*row)
        total += pull * min(1.0, 0.25 / length) * np.array(row)
    return total


class TestSums:
    @BOTH
    @pytest.mark.parametrize("length", [0.0, 0.3, 2.0, 200.0])
    def test_against_loops(self, contract: Contract, length: float) -> None:
        here, theta = session(contract), length * np.array([0.6, 0.0, -0.8])
        half = 2.0 ** here.shares().grid_exponent / 2
        for each in pools.parties(3, contract, rows=600):
            steps = session_steps(here, contract, each.table, each.targets, theta)
            expected = naive_gradient(contract, each, theta)
            assert read_gradient(here, steps) == pytest.approx(expected, abs=1.001 * half)

    def test_rows_of_zeros(self) -> None:
        here = session(NO_CONSTANT)
        steps = session_steps(here, NO_CONSTANT, np.zeros((4, 2)), np.ones(4), np.ones(2))
        assert steps.tolist() == [0, 0]

    def test_needs_coefficients(self) -> None:
        with pytest.raises(ValueError, match="theta"):
            session_steps(session(CLASSES), CLASSES, np.ones((4, 2)), np.ones(4))

    @pytest.mark.parametrize("contract", [NO_CONSTANT, NUMBERS])
    @pytest.mark.parametrize("length", [0.0, 0.5, 256.0])
    def test_a_row_moves_them_by_what_the_noise_hides(
        self, contract: Contract, length: float
    ) -> None:
        rng, here = seeded(5), session(contract)
        theta = np.zeros(contract.dimension)
        theta[0] = length
        rest, y = rng.standard_normal((700, 2)), rng.choice([-1.0, 1.0], 701)

        def moved(flat: Any) -> float:
            ends = [
                session_steps(
                    here,
                    contract,
                    np.vstack([rest, one[:2] * contract.row_norm]),
                    np.append(y[:-1], np.sign(one[2]) * (contract.target_bound or 1.0)),
                    theta,
                )
                for one in flat.reshape(2, 3)
            ]
            return float(np.linalg.norm(ends[0] - ends[1])) / here.shares().hidden

        found = [moved(3 * rng.standard_normal(6)) for _ in range(200)]
        for _ in range(3):
            start = 2 * rng.standard_normal(6)
            best: Any = minimize(lambda at: -moved(at), start, method="Nelder-Mead")  # type: ignore[call-overload]
            found.append(-best.fun)
        assert max(found) <= 1.0
        assert max(found) > 0.9

    def test_the_noise_is_for_twice_the_clip(self) -> None:
        shares = session(CLASSES).shares()
        assert shares.hidden * 2.0**shares.grid_exponent == pytest.approx(2 * CLIP, rel=1e-3)
        assert shares.entries == CLASSES.dimension


class TestAudit:
    """M = 3, of which one colludes: all sums without its shares, added up. Two sessions, since
    thirty would take minutes; the price of thirty is compared with fifty digits elsewhere."""

    @pytest.mark.parametrize(("quieter", "violated"), [(1.0, False), (0.8, True)])
    def test_all_sessions_together(
        self, quieter: float, violated: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(SPLITS, "gradients", (0.5,) * 2)
        contract = Contract(features=1, row_norm=3.0, classes=(0, 1))
        who = pools.parties(3, contract)
        plan = pools.plan(
            who, contract, kind="gradients", epsilon=1.0, delta=0.1, colluders=1, most_rows=1000
        )
        sessions = PoolTerms.of(plan).sessions

        def attack(last_label: float, runs: int, rng: Generator) -> Any:
            found = np.zeros(runs)
            for here in sessions:
                shares = here.shares()
                shares = dataclasses.replace(shares, loudness=quieter * shares.loudness)
                targets = np.append(np.ones(20), last_label)
                steps = session_steps(here, contract, np.full((21, 1), 3.0), targets, np.zeros(1))
                unit = 2.0**shares.grid_exponent
                for number in range(plan.honest):
                    own = int(steps[0]) if number == 0 else 0
                    found += unit * np.array(shares.add_to([own] * runs), dtype=np.float64)
            return found

        finding = audit(
            attack,
            -1.0,
            1.0,
            epsilon=1.0,
            delta=0.1,
            runs=40_000,
            confidence=1 - FALSE_ALARM,
            rng=1,
        )
        assert finding.violated == violated
        assert finding.epsilon_lower > 0.6


class TestWalk:
    @BOTH
    def test_without_noise_it_is_plain_descent(
        self, contract: Contract, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(NoiseShares, "add_to", lambda noise, steps: steps)
        who = pools.parties(3, contract)
        board = Pool(who, pools.plan(who, contract, kind="gradients")).run()
        walked = board.descent
        theta, visited = np.zeros(3), []
        for _ in range(30):
            total = sum(naive_gradient(contract, each, theta) for each in who)
            theta = theta - walked.step * total / 63
            visited.append(theta)
        release = pooled_release(board)
        assert isinstance(release, PooledLearner)
        # From rows at most 3.09 long, and targets of up to 50, to those of the contract.
        unit = (contract.target_bound or 1.0) / math.hypot(3, 0.75)
        expected = np.mean(visited[15:], axis=0) * unit
        assert release.theta == pytest.approx(expected, abs=3e-5 * unit)
        assert (release.n, release.sizes) == (63, (20, 21, 22))

    def test_many_rows_are_learnt_from(self) -> None:
        """Real noise, ε = 5: nearer to least squares of all rows than to nothing, in every
        direction of the rows."""
        who = pools.parties(5, NUMBERS, rows=4000)
        agreed = pools.plan(who, NUMBERS, kind="gradients", epsilon=5.0)
        release = pooled_release(Pool(who, agreed).run())
        assert isinstance(release, PooledLearner)
        rows = np.vstack([NUMBERS.rows(each.table) for each in who])
        y = np.concatenate([each.targets for each in who])
        best = inverse(rows.T @ rows) @ rows.T @ y
        left = float(np.mean((y - rows @ release.theta) ** 2))
        least, most = float(np.mean((y - rows @ best) ** 2)), float(np.mean(y**2))
        assert least <= left < least + 0.2 * (most - least)

    def test_steps_follow_public_numbers(self) -> None:
        wide = Contract(features=100, row_norm=1.0, classes=(0, 1))
        near, far = Descent(wide, 1000, 30, 50.0), Descent(wide, 10**9, 30, 50.0)
        # Noise of all steps, S·σ√p/(N√T), is 4 long.
        assert 30 * near.step * 50.0 * 10 / (1000 * math.sqrt(30)) == pytest.approx(4.0)
        assert 30 * far.step == pytest.approx(1024.0)
        numbers = Contract(features=100, row_norm=1.0, target_bound=7.0)
        squared = Descent(numbers, 1000, 30, 50.0)
        assert squared.step == pytest.approx(near.step / 8)
        assert squared.unit == pytest.approx(7.0 * near.unit)

    @pytest.mark.parametrize("features", [1, 20, 2000])
    def test_honest_sums_are_longer_less_than_once_in_a_billion_billion(
        self, features: int
    ) -> None:
        """And not by so much that a false one could hide: the noise's length is a χ."""
        walked = Descent(Contract(features=features, row_norm=3.0, classes=(0, 1)), 900, 30, 7.0)
        room = walked.longest_sum - 900 * CLIP
        assert 1e-40 < chi.sf(room / 7.0, features) < 1e-18

    def test_the_stated_noise_is_that_of_a_quadratic_bowl(self) -> None:
        """Rows spread evenly, no clipping: the end of the way, over many ways. The mean square of
        20,000 numbers misses 1 by 6 % with a probability below 1e-8."""
        contract = Contract(features=20, row_norm=1.0, target_bound=1.0)
        walked = Descent(contract, 2000, 30, 20.0)
        rng, theta = seeded(3), np.zeros((1000, 20))
        for _ in range(30):
            noise = 20.0 / 2000 * rng.standard_normal(theta.shape)
            theta = theta - walked.step * (theta / 20 + noise)
        assert float(theta.std()) * walked.unit == pytest.approx(walked.noise_std, rel=0.06)


class TestPlayers:
    def pool(self) -> Pool:
        who = pools.parties(3)
        made = Pool(who, pools.plan(who, kind="gradients"))
        made.join()
        return made

    def test_a_sum_that_no_rows_have_ends_it(self) -> None:
        here = self.pool()
        here.answer(0)
        b = here.members[1]
        words = seeded(1).integers(0, 2**64, 3, np.uint64).astype("<u8").tobytes()
        here.files[f"{b.name}-0.answer"] = resigned(here, b, 0, vector=words)
        with pytest.raises(PoolInvalid, match=r"session 0 is .* no rows with this noise"):
            here.board().theta(1)

    def test_an_honest_sum_is_never_refused(self) -> None:
        here = self.pool().run()
        walked = here.descent
        lengths = [np.linalg.norm(here.gradient(number)) for number in range(30)]
        assert max(lengths) < walked.longest_sum
        assert np.linalg.norm(here.visited, axis=1).max() <= FARTHEST_THETA

    def test_coefficients_that_do_not_follow_are_refused_by_readers(self) -> None:
        """Even if everybody says them: then the sums lead elsewhere than the file says."""
        here = self.pool()
        board = here.run()
        assert isinstance(pooled_release(board), PooledLearner)
        theta = tuple((here.theta(7) + np.array([1e-3, 0, 0])).tolist())
        for each in here.members:
            here.files[f"{each.name}-7.answer"] = resigned(here, each, 7, theta=theta)
        with pytest.raises(PoolInvalid, match="session 7 at other coefficients"):
            pooled_release(here.board())

    def test_it_opens_as_a_release_with_a_certificate(self) -> None:
        here = self.pool()
        board = here.run()
        trusted = trust_pooled(write_pooled(board), here.keyring)
        assert trusted.release == pooled_release(board)
        assert trusted.release.party == "pool of 3 organisations"
        told = trusted.signed.certificate.parameters
        assert (told["kind"], told["sessions"], told["numbers"]) == ("gradients", 30, 90)
        assert "ε = 1" in trusted.signed.certificate.sentence
        # It is nothing that one organisation could sign on its own.
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(msgspec.json.encode(trusted.release), type=type(trusted.signed))
