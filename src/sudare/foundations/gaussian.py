"""The largest Gaussian or concentrated parameter that still meets (ε, δ).

The Gaussian mechanism with noise_std = sensitivity / gaussian_mu(ε, δ) is exactly (ε, δ)-DP: the
inverse of the curve in `curves` (Balle and Wang 2018), rounded down so that the noise it
leads to is never too small.

Discrete Gaussian noise on a fine lattice is almost on that curve, and `lattice_log_ratio` says how
far from it: rounded Gaussian noise on whole numbers *is* the Gaussian mechanism, rounded, and the
discrete law differs from the rounded one by a factor that is known (docs/theory/seal.md).
"""

import math
from collections.abc import Callable

from scipy.optimize import brentq

from sudare.foundations import checks, composition
from sudare.foundations.curves import concentrated_delta, gaussian_delta
from sudare.foundations.rounding import down, up


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ for which every μ-GDP mechanism is (ε, δ)-DP, rounded down."""
    checks.positive(epsilon=epsilon)
    checks.proportion(delta=delta)
    epsilon, delta = float(epsilon), float(delta)
    # At μ = √(2ε) the curve is ½ − e^ε Φ(−√(2ε)); below it δ falls to zero, above it rises to one.
    low = high = math.sqrt(2 * epsilon)
    return _largest(lambda mu: gaussian_delta(epsilon, mu), delta, low, high)


def near_gaussian_mu(epsilon: float, delta: float, log_ratio: float, failure: float) -> float:
    """The largest μ for which a `NearGaussianEvent` of this distance is (ε, δ)-DP, rounded down.

    The root of e^{log_ratio}·δ_μ(ε − 2·log_ratio) + (1 + e^ε)·failure = δ.
    """
    checks.positive(epsilon=epsilon)
    checks.proportion(delta=delta)
    checks.non_negative(log_ratio=log_ratio)
    checks.delta_like(failure=failure)
    left = down(epsilon - 2 * log_ratio)
    failed = up((1 + math.exp(min(epsilon, 700.0))) * failure)
    kept = down((delta - failed) * math.exp(-log_ratio))
    if left <= 0 or kept <= 0 or epsilon > 700:
        raise checks.InvalidInput(
            "Expected a larger epsilon or delta: the law's distance from the Gaussian one takes all"
        )
    mu, step = gaussian_mu(left, kept), 2.0**-44
    # Moved down until the accountant, which rounds up, confirms it.
    while (
        composition.epsilon(composition.parts((), [mu], (), (), [(log_ratio, failure)]), delta)
        > epsilon
    ):
        mu, step = down(mu, step), step * 2
    return mu


def lattice_log_ratio(dimension: int, scale: float, surprise: float) -> float:
    """How far discrete Gaussian noise is from rounded Gaussian noise, as a log ratio, rounded up.

    Both on the whole numbers, in `dimension` coordinates, of the same `scale` σ ≥ 1. Outside a set
    of probability at most e^{−surprise} under both laws their log ratio is at most
    κ = (√D + √(2·surprise) + √D/(2σ))²/(24σ²), up to terms of e^{−2π²σ²} and of that probability.
    """
    checks.count(dimension=dimension)
    checks.positive(surprise=surprise)
    checks.between(1.0, math.inf, scale=scale)
    d, sigma = int(dimension), float(scale)
    # q/p = (Σ_k e^{−k²/2σ²}/√(2πσ²))·E exp(−xu/σ² − u²/2σ²) for u uniform on (−½, ½): at most
    # Poisson's 1 + 3e^{−2π²σ²} times sinh(s/2)/(s/2) ≤ e^{s²/24}, s = x/σ², and at least
    # e^{−1/24σ²} by Jensen's inequality. Both laws keep within σ(√D + √(2L)) + √D/2 of zero.
    reach = math.sqrt(d) + math.sqrt(2 * surprise) + math.sqrt(d) / (2 * sigma)
    wrapped = 3 * d * math.exp(-2 * math.pi**2 * sigma * sigma)
    # The last term moves the neglected set's mass back: a factor 1 ± e^{−surprise} on all the rest.
    return up(reach**2 / (24 * sigma**2) + wrapped + 2 * math.exp(-surprise), 2.0**-40)


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
