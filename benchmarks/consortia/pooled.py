"""One sum over all organisations, with one noise: what a secure sum lets everybody see.

Every organisation masks its exact sums and adds a share of the noise; the masks cancel. What comes
out is the sum of all rows' moments with Gaussian noise of standard deviation σ√(M/(M − c)): σ is
that of a single release at (ε, δ), M the number of organisations, and c how many of them may keep
their share of the noise to themselves, or tell it, before ε no longer holds. M separate releases,
added up, have σ√M.

Here the sum is simulated. Shares are drawn on so fine a grid that their sum cannot be told from a
normal draw.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.consortia import DELTA, Array, Consortium, Table
from sudare.foundations.randomness import seeded
from sudare.learners import MomentsClassifier
from sudare.releases import Contract, MomentsRelease


class PooledSum(NamedTuple):
    """Noisy moments of all rows, in units of ‖x‖ ≤ 1 and |y| ≤ 1."""

    contract: Contract
    n: int
    cross: Array
    """Σyx."""
    gram: Array
    """Upper triangle of Σxxᵀ."""
    squares: float
    """Σy²: it comes at no cost, and tells how much of the targets is left unexplained."""
    noise_std: float
    """Of `cross` and of `gram` off the diagonal; √2 times that on it and for `squares`."""

    def without(self, table: Table) -> "PooledSum":
        """The same without some rows that are known exactly, such as one's own."""
        n, cross, gram, squares = _sums(self.contract, table)
        return self._replace(
            n=self.n - n,
            cross=self.cross - cross,
            gram=self.gram - gram,
            squares=self.squares - squares,
        )

    def release(
        self, epsilon: float, party: str = "all others", delta: float = DELTA
    ) -> MomentsRelease:
        """As one release, which any blend takes."""
        return MomentsRelease(
            party=party,
            contract=self.contract,
            n=self.n,
            event=_single(epsilon, delta).plan(),
            noise_std=self.noise_std,
            simulated=True,
            cross=tuple(self.cross),
            gram=tuple(self.gram),
        )


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
    n, cross, gram, squares = _sums(contract, consortium.pooled())
    std = noise_std(consortium, epsilon, colluders, delta) / float(np.sqrt(share))
    rows, columns = np.triu_indices(contract.dimension)
    on_diagonal = np.where(rows == columns, np.sqrt(2), 1.0)
    return PooledSum(
        contract,
        n,
        cross + std * rng.standard_normal(len(cross)),
        gram + std * on_diagonal * rng.standard_normal(len(gram)),
        squares + np.sqrt(2) * std * float(rng.standard_normal()),
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


def _sums(contract: Contract, table: Table) -> tuple[int, Array, Array, float]:
    X, y = table
    rows = contract.rows(X) / contract.full_norm
    targets = contract.targets(y) / (contract.target_bound or 1.0)
    gram = (rows.T @ rows)[np.triu_indices(contract.dimension)]
    return len(targets), targets @ rows, gram, float(targets @ targets)
