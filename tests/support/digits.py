"""Oracles in eighty digits."""

from typing import Any

from mpmath import MPContext

mp = MPContext()  # a context of its own: nobody else's precision is touched
mp.dps = 80
mpf = mp.mpf
MORE = 1 + mpf(10) ** -9
"""A result enlarged by so much must miss what the result itself meets."""


def exact_gaussian_delta(epsilon: Any, mu: Any) -> Any:
    """δ(ε) of the Gaussian mechanism with so large a μ."""
    epsilon, mu = mpf(epsilon), mpf(mu)

    def upper(x: Any) -> Any:
        return mp.erfc(x / mp.sqrt(2)) / 2

    return upper(epsilon / mu - mu / 2) - mp.exp(epsilon) * upper(epsilon / mu + mu / 2)
