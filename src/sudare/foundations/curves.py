"""Two privacy curves: what a Gaussian location pair and a concentrated mechanism give at each ε.

A mechanism is μ-GDP (Dong, Roth and Su 2022) when telling its two output laws apart is at least as
hard as telling N(0, 1) from N(μ, 1). Its exact curve (Balle and Wang 2018) is

    δ(ε) = Φ(−a) − e^ε Φ(−b),    a = ε/μ − μ/2,    b = ε/μ + μ/2.

A mechanism is ρ-zCDP (Bun and Steinke 2016) when its Rényi divergence of order α is at most αρ for
every α > 1; the conversion used is that of Canonne, Kamath and Steinke (2020), the best closed form
for a single order:

    δ(ε) = min over α > 1 of exp((α−1)(αρ−ε)) / (α−1) · (1 − 1/α)^α.

Every function rounds its answer up, so that what it returns is certainly a guarantee.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.foundations.numerics import brentq, erfcx, minimize_scalar
from sudare.foundations.rounding import up

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_NARROW = 0.5
"""Below this μ the two tails are subtracted under an integral, where nothing cancels."""
_TINY = 2.0**-1022
_FAR = 38.0
"""exp(−_FAR²/2) is below _TINY."""


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The δ of a μ-GDP mechanism at ε ≥ 0, rounded up (relative error below 1e-11)."""
    checks.non_negative(epsilon=epsilon)
    checks.positive(mu=mu)
    epsilon, mu = float(epsilon), float(mu)
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    # δ is of the order of exp(−a²/2), so rounding in a counts for more where a and b are large.
    slack = 2.0**-40 + (1 + max(a, 0.0)) * b * 2.0**-51
    return min(1.0, max(_TINY, up(_gaussian_delta(a, b, mu), slack))) if a < _FAR else _TINY


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least ε ≥ 0 that a μ-GDP mechanism gives at this δ, rounded up."""
    checks.positive(mu=mu)
    checks.proportion(delta=delta)
    mu, delta = float(mu), float(delta)
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    # P(privacy loss > ε) bounds δ(ε), and the loss is N(μ²/2, μ²).
    high = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta)) + 1e-12
    return _least_epsilon(lambda epsilon: gaussian_delta(epsilon, mu), delta, high)


def concentrated_delta(rho: float, epsilon: float) -> float:
    """The δ of a ρ-zCDP mechanism at ε ≥ 0, rounded up."""
    checks.positive(rho=rho)
    checks.non_negative(epsilon=epsilon)
    rho, epsilon = float(rho), float(epsilon)

    def log_delta(log_order: float) -> float:
        excess = math.exp(log_order)  # α − 1
        order = excess + 1
        return excess * (order * rho - epsilon) - log_order - order * math.log1p(1 / excess)

    # Any order gives a valid bound, so the search need only be good, not exact. The best one lies
    # where (2α − 1)ρ = ε + log(α/(α − 1)), so at most twice as far from 1 as the larger of these.
    far = math.log(min(1e300, max(epsilon / (2 * rho), 1 / math.sqrt(2 * rho))))
    if log_delta(far) < -_FAR * _FAR / 2:
        return _TINY
    best = minimize_scalar(log_delta, bounds=(far - 20, far + 1), method="bounded")
    size = math.exp(float(best.x)) * (rho + epsilon)  # of the terms that cancel in the exponent
    bound = up(math.exp(min(0.0, float(best.fun))), 2.0**-40 + size * 2.0**-50)
    return min(1.0, max(_TINY, bound))


def concentrated_epsilon(rho: float, delta: float) -> float:
    """The least ε ≥ 0 that a ρ-zCDP mechanism gives at this δ, rounded up."""
    checks.positive(rho=rho)
    checks.proportion(delta=delta)
    rho, delta = float(rho), float(delta)
    if rho > 1e100:  # the conversion of Bun and Steinke, where a search would overflow
        return up(rho + 2 * math.sqrt(rho) * math.sqrt(-math.log(delta)))
    if concentrated_delta(rho, 0.0) <= delta:
        return 0.0
    high = rho + 2 * math.sqrt(rho * -math.log(delta)) + 1e-12  # the same conversion
    return _least_epsilon(lambda epsilon: concentrated_delta(rho, epsilon), delta, high)


def _gaussian_delta(a: float, b: float, mu: float) -> float:
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    if mu < _NARROW:
        # −R' = 1 − xR(x) is computed without cancellation, so the difference of tails is too.
        x = a + mu / 2 * (1 + _NODES)
        return density * mu / 2 * float(_WEIGHTS @ _mills_slope(x))
    if a < 0:
        return math.erfc(a / math.sqrt(2)) / 2 - density * _mills(b)
    return density * (_mills(a) - _mills(b))


def _mills(x: float) -> float:
    """Mills' ratio R(x) = Φ(−x)/φ(x)."""
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def _mills_slope(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 − x·R(x), which is −R'(x), to full relative precision."""
    ratio = math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
    # R = 1/(x + 1/(x + 2/(x + 3/…))), so 1 − xR = R · 1/(x + 2/(x + 3/…)).
    far = np.maximum(x, 5.0)
    fraction = far
    for k in range(40, 1, -1):
        fraction = far + k / fraction
    return np.where(x > 5.0, ratio / fraction, 1 - x * ratio)


def _least_epsilon(delta_at: Callable[[float], float], delta: float, high: float) -> float:
    """Root of a decreasing curve, moved up until the curve itself confirms it; or infinity."""
    while math.isfinite(high) and delta_at(high) > delta:
        high *= 2
    if math.isinf(high):
        return math.inf
    target = math.log(delta)
    # A root next to zero takes a halving for each binary digit that it is away from `high`.
    root = brentq(
        lambda epsilon: math.log(delta_at(epsilon)) - target,
        0.0,
        high,
        xtol=1e-300,
        rtol=1e-14,
        maxiter=3000,
    )
    epsilon, step = max(up(root), high * 2.0**-60), 2.0**-44
    while delta_at(epsilon) > delta:
        epsilon, step = up(epsilon, step), min(1.0, step * 2)
    return epsilon
