"""What the tests of counting errors share: the exact formulas, by mpmath."""

import math
from typing import Any

from hypothesis import assume, settings
from hypothesis import strategies as st

from tests.support.digits import MORE, mp, mpf

EXAMPLE = (10_000, 50, 0.1)  # users, rounds and β of the experiments of Ono et al.

repeatable = settings(derandomize=True, deadline=None, max_examples=100)
EPSILONS = st.floats(math.log(1e-4), math.log(50)).map(math.exp)
BETAS = st.floats(math.log(1e-30), math.log(0.5)).map(math.exp)
USERS = st.integers(100, 10**8)
ROUNDS = st.integers(1, 2000)
SHARES = st.one_of(st.sampled_from([0.0, 1.0, 0.9995]), st.floats(0, 1))


def exact_exponent(users: int, rounds: int, beta: float, tails: int, slots: int = 1) -> Any:
    load = mpf(rounds) / (slots * users) * mp.log(tails * rounds / mpf(beta))
    return -mp.log(1 - load) if load < 1 else mp.inf


def divergence(b: Any, x: Any) -> Any:
    """The lesser of D(b ± x‖b) between Bernoulli laws; infinite where b ± x is impossible."""
    both = [mp.inf]
    for a in (b - x, b + x):
        if 0 < b < 1 and 0 <= a <= 1:
            both.append(sum(u * mp.log(u / v) for u, v in ((a, b), (1 - a, 1 - b)) if u > 0))
    return min(both)


def within(value: float, exact: Any) -> bool:
    """At or above the exact value, by at most a billionth."""
    return bool(exact <= value <= exact * MORE)


def usable(users: int, rounds: int, beta: float, slots: int = 1) -> None:
    """Leave out the edge where 1 − load has lost its digits."""
    assume(rounds / (slots * users) * math.log(4 * rounds / beta) < 0.999)
