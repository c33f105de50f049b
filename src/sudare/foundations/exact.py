"""Exact discrete samplers: the one place that talks to OpenDP.

OpenDP draws integers with exact rational arithmetic from the operating system's entropy and states
for each sampler, rounded to the safe side, what it guarantees. Making a sampler takes a few
milliseconds, so each is kept. None can be seeded: simulation has its own stand-ins.
"""

from functools import lru_cache
from typing import Any

# Not opendp.prelude, which brings in scikit-learn, pandas and polars where they are installed.
from opendp import domains, measurements, measures, metrics
from opendp.mod import enable_features

from sudare.foundations.rounding import up

enable_features("contrib")


class Sampler:
    """A discrete noise sampler together with OpenDP's own statement of what it guarantees."""

    def __init__(self, measurement: Any) -> None:
        self._measurement = measurement

    def add_noise(self, steps: list[int]) -> list[int]:
        return list(self._measurement(steps))

    def loss(self, sensitivity: float) -> float:
        """ε (Laplace, L1 sensitivity) or ρ (Gaussian, L2 sensitivity), rounded up by OpenDP."""
        return float(self._measurement.map(sensitivity))


@lru_cache(maxsize=256)
def laplace(scale: float) -> Sampler:
    """Adds independent discrete Laplace noise, P(k) ∝ exp(−|k|/scale), to whole numbers."""
    return Sampler(
        measurements.make_laplace(_whole_numbers(), metrics.l1_distance(T=float), scale=scale)
    )


@lru_cache(maxsize=256)
def gaussian(scale: float) -> Sampler:
    """Adds independent discrete Gaussian noise, P(k) ∝ exp(−k²/2scale²), to whole numbers."""
    return Sampler(
        measurements.make_gaussian(_whole_numbers(), metrics.l2_distance(T=float), scale=scale)
    )


@lru_cache(maxsize=256)
def _gumbel(scale: float) -> Any:
    # OpenDP states its guarantee in zCDP; the law is that of the exponential mechanism.
    scores = domains.vector_domain(domains.atom_domain(T=float, nan=False))
    return measurements.make_noisy_max(
        scores, metrics.linf_distance(T=float), measures.zero_concentrated_divergence(), scale=scale
    )


def choice(scores: list[float], epsilon: float, sensitivity: float) -> int:
    """An index drawn with probability ∝ exp(ε·score/(2·sensitivity)), ε rounded down."""
    return int(_gumbel(up(2 * float(sensitivity) / float(epsilon)))(scores))


def _whole_numbers() -> Any:
    return domains.vector_domain(domains.atom_domain(T="i64"))
