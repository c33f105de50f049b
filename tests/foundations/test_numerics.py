"""What stands in for scipy, against scipy and against fifty digits."""

import math

import mpmath
import numpy as np
import pytest
from scipy import optimize, special

from sudare.foundations import curves, numerics


def test_scipy_is_taken_where_it_is() -> None:
    assert numerics.erfcx is special.erfcx
    assert numerics.brentq is optimize.brentq


def test_the_scaled_error_function() -> None:
    points = np.concatenate([np.linspace(-5, 12, 400), 10.0 ** np.linspace(1, 12, 50)])
    with mpmath.workdps(50):
        exact = [mpmath.exp(mpmath.mpf(x) ** 2) * mpmath.erfc(mpmath.mpf(x)) for x in points[:400]]
        for x, value in zip(points[:400].tolist(), exact, strict=True):
            assert abs(numerics.own_erfcx(x) / value - 1) < 1e-13
    assert numerics.own_erfcx(points) == pytest.approx(special.erfcx(points), rel=1e-13)
    assert numerics.own_erfcx(points.reshape(10, 45)).shape == (10, 45)


def test_roots_of_rising_and_falling_curves() -> None:
    for curve in (lambda x: x**3 - 2, lambda x: 2 - x**3):
        found = numerics.own_brentq(curve, 0.0, 7.0, xtol=1e-14)
        assert found == pytest.approx(2 ** (1 / 3), rel=1e-15)


def test_minima() -> None:
    found = numerics.own_minimize_scalar(lambda x: math.cosh(x - 1.3), bounds=(-4.0, 9.0))
    assert found.x == pytest.approx(1.3, abs=1e-7)
    assert found.fun == pytest.approx(1.0)


@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_prices_without_scipy_are_those_with_it(
    monkeypatch: pytest.MonkeyPatch, delta: float
) -> None:
    """To less than the part in 10⁹ that a receiver leaves for rounding."""
    cases = [
        (curves.gaussian_epsilon, (0.05, 0.8, 3.0)),
        (curves.concentrated_epsilon, (0.002, 2.5)),
    ]
    for function, parameters in cases:
        for parameter in parameters:
            with_scipy = function(parameter, delta)
            with monkeypatch.context() as patched:
                for name in ("brentq", "erfcx", "minimize_scalar"):
                    patched.setattr(curves, name, getattr(numerics, f"own_{name}"))
                assert function(parameter, delta) == pytest.approx(with_scipy, rel=3e-11)
