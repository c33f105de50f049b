"""One sum over all organisations, with one noise: what a secure sum lets everybody see.

Every organisation masks its exact sums and adds a share of the noise; the masks cancel. What comes
out is the sum of all rows' moments with Gaussian noise of standard deviation σ√(M/(M − c)): σ is
that of a single release at (ε, δ), M the number of organisations, and c how many of them may keep
their share of the noise to themselves, or tell it, before ε no longer holds. M separate releases,
added up, have σ√M. One more number says how far organisations differ (`PooledRelease.apart`), for
4.4 % more noise on all.

Here the sum is simulated. Shares are drawn on so fine a grid that their sum cannot be told from a
normal draw.
"""

from math import hypot
from typing import NamedTuple

import numpy as np

from benchmarks.consortia import DELTA, Array, Consortium, Table
from sudare.foundations.randomness import seeded
from sudare.learners import MomentsClassifier
from sudare.pooling._sessions import APART_RADIUS, APART_ROWS, APART_WEIGHT
from sudare.releases import Contract, PooledRelease

SENSITIVITY = hypot(2.0, APART_WEIGHT * (4 * APART_RADIUS + 4 / APART_ROWS))
"""How far one row moves the sum; 2 without the number that says how far organisations differ."""


class PooledSum(NamedTuple):
    """Noisy moments of all rows, in units of ‖x‖ ≤ 1 and |y| ≤ 1."""

    contract: Contract
    sizes: tuple[int, ...]
    """Rows of each organisation; own first, if it is still in."""
    cross: Array
    """Σyx."""
    gram: Array
    """Upper triangle of Σxxᵀ."""
    squares: float
    """Σy²: it comes at no cost, and tells how much of the targets is left unexplained."""
    apart: float
    """Σ‖s‖²/n over organisations, s their Σyx."""
    noise_std: float
    """Of `cross` and of `gram` off the diagonal; √2 times that on it and for `squares`."""

    @property
    def n(self) -> int:
        return sum(self.sizes)

    def without(self, own: Table) -> "PooledSum":
        """The same without the own rows, which are known exactly."""
        part = _sums(self.contract, own)
        return self._replace(
            sizes=self.sizes[1:],
            cross=self.cross - part.cross,
            gram=self.gram - part.gram,
            squares=self.squares - part.squares,
            apart=self.apart - part.apart,
        )

    def release(
        self, epsilon: float, party: str = "all others", delta: float = DELTA
    ) -> PooledRelease:
        """As one release, which any blend takes."""
        classifies = self.contract.task == "classification"
        return PooledRelease(
            party=party,
            contract=self.contract,
            n=self.n,
            event=_single(epsilon, delta).plan(),
            noise_std=self.noise_std,
            simulated=True,
            cross=tuple(self.cross),
            gram=tuple(self.gram),
            members=tuple(str(k) for k in range(len(self.sizes))),
            sizes=self.sizes,
            apart=self.apart,
            apart_noise_std=self.noise_std / APART_WEIGHT,
            apart_rows=APART_ROWS,
            apart_radius=APART_RADIUS,
            squares=None if classifies else self.squares,
        )


class _Part(NamedTuple):
    """What one organisation adds to the sum."""

    cross: Array
    gram: Array
    squares: float
    apart: float


def pooled_sum(
    consortium: Consortium,
    epsilon: float,
    seed: int,
    *,
    colluders: int = 0,
    share: float = 1.0,
    delta: float = DELTA,
) -> PooledSum:
    """The sum over the own rows and all others', at a share of the budget μ²."""
    contract, rng = consortium.contract, seeded(seed)
    own = (consortium.own_X, consortium.own_y)
    parts = [_sums(contract, own)]
    for table, factor in zip(consortium.others, consortium.factors(), strict=True):
        parts.append(_sums(contract, table, float(factor)))
    cross = np.sum([part.cross for part in parts], axis=0)
    gram = np.sum([part.gram for part in parts], axis=0)
    std = noise_std(consortium, epsilon, colluders, delta) * SENSITIVITY / (2 * share**0.5)
    rows, columns = np.triu_indices(contract.dimension)
    on_diagonal = np.where(rows == columns, np.sqrt(2), 1.0)
    return PooledSum(
        contract,
        (len(own[1]), *(len(y) for _, y in consortium.others)),
        cross + std * rng.standard_normal(len(cross)),
        gram + std * on_diagonal * rng.standard_normal(len(gram)),
        sum(part.squares for part in parts) + np.sqrt(2) * std * float(rng.standard_normal()),
        sum(part.apart for part in parts) + std / APART_WEIGHT * float(rng.standard_normal()),
        std,
    )


def noise_std(
    consortium: Consortium, epsilon: float, colluders: int, delta: float = DELTA
) -> float:
    """Of a pooled sum that one row moves by at most 2."""
    parties = 1 + len(consortium.others)
    n, d = len(consortium.own_y), consortium.contract.features
    single = _single(epsilon, delta).public_noise(n, d).noise_std
    return float(single * np.sqrt(parties / (parties - colluders)))


def _single(epsilon: float, delta: float) -> MomentsClassifier:
    """Whose release has the price of the sum, and its noise before it is shared out."""
    return MomentsClassifier(epsilon, delta=delta, row_norm=1.0)


def _sums(contract: Contract, table: Table, factor: float = 1.0) -> _Part:
    """Its exact sums, or what a hostile organisation makes of them."""
    X, y = table
    n = len(y)
    rows = contract.rows(X) / contract.full_norm
    targets = contract.targets(y) / (contract.target_bound or 1.0)
    cross = factor * (targets @ rows)
    gram = abs(factor) * (rows.T @ rows)[np.triu_indices(contract.dimension)]
    length = min(float(np.linalg.norm(cross)), APART_RADIUS * n)
    apart = length**2 / n if n >= APART_ROWS else 0.0
    return _Part(cross, gram, float(targets @ targets), apart)
