"""The largest Gaussian or concentrated parameter that still meets (ε, δ).

The Gaussian mechanism with noise_std = sensitivity / gaussian_mu(ε, δ) is exactly (ε, δ)-DP: the
inverse of the curve in `sudare.curves` (Balle and Wang 2018), rounded down so that the noise it
leads to is never too small.
"""

import math
from collections.abc import Callable

from scipy.optimize import brentq

from sudare import checks
from sudare.curves import concentrated_delta, gaussian_delta
from sudare.rounding import down


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ for which every μ-GDP mechanism is (ε, δ)-DP, rounded down."""
    checks.positive(epsilon=epsilon)
    checks.proportion(delta=delta)
    epsilon, delta = float(epsilon), float(delta)
    # At μ = √(2ε) the curve is ½ − e^ε Φ(−√(2ε)); below it δ falls to zero, above it rises to one.
    low = high = math.sqrt(2 * epsilon)
    return _largest(lambda mu: gaussian_delta(epsilon, mu), delta, low, high)


def concentrated_rho(epsilon: float, delta: float) -> float:
    """The largest ρ for which every ρ-zCDP mechanism is (ε, δ)-DP, rounded down."""
    checks.positive(epsilon=epsilon)
    checks.proportion(delta=delta)
    epsilon, delta = float(epsilon), float(delta)
    # Bun and Steinke's weaker conversion gives a valid starting point on the low side.
    t = -math.log(delta)
    low = (epsilon / (math.sqrt(epsilon + t) + math.sqrt(t))) ** 2
    return _largest(lambda rho: concentrated_delta(rho, epsilon), delta, low, low)


def _largest(delta_at: Callable[[float], float], delta: float, low: float, high: float) -> float:
    """Root of an increasing curve, moved down until the curve itself confirms it."""
    while low > 0 and delta_at(low) > delta:
        low /= 2
    if low == 0:
        raise checks.InvalidInput(f"Expected a larger epsilon, or delta={delta} to be larger")
    while delta_at(high) <= delta:
        high *= 2
    target = math.log(delta)
    root = brentq(
        lambda x: math.log(delta_at(math.exp(x))) - target,
        math.log(low),
        math.log(high),
        xtol=1e-14,
        rtol=1e-14,
    )
    parameter, step = down(math.exp(root), 2.0**-42), 2.0**-44
    while delta_at(parameter) > delta:
        parameter, step = down(parameter, step), step * 2
    return parameter
