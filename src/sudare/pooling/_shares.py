"""Noise in shares: each organisation adds a little, and only the sum carries the whole.

Guarantee. Every organisation adds exact discrete Gaussian noise of scale s (in grid steps) to each
coordinate. Whoever sees the sum and knows the shares of all others but h honest ones sees the h
honest sums with noise that is, up to a factor e^{±D·τ(h)}, discrete Gaussian with parameter h·s²;
and that is, up to `lattice_log_ratio`, the Gaussian mechanism with μ(h) = hidden/(√h·s). So the
guarantee depends on how many are honest, down to oneself alone, and never falls to nothing
(docs/theory/pooling.md).

τ(h) is the price of adding discrete Gaussians: by Poisson's summation formula the convolution of
two, of parameters a and b, is e^{−x²/2(a+b)} times a function within 1 ± 2η of a constant,
η = Σ_{k≥1} e^{−2π²vk²}, v = ab/(a + b). Adding shares one by one, v = s²k/(k + 1).
"""

import math
from dataclasses import dataclass

from sudare.foundations import exact
from sudare.foundations.gaussian import lattice_log_ratio
from sudare.foundations.privacy import NearGaussianEvent
from sudare.foundations.rounding import down, up
from sudare.foundations.seal import FINE


@dataclass(frozen=True)
class NoiseShares:
    """The noise of one session: public numbers, the same for every organisation."""

    entries: int
    """D, how many numbers are summed."""
    grid_exponent: int
    hidden: float
    """How far one row moves an organisation's rounded sums, in steps; at least `FINE`·√D."""
    loudness: float
    """Scale of one share over what it hides."""

    @property
    def scale(self) -> float:
        """s, of one share, in steps."""
        return up(self.hidden * self.loudness)

    def noise_std(self, members: int) -> float:
        """Of each number of a sum of so many shares, in the number's units."""
        return math.ldexp(math.sqrt(members) * self.scale, self.grid_exponent)

    def add_to(self, steps: list[int]) -> list[int]:
        """An organisation's sums with its own share: exact draws from the system's entropy."""
        return exact.gaussian(self.scale).add_noise(steps)


def share_loudness(mu: float, honest: int, alone: float | None) -> float:
    """How loud each share is so that `honest` of them give μ, and one by itself gives `alone`."""
    loudness = up(1 / (mu * down(math.sqrt(honest))))
    return loudness if alone is None else max(loudness, up(1 / alone))


def shares_event(entries: int, loudness: float, honest: int, failure: float) -> NearGaussianEvent:
    """What a sum costs a row if so many organisations keep their shares secret.

    The same whatever a session hides: only how many grid steps that is at least (`FINE`·√D) counts
    for the lattice's distance from Gaussian noise. `failure` is the probability it neglects.
    """
    root = down(math.sqrt(honest))
    least = down(FINE * math.sqrt(entries) * loudness)
    ratio = lattice_log_ratio(entries, down(root * least), -math.log(failure))
    ratio = up(ratio + entries * convolution_log_ratio(least, honest))
    return NearGaussianEvent(up(1 / down(root * loudness)), ratio, up(failure))


def convolution_log_ratio(scale: float, shares: int) -> float:
    """τ: how far a sum of discrete Gaussians is from a discrete Gaussian, as a log ratio.

    For one coordinate, rounded up; zero where a double cannot hold it (from about scale 9 on), and
    the rounding of the numbers it is added to covers that.
    """
    total, slack = 0.0, 2.0**-35  # e^−700 is right to a relative 1e-13 only
    for k in range(1, shares):
        exponent = 2 * math.pi**2 * scale * scale * k / (k + 1)
        if exponent > 745:  # smaller than the smallest double, and falling in k
            return up(total, slack)
        eta = math.exp(-exponent) / -math.expm1(-3 * exponent)
        total += math.log1p(2 * eta) - math.log1p(-2 * eta)
    return up(total, slack)
