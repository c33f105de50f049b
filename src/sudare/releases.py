"""What an organisation publishes: private numbers with all that others need to use them.

A `Contract` is what the parties agreed on before anyone looked at data. A release is made under
one, and only releases of the same contract can be blended. Both hold public or protected numbers
only; there is no way to put rows into them.

    LearnerRelease   coefficients of a private regression, or one draw from a posterior
    MomentsRelease   noisy Σyx and Σxxᵀ, from which others can learn more than from coefficients
    PooledRelease    the same over the rows of several organisations, with one noise for all
    PooledLearner    coefficients of a regression over the rows of several organisations
"""

import math
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.foundations.privacy import Event
from sudare.foundations.rounding import up

Array = NDArray[np.float64]
Label = bool | int | float | str
Task = Literal["classification", "regression"]

INTERCEPT_SHARE = 0.25
"""Size of the constant feature against the row norm: the intercept costs 3 % more noise."""
_HUGE = 1e120
_LONGEST_NAME = 200
_MOST_ROWS = 2**53
PLAUSIBLE_ROWS = 10**9
"""More than any party has: a release that claims more can be read, but not computed with."""
_POOLED_START = b'{"answers":'
"""Fields are in the order of their names."""
LARGEST_POOLED = 256 << 20
"""Bytes of a pool's result; a hundred organisations with two hundred features make some twenty
million."""


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """The public bounds that all parties of a study share."""

    features: int
    """Columns of a row, without the constant feature."""
    row_norm: float
    """Rows longer than this (Euclidean norm) are shortened to it."""
    constant: float = 0.0
    """Value of the constant feature that carries the intercept; 0 for no intercept."""
    classes: tuple[Label, Label] | None = None
    """Classification: the label that counts as −1 and the one that counts as +1."""
    target_bound: float | None = None
    """Regression: targets are clipped to ±target_bound."""

    def __post_init__(self) -> None:
        checks.count(features=self.features)
        checks.positive(row_norm=self.row_norm)
        checks.non_negative(constant=self.constant)
        if (self.classes is None) == (self.target_bound is None):
            raise checks.InvalidInput(
                "Expected either classes (classification) or target_bound (regression)"
            )
        if self.target_bound is not None:
            checks.positive(target_bound=self.target_bound)
        elif self.classes is not None and self.classes[0] == self.classes[1]:
            raise checks.InvalidInput("Expected classes to be two different labels")

    @property
    def task(self) -> Task:
        return "regression" if self.classes is None else "classification"

    @property
    def dimension(self) -> int:
        """Numbers in a row, the constant feature included."""
        return self.features + (self.constant > 0)

    @property
    def full_norm(self) -> float:
        """Largest norm of a row with its constant feature, rounded up."""
        return up(math.hypot(self.row_norm, self.constant))

    def rows(self, table: Array) -> Array:
        """The rows as every party of this contract sees them: shortened, the constant last."""
        table = checks.finite_array(dimensions=2, X=table)
        if table.shape[1] != self.features:
            raise checks.InvalidInput(
                f"Expected {self.features} columns as in the contract, found {table.shape[1]}"
            )
        table, factors = shortening(table, self.row_norm)
        rows: Array = np.empty((len(table), self.dimension))
        rows[:, : self.features] = table * factors[:, None]
        if self.constant > 0:
            rows[:, -1] = self.constant
        return rows

    def targets(self, y: Any) -> Array:
        """−1 and +1 for the two classes, or targets clipped to their bound."""
        if self.target_bound is not None:
            numbers = checks.finite_array(dimensions=1, y=y)
            return np.clip(numbers, -self.target_bound, self.target_bound)
        assert self.classes is not None
        labels = np.asarray(y)
        if labels.ndim != 1:
            raise checks.InvalidInput("Expected y to hold one label for each row")
        second = labels == self.classes[1]
        if not np.all(second | (labels == self.classes[0])):
            raise checks.InvalidInput("Expected y to hold only the two labels of the contract")
        return np.where(second, 1.0, -1.0)


class _Release(msgspec.Struct, frozen=True, kw_only=True):
    party: str
    contract: Contract
    n: int
    """Rows behind it; public."""
    event: Event
    """What it cost those rows."""
    noise_std: float
    simulated: bool = False
    """Drawn with a seed, for trying things out: never to be signed."""

    def __post_init__(self) -> None:
        name = self.party
        if not (isinstance(name, str) and name.strip() and name.isprintable()):
            raise checks.InvalidInput("Expected party to be a printable name")
        if len(name) > _LONGEST_NAME:
            raise checks.InvalidInput(f"Expected party to have at most {_LONGEST_NAME} letters")
        checks.count(n=self.n)
        if self.n > _MOST_ROWS:
            raise checks.InvalidInput("Expected n to be a number of rows that there can be")
        checks.positive(noise_std=self.noise_std)


class LearnerRelease(_Release, frozen=True, tag_field="kind", tag="learner/1"):
    """Private coefficients θ, for scores θ·x over rows with their constant feature.

    `noise_std` is about the standard deviation that privacy adds to a coefficient. It is computed
    from public numbers: rows are taken to look in all directions alike.
    """

    coefficients: tuple[float, ...]
    radius: float
    """Public bound on ‖θ‖ before the last noise."""
    slack: float
    """How far beyond `radius` that noise can carry ‖θ‖, but for a probability below e⁻⁴⁰."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(radius=self.radius)
        checks.non_negative(slack=self.slack)
        _check_numbers(self.contract.dimension, coefficients=self.coefficients)

    @property
    def theta(self) -> Array:
        return np.array(self.coefficients)

    @property
    def numbers(self) -> int:
        """How many numbers were released."""
        return len(self.coefficients)


class PooledLearner(LearnerRelease, frozen=True, kw_only=True, tag="pooled-learner/1"):
    """Coefficients learnt from the rows of several organisations, with one noise for all of them.

    Like a `PooledRelease` it is computed from what all of them signed. No member can take its own
    part off it: it is no sum.
    """

    members: tuple[str, ...]
    """Fingerprints of their signing keys."""
    sizes: tuple[int, ...]
    """Rows of each; public."""
    delta: float = 1e-6
    honest: tuple[tuple[int, float], ...] = ()
    """Pairs (h, ε): what holds at `delta` if h members keep their share of the noise secret."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_sizes(self.members, self.sizes, self.n)


class MomentsRelease(_Release, frozen=True, tag_field="kind", tag="moments/1"):
    """Noisy sums over rows x with ‖x‖ ≤ 1 and targets |y| ≤ 1, in units of the contract's bounds.

    Rows carry their constant feature and are divided by `contract.full_norm`, targets by the
    target's bound. `noise_std` is that of `cross` and of `gram` off its diagonal, where it is √2
    times as large.
    """

    cross: tuple[float, ...]
    """Σyx."""
    gram: tuple[float, ...]
    """Upper triangle of Σxxᵀ, row by row."""

    def __post_init__(self) -> None:
        super().__post_init__()
        p = self.contract.dimension
        _check_numbers(p, cross=self.cross)
        _check_numbers(p * (p + 1) // 2, gram=self.gram)

    @property
    def numbers(self) -> int:
        """How many numbers were released."""
        return len(self.cross) + len(self.gram)

    @property
    def cross_vector(self) -> Array:
        return np.array(self.cross)

    @property
    def gram_matrix(self) -> Array:
        p = self.contract.dimension
        upper = np.triu_indices(p)
        matrix = np.zeros((p, p))
        matrix[upper] = self.gram
        matrix.T[upper] = self.gram
        return matrix


class PooledRelease(MomentsRelease, frozen=True, kw_only=True, tag="pooled/1"):
    """Moments summed over the rows of several organisations, with one noise for all of them.

    Nobody signs one alone: it is computed from what all of them signed (`sudare.pooling`).
    """

    members: tuple[str, ...]
    """Fingerprints of their signing keys."""
    sizes: tuple[int, ...]
    """Rows of each; public."""
    apart: float
    """Noisy Σ_j ‖s_j‖²/n_j, s_j the Σyx of a member with at least `apart_rows` rows, its length
    counted up to `apart_radius`·n_j: what exceeds ‖Σs‖²/n says how far members differ."""
    apart_noise_std: float
    apart_rows: int
    apart_radius: float
    squares: float | None = None
    """Noisy Σy², with √2 times the noise; None for classes, where it is n."""
    delta: float = 1e-6
    honest: tuple[tuple[int, float], ...] = ()
    """Pairs (h, ε): what holds at `delta` if h members keep their share of the noise secret."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(apart_noise_std=self.apart_noise_std, apart_radius=self.apart_radius)
        _check_sizes(self.members, self.sizes, self.n)

    @property
    def numbers(self) -> int:
        """How many numbers were released."""
        return len(self.cross) + len(self.gram) + 1 + (self.squares is not None)


Release = LearnerRelease | MomentsRelease
"""What one party can sign; a pooled release is one of them, too, to whoever blends."""
Pooled = PooledRelease | PooledLearner
"""What only several can make."""


def without(release: PooledRelease, member: str, table: Array, targets: Any) -> PooledRelease:
    """A pooled release less the exact part of one member, whose rows are at hand: its own.

    What is left is about the others alone, with the same noise, so that a blend with own rows does
    not count these twice. Like own rows it stays inside: it says more about them than the pool.

    Args:
        member: Fingerprint of its signing key, as in `members`.
        table: The rows that went into the pool; they are shortened to the contract's norm here.
        targets: Labels of the contract's classes, or numbers.
    """
    if release.members.count(member) != 1:
        raise checks.InvalidInput("Expected a member of this pool: it holds nothing of this one")
    contract, place = release.contract, release.members.index(member)
    rows = contract.rows(table) / contract.full_norm
    y = contract.targets(targets) / (contract.target_bound or 1.0)
    n = release.sizes[place]
    if len(rows) != n or len(y) != n:
        raise checks.InvalidInput(
            f"Expected the {n} rows that went into the pool, found {len(rows)} and {len(y)} targets"
        )
    if len(release.members) == 1:
        raise checks.InvalidInput("Expected a pool with other members: nothing would be left of it")
    cross, gram = y @ rows, rows.T @ rows
    length = min(float(np.linalg.norm(cross)), release.apart_radius * n)
    return msgspec.structs.replace(
        release,
        n=release.n - n,
        cross=tuple((release.cross_vector - cross).tolist()),
        gram=tuple((np.array(release.gram) - gram[np.triu_indices(len(gram))]).tolist()),
        squares=None if release.squares is None else release.squares - float(y @ y),
        apart=release.apart - (length**2 / n if n >= release.apart_rows else 0.0),
        members=release.members[:place] + release.members[place + 1 :],
        sizes=release.sizes[:place] + release.sizes[place + 1 :],
    )


def without_rows(release: PooledLearner, member: str) -> PooledLearner:
    """Coefficients of a pool as one of its members blends them: as what the others know.

    Its own rows remain in what was learnt, one part of many; they do not count a second time.
    """
    if release.members.count(member) != 1 or len(release.members) == 1:
        raise checks.InvalidInput("Expected a member of this pool, and others in it")
    place = release.members.index(member)
    return msgspec.structs.replace(
        release,
        n=release.n - release.sizes[place],
        members=release.members[:place] + release.members[place + 1 :],
        sizes=release.sizes[:place] + release.sizes[place + 1 :],
    )


def is_pooled(data: bytes) -> bool:
    """Whether these bytes begin like the file of a pool's result, which is no signed release."""
    return data.startswith(_POOLED_START)


def shortening(table: Array, row_norm: float) -> tuple[Array, Array]:
    """The table, and for each row the factor ≤ 1 that brings it within `row_norm`.

    A little inside, so that no rounding lets a row out. The table is a copy only where a row is so
    long that its square would leave the floats; there just the direction counts.
    """
    limit = row_norm * (1 - (table.shape[1] + 8) * 2.0**-52)
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", table, table))
    huge = norms > _HUGE
    if huge.any():
        table = table.copy()
        table[huge] *= _HUGE / np.abs(table[huge]).max(axis=1, keepdims=True)
        norms[huge] = np.linalg.norm(table[huge], axis=1)
    return table, limit / np.maximum(norms, limit)


def _check_sizes(members: tuple[str, ...], sizes: tuple[int, ...], n: int) -> None:
    if len(members) != len(sizes) or sum(sizes) != n:
        raise checks.InvalidInput("Expected the sizes of all members, adding up to n")


def _check_numbers(size: int, **named: tuple[float, ...]) -> None:
    for name, values in named.items():
        if len(values) != size:
            raise checks.InvalidInput(f"Expected {size} numbers in {name}, found {len(values)}")
        if not all(math.isfinite(value) for value in values):
            raise checks.InvalidInput(f"Expected every number in {name} to be finite")
