"""A plan worked out: noise, price for every number of honest ones, an audit of the sum.

The audit's draws are OpenDP's and cannot be repeated: it raises a false alarm with probability
`FALSE_ALARM`, and overlooks a fifth of the noise as rarely (a margin of seven deviations).
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from sudare.audit import audit
from sudare.calibration import SESSION_WEIGHT, session_sensitivity
from sudare.foundations.checks import InvalidInput, SudareError
from sudare.foundations.seal import FINE, lattice_event, plan_seal
from sudare.pooling import Member, PoolTerms, session_steps
from sudare.pooling._masks import Roster, Seat, add_up, mask, masked, new_secret
from sudare.pooling._sessions import LARGEST_THETA
from sudare.releases import Contract
from tests.exact_losses import exact_gaussian, mp, mpf
from tests.pooling import pools
from tests.statistical import FALSE_ALARM
from tests.support.strategies import spread

ONE = pools.parties(1)


def terms(many: int = 5, **changed: Any) -> PoolTerms:
    members = tuple(Member(name=f"m{i}", key=f"{i:043d}") for i in range(many))
    return PoolTerms.of(pools.plan(ONE, members=members, **changed))


def root(rising: Callable[[Any], Any], low: Any, high: Any) -> Any:
    low, high = mpf(low), mpf(high)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low


def exact_mu(epsilon: float, delta: float) -> Any:
    """The μ whose Gaussian curve passes through (ε, δ), in 50 digits."""
    return root(lambda mu: exact_gaussian(epsilon, mu) - mpf(delta), 1e-3, 100)


def exact_epsilon(mu: Any, delta: float) -> Any:
    return root(lambda at: mpf(delta) - exact_gaussian(at, mu), 0, 1000)


class TestPrice:
    @pytest.mark.parametrize("kind", ["moments", "logistic", "gradients"])
    @pytest.mark.parametrize(("many", "colluders"), [(3, 1), (5, 0), (10, 5), (100, 0)])
    def test_the_curve_against_fifty_digits(self, many: int, colluders: int, kind: str) -> None:
        """μ(h) = μ·√((M − c)/h) on the Gaussian curve, but for a millionth; thirty sessions are
        each a little farther from Gaussian noise."""
        here = terms(many, colluders=colluders, kind=kind)
        mu = exact_mu(1.0, 1e-6)
        for honest, epsilon in here.curve:
            ideal = exact_epsilon(mu * mp.sqrt(mpf(here.plan.honest) / honest), 1e-6)
            close = 1e-5 if kind == "gradients" else 3e-6
            assert float(ideal) == pytest.approx(epsilon, rel=close)

    @pytest.mark.parametrize("honest", [1, 2, 4])
    def test_the_price_is_what_the_event_states(self, honest: int) -> None:
        """e^κ·δ_μ(ε − 2κ) + (1 + e^ε)·β, with the event's own numbers, is δ."""
        here = terms(5, kind="logistic", colluders=1)
        event, at = here.event(honest), here.epsilon(honest)
        kappa = mpf(event.log_ratio)

        def stated(epsilon: float) -> Any:
            ideal = exact_gaussian(mpf(epsilon) - 2 * kappa, mpf(event.mu))
            return mp.exp(kappa) * ideal + (1 + mp.exp(epsilon)) * mpf(event.failure)

        assert stated(at) <= 1e-6 < stated(at * (1 - 1e-5))
        parts = [session.event(honest) for session in here.sessions]
        assert mpf(event.mu) ** 2 >= sum(mpf(part.mu) ** 2 for part in parts)
        assert event.log_ratio >= math.fsum(part.log_ratio for part in parts)
        assert event.failure >= math.fsum(part.failure for part in parts)

    # What docs/theory/pooling.md prints: noise against one release's, and ε at δ = 1e-6 if all,
    # two, or only oneself is honest.
    @pytest.mark.parametrize(
        ("many", "colluders", "noise", "whole", "two", "alone"),
        [
            (3, 1, 1.22, 0.803, 1.0, 1.45),
            (5, 0, 1.00, 1.0, 1.65, 2.40),
            (5, 2, 1.29, 0.758, 1.24, 1.81),
            (5, 3, 1.58, 0.611, 1.0, 1.45),
            (10, 5, 1.41, 0.686, 1.65, 2.40),
            (50, 25, 1.41, 0.686, 4.00, 5.94),
            (100, 0, 1.00, 1.0, 8.89, 13.5),
            (100, 50, 1.41, 0.686, 5.94, 8.89),
            (100, 98, 7.07, 0.123, 1.0, 1.45),
        ],
    )
    def test_the_printed_table(
        self, many: int, colluders: int, noise: float, whole: float, two: float, alone: float
    ) -> None:
        here, release = terms(many, colluders=colluders), terms(many, colluders=many - 1)
        share = release.sessions[0].shares().noise_std(1)
        assert here.noise_std / share == pytest.approx(noise, abs=0.005)
        assert here.noise_std / share == pytest.approx(
            math.sqrt(many / (many - colluders)), rel=1e-6
        )
        told = [here.epsilon(many), here.epsilon(2), here.epsilon(1)]
        assert told == pytest.approx([whole, two, alone], rel=5e-3)

    @pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (5.0, 1e-9)])
    def test_with_nobody_else_honest_it_is_a_release(self, epsilon: float, delta: float) -> None:
        here = terms(5, colluders=4, epsilon=epsilon, delta=delta)
        event, release = here.event(), lattice_event(epsilon, delta)
        assert (event.mu, event.failure) == pytest.approx((release.mu, release.failure), rel=1e-12)  # type: ignore[union-attr]
        session = here.sessions[0]
        seal = plan_seal(
            dimension=session.entries, epsilon=epsilon, delta=delta, sensitivity=math.hypot(2, 0.5)
        )
        assert session.shares().noise_std(1) == pytest.approx(seal.noise_std, rel=1e-5)

    @settings(max_examples=60)
    @given(
        epsilon=spread(0.01, 20),
        delta=spread(1e-12, 0.1),
        many=st.integers(3, 40),
        share=st.floats(0, 1),
        alone=st.none() | spread(0.05, 50),
        kind=st.sampled_from(["moments", "logistic"]),
    )
    def test_holds_what_was_asked(
        self, epsilon: float, delta: float, many: int, share: float, alone: float | None, kind: str
    ) -> None:
        colluders = int(share * (many - 1))
        here = terms(
            many, epsilon=epsilon, delta=delta, colluders=colluders, alone=alone, kind=kind
        )
        assert here.epsilon(here.plan.honest) <= epsilon
        found = [each.epsilon for each in here.curve]
        assert found == sorted(found)
        assert [each.honest for each in here.curve][:: many - 1] == [many, 1] or many > 20
        if alone is None:
            assert here.epsilon(here.plan.honest) >= epsilon * (1 - 1e-3)
            return
        assert here.epsilon_alone <= alone
        binding = here.epsilon_alone >= alone * (1 - 1e-3)
        asked = here.epsilon(here.plan.honest) >= epsilon * (1 - 1e-3)
        assert binding or asked

    def test_alone_adds_noise_only_where_it_must(self) -> None:
        free, bound, loose = (terms(50, alone=alone) for alone in (None, 2.0, 40.0))
        assert loose.epsilon_alone == pytest.approx(free.epsilon_alone, rel=1e-6)
        assert free.noise_std == pytest.approx(loose.noise_std, rel=1e-6)
        assert bound.epsilon_alone == pytest.approx(2.0, rel=1e-6)
        assert bound.noise_std > 2 * free.noise_std

    @pytest.mark.parametrize("many", [300, 1000, 3000])
    def test_in_large_pools_something_is_left_when_all_others_collude(self, many: int) -> None:
        """Failures count e^ε times: they are rare enough for the ε of one honest organisation."""
        here = terms(many, epsilon=0.5)
        ideal = exact_epsilon(exact_mu(0.5, 1e-6) * mp.sqrt(many), 1e-6)
        assert here.epsilon_alone == pytest.approx(float(ideal), rel=1e-4)
        assert 9 < len(here.curve) < 20

    @pytest.mark.parametrize(
        "changed",
        [
            {"epsilon": 1e308},
            {"epsilon": 1e-308},
            {"epsilon": 300.0},
            {"delta": 1e-300},
            {"delta": 5e-324},
            {"delta": 1 - 1e-16},
            {"alone": 1e308},
            {"alone": 1e-308},
            {"alone": 600.0},
            {"unit": "x" * 50},
        ],
        ids=str,
    )
    def test_absurd_numbers_are_refused_or_priced(self, changed: dict[str, Any]) -> None:
        try:
            here = terms(**changed)
        except SudareError:
            return
        assert here.epsilon(here.plan.honest) <= here.plan.epsilon

    def test_words(self) -> None:
        here = terms(5, colluders=2, unit="patient")
        event = here.event()
        assert event.unit == "patient"
        assert event.assumptions[0].startswith("at least 3 of the 5 organisations")
        assert "ε = 1.81" in event.assumptions[1]
        assert here.event(5).assumptions == ()


class TestNoise:
    def test_entries(self) -> None:
        def entries(contract: Contract, kind: str = "moments") -> list[int]:
            return [each.entries for each in terms(contract=contract, kind=kind).sessions]

        assert entries(pools.CLASSES, "logistic") == [10, 9, 9]
        assert entries(pools.NUMBERS) == [11]

    def test_hides_what_a_row_moves_and_the_rounding(self) -> None:
        for contract in (pools.CLASSES, pools.NUMBERS):
            session = terms(contract=contract).sessions[0]
            shares = session.shares()
            steps = math.hypot(2, 0.5) / 2.0**shares.grid_exponent
            assert steps + math.sqrt(shares.entries) <= shares.hidden <= 1.002 * steps
            assert shares.hidden >= FINE * math.sqrt(shares.entries)

    @pytest.mark.parametrize("length", [0.0, 0.3, 1.0, 7.9, LARGEST_THETA])
    def test_newton_noise_follows_the_coefficients(self, length: float) -> None:
        session = terms(kind="logistic").sessions[1]
        shares = session.shares(np.array([0.0, 0.6, 0.8]) * length)
        in_units = shares.hidden * 2.0**shares.grid_exponent
        least = session_sensitivity(length, SESSION_WEIGHT)
        most = session_sensitivity(length + 0.26, SESSION_WEIGHT)
        assert least <= in_units <= 1.002 * most
        assert shares.hidden >= FINE * math.sqrt(shares.entries)

    def test_many_rows_widen_the_rounding(self) -> None:
        few, many = (terms(most_rows=n).sessions[0].shares() for n in (1000, 10**9))
        assert many.noise_std(1) > few.noise_std(1)
        assert terms().noise_std > terms(most_rows=100).noise_std

    @pytest.mark.parametrize(
        ("kind", "number", "longest", "sensitivity", "largest"),
        [
            ("moments", 0, 0.0, math.hypot(2.0, 0.5), 1.0),
            ("logistic", 1, 16.0, session_sensitivity(1.75, SESSION_WEIGHT), SESSION_WEIGHT),
            ("gradients", 4, 256.0, 0.5, 0.25),
        ],
    )
    def test_the_rounding_that_is_hidden(
        self, kind: str, number: int, longest: float, sensitivity: float, largest: float
    ) -> None:
        """With so many rows and columns that it is no longer small beside what a row moves.

        A number passes at most 512 additions in its block, one for each block and 32 of its own,
        each off by 2⁻⁵³ of what is added so far; scores of θ add p + 8 for each unit of length.
        Twice that is room for what additions of additions round.
        """
        contract = Contract(features=1999, row_norm=3.0, constant=0.75, classes=(0, 1))
        rows = 10**8
        session = terms(contract=contract, kind=kind, most_rows=rows).sessions[number]
        assert session.longest_theta == longest
        shares = session.shares(np.r_[1.1, 1.3, np.zeros(1998)])
        grid = 2.0**shares.grid_exponent
        rounding = (shares.hidden * grid - sensitivity - math.sqrt(session.entries) * grid) / 2
        additions = 512 + rows / 512 + 32
        if longest:
            additions += (2000 + 8) * (longest + 1)
        assert rounding == pytest.approx(8 * rows * largest * additions * 2.0**-53, rel=1e-6)

    def test_rows_must_fit_the_arithmetic(self) -> None:
        here = terms(many=100, contract=Contract(features=200, row_norm=3.0, classes=(0, 1)))
        here.check_rows(10**9)
        with pytest.raises(InvalidInput, match="fewer than 1000000000000000 rows"):
            here.check_rows(10**15)

    def test_apart_is_weighed(self) -> None:
        here = terms()
        assert here.apart_noise_std == pytest.approx(4 * here.noise_std)


class TestAudit:
    """M = 3, of which one colludes and takes its own share off the sum."""

    @pytest.mark.parametrize(("quieter", "violated"), [(1.0, False), (0.8, True)])
    def test_the_sum_without_the_colluders_shares(self, quieter: float, violated: bool) -> None:
        contract = Contract(features=1, row_norm=3.0, classes=(0, 1))
        who = pools.parties(3, contract)
        plan = pools.plan(who, contract, epsilon=1.0, delta=0.1, colluders=1)
        session = PoolTerms.of(plan).sessions[0]
        shares = session.shares()
        shares = dataclasses.replace(shares, loudness=quieter * shares.loudness)
        secrets = [new_secret() for _ in who]
        seats = [
            Seat(each.fingerprint, secret.public_key().public_bytes_raw(), len(each.table))
            for each, secret in zip(who, secrets, strict=True)
        ]
        roster = Roster(plan.digest(), tuple(seats))

        def attack(last_label: float, runs: int, rng: Generator) -> Any:
            """Σyx, in which a row moves the sum most: each run a number of one long vector."""
            words, known = [], np.zeros(runs, dtype=np.int64)
            for number, each in enumerate(who):
                targets = each.targets.copy()
                table = np.full_like(each.table, 3.0)
                if number == 0:
                    targets[-1] = last_label
                own = int(session_steps(session, contract, table, targets)[0])
                noisy = shares.add_to([own] * runs)
                if number == 2:
                    known += np.array(noisy)
                hidden = mask(secrets[number], plan, roster, each.fingerprint, 0, runs)
                words.append(masked(noisy, hidden))
            return (add_up(words) - known).astype(np.float64)

        finding = audit(
            attack,
            -1.0,
            1.0,
            epsilon=1.0,
            delta=0.1,
            runs=100_000,
            confidence=1 - FALSE_ALARM,
            rng=1,
        )
        assert finding.violated == violated
        assert finding.epsilon_lower > 0.6
