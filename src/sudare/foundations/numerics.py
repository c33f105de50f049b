"""Three numerical functions of scipy's, and stand-ins that do where it is not installed.

Whoever only verifies signatures and prices needs no more of scipy than this. The stand-ins are a
little slower, and may differ in the last digits; every caller rounds its answer by far more than
that, and confirms it by the curve itself. Noise is always calibrated with scipy: learners need it.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_LEVELS = 60
"""Of the continued fraction; beyond 4 they leave less than the last digit."""
_GOLDEN = (math.sqrt(5) - 1) / 2


class Minimum(NamedTuple):
    """Where a function is least, and how little it is there."""

    x: float
    fun: float


def own_erfcx(x: Any) -> Any:
    """e^{x²} erfc(x) for x ≥ −5, to about fourteen digits."""
    values = np.asarray(x, dtype=np.float64)
    found = np.array([_erfcx(each) for each in values.ravel().tolist()]).reshape(values.shape)
    return float(found) if found.ndim == 0 else found


def _erfcx(x: float) -> float:
    if x < 4:
        # x² with the part that rounding loses: an error in it would be one of the exponential.
        square = x * x
        high = math.ldexp(round(math.ldexp(x, 20)), -20)
        lost = (high * high - square) + 2 * high * (x - high) + (x - high) ** 2
        return math.exp(square) * (1 + lost) * math.erfc(x)
    fraction = x
    for k in range(_LEVELS, 0, -1):
        fraction = x + k / 2 / fraction
    return 1 / (math.sqrt(math.pi) * fraction)


def own_brentq(
    function: Callable[[float], float], low: float, high: float, **_: float | int
) -> float:
    """A root between two points of different sign, by halving until no float is between them."""
    rises = function(high) > function(low)
    while low < (middle := (low + high) / 2) < high:
        if (function(middle) > 0) == rises:
            high = middle
        else:
            low = middle
    return high


def own_minimize_scalar(
    function: Callable[[float], float], *, bounds: tuple[float, float], method: str = "bounded"
) -> Minimum:
    """A minimum within bounds, by golden sections."""
    low, high = bounds
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(80):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    x = left if at_left <= at_right else right
    return Minimum(x, min(at_left, at_right))


try:
    from scipy.optimize import brentq, minimize_scalar
    from scipy.special import erfcx
except ModuleNotFoundError:
    brentq = own_brentq  # type: ignore[assignment]
    minimize_scalar = own_minimize_scalar  # type: ignore[assignment]
    erfcx = own_erfcx  # type: ignore[assignment]

__all__ = ["brentq", "erfcx", "minimize_scalar"]
