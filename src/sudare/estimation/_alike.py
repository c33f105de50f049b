"""Whether a pool's organisations are alike: what the one number says that it carries for this.

A = Σ ‖s_j‖²/n_j over organisations with enough rows, s_j their Σyx, lengths cut at a radius. With b
for ‖E[yx]‖², q for E‖yx‖², and one law for all, E[A] ≤ N·b + M·(q − b); and ‖Σs/N‖², less what
noise adds to it, has the mean b + (q − b)/N. So

    A − N·‖Σs/N‖²  has a mean of at most  (M − 1)·q

and what is beyond that by more than noise and sampling explain shows organisations that differ: in
their rows, their outcomes, or in how these depend on each other (docs/theory/estimates.md).
"""

import math
from typing import NamedTuple

import numpy as np

from sudare.releases import PooledRelease

CLEARLY = 3.0
"""Standard deviations beyond which organisations are said to differ."""


class Alike(NamedTuple):
    """How far organisations differ beyond chance, in units of its own standard deviation."""

    excess: float
    std: float

    @property
    def differ(self) -> bool:
        """Whether they clearly do."""
        return self.excess > CLEARLY * self.std


def alike(release: PooledRelease) -> Alike:
    """What a pool says of how alike its members are; only differences that it shows count."""
    sizes = np.array(release.sizes, dtype=np.float64)
    counted = sizes[sizes >= release.apart_rows]
    rows, some, p = float(release.n), float(counted.sum()), release.contract.dimension
    noise = release.noise_std / rows
    mean = release.cross_vector / rows
    length = float(mean @ mean)
    share = float(np.clip(np.trace(release.gram_matrix) / rows, 0.0, 1.0))
    if release.squares is not None:
        share = min(share, float(np.clip(release.squares / rows, 0.0, 1.0)))
    expected = some * (length - p * noise**2) + max(len(counted) - some / rows, 0.0) * share
    variance = release.apart_noise_std**2
    variance += some**2 * (4 * length * noise**2 + 2 * p * noise**4)
    variance += 2 * len(counted) * share**2 + 4 * length * share * (rows - some)
    return Alike(release.apart - expected, math.sqrt(variance))
