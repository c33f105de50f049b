"""What Gaussian noise gives when the shift may depend on the noise itself.

In objective perturbation a record moves b by the difference of two gradients at the minimiser,
which depends on b. All that is known of the shift is a set V of the plane that holds it, fixed by
the records. With b ~ N(0, I) the log-ratio of densities is at most

    loss(b) = max over v in V of b·v + ‖v‖²/2,        δ(ε) ≤ E(1 − e^{ε − loss(b)})₊ .

That expectation is bounded here for two shapes of V; lengths are in units of the noise's standard
deviation. For a single point it is the Gaussian curve H of `curves`. Every function rounds
its answer up. Proofs are in docs/theory/objective.md.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

from sudare.foundations.curves import gaussian_delta
from sudare.foundations.rounding import up

Floats = NDArray[np.float64]

_ROOT = math.sqrt(2 * math.pi)
_TURN = math.pi * (np.arange(769) / 768) ** 2
"""Angles from 0 to π, closest together where the integrand is largest."""


def segment_delta(epsilon: float, distance: float, half_length: float) -> float:
    """δ for shifts on a segment seen square on: ends at (distance, ±half_length).

    Along the segment the noise is an independent N, so that δ = E H(ε − |N|y − y²/2). H is
    log-concave in ε, so H(ε − h) ≤ H(ε)·e^{ch} with c its rate of decrease at ε: hence
    δ ≤ H·2Φ(cy)·exp(cy²/2 + c²y²/2).
    """
    curve = gaussian_delta(epsilon, distance)
    if half_length == 0:
        return curve
    a, b = epsilon / distance - distance / 2, epsilon / distance + distance / 2
    # −H' = e^ε Φ(−b), and e^ε φ(b) = φ(a). The factor pays for the curve's own rounding.
    rate = math.exp(-a * a / 2) / 2 * float(erfcx(b / math.sqrt(2))) / curve * (1 + 1e-9)
    y = half_length
    exponent = min(rate * y * y * (1 + rate) / 2, 700.0)
    return min(1.0, up(curve * 2 * float(ndtr(rate * y)) * math.exp(exponent), 2.0**-36))


def disc_delta(epsilon: float, distance: Floats, radius: Floats) -> Floats:
    """δ for shifts on discs: centres at `distance` from 0.

    The loss is exact: with w = b + centre it is ((‖w‖ + R)² − ‖b‖²)/2. Along a ray of w the
    expectation has a closed form, which falls as the ray turns away from the centre; the sum over
    rays takes each at its nearer end. δ rises with the distance and with the radius.
    """
    d, r = distance[:, None], radius[:, None]
    along = d * np.cos(_TURN[:-1])
    across = d * np.sin(_TURN[:-1])
    level = epsilon + (d - r) * (d + r) / 2
    with np.errstate(all="ignore"):
        # The loss exceeds ε beyond this length of w, where both densities are `edge`.
        start = level / (r + along)
        edge = np.exp(epsilon - (start + r) ** 2 / 2)
        near = np.where(
            start < along,
            np.exp(-(across**2) / 2) * _ROOT * ndtr(along - start),
            edge * _mills(start - along),
        )
        ray = np.where(r + along > 0, along * near + r * edge * _mills(start + r), 0.0)
    total = np.maximum(ray, 0.0) @ np.diff(_TURN) / math.pi
    # A disc so large that the loss exceeds ε everywhere; its second mass has a closed form too.
    mass = np.exp(-(radius**2) / 2) * (1 - radius * _mills(radius))
    total = np.where(level[:, 0] > 0, total, 1 - np.exp(min(epsilon, 700.0)) * mass)
    slack = 2.0**-36 + (epsilon + (distance + radius) ** 2) * 2.0**-48
    return np.clip(total * (1 + slack) + 2.0**-1022, 0.0, 1.0)


def _mills(x: Floats) -> Floats:
    """Φ(−x)/φ(x)."""
    return np.asarray(_ROOT / 2 * erfcx(x / math.sqrt(2)))
