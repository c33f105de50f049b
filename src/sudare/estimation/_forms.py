"""Noisy sums of several releases, and numbers that are linear in them.

    z        a row's features, its constant feature c (if the study has an intercept), and y
    moments  the mean of zzᵀ over all n rows, in the contract's units, noisy
    form     offset + Σ weight · (mean of z_k z_l): its noise is normal with a known variance

The noise on Σzzᵀ is independent from entry to entry, with standard deviation σ off the diagonal and
√2·σ on it; the mean of c², and for classes that of y², is known and has none. All of it is computed
from what was released: it costs nobody anything.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.releases import Contract, LearnerRelease, MomentsRelease, PooledRelease, Release

Array = NDArray[np.float64]
Entry = tuple[int, int]


@dataclass(frozen=True)
class Form:
    """A number that is linear in the moments.

    Weights may be arrays, one for each of many draws of the noise.
    """

    offset: Any = 0.0
    weights: Mapping[Entry, Any] = field(default_factory=dict)

    def __add__(self, other: "Form") -> "Form":
        weights = dict(self.weights)
        for entry, weight in other.weights.items():
            weights[entry] = weights.get(entry, 0.0) + weight
        return Form(self.offset + other.offset, weights)

    def __mul__(self, factor: Any) -> "Form":
        weights = {entry: weight * factor for entry, weight in self.weights.items()}
        return Form(self.offset * factor, weights)

    def __sub__(self, other: "Form") -> "Form":
        return self + other * -1.0


def added(forms: Iterable[Form]) -> Form:
    """Their sum."""
    total = Form()
    for form in forms:
        total = total + form
    return total


@dataclass(frozen=True)
class NoisySums:
    """Noisy Σyx, Σxxᵀ and Σy² over all rows, in units of ‖x‖ ≤ 1 and |y| ≤ 1 as in releases.

    `cross` and `gram` may have axes in front, for many draws of the noise at once.
    """

    contract: Contract
    n: int
    """Rows behind them; public."""
    cross: Array
    gram: Array
    squares: Any
    """Noisy Σy²; None where it was not released. Classes need none: it is n."""
    noise_std: float
    """Of `cross` and of `gram` off its diagonal; √2 times that on it and on `squares`."""

    @classmethod
    def of(cls, releases: Sequence[Release]) -> "NoisySums":
        """The sums of one or several releases, pooled or separate, whose rows are not the same."""
        moments = [_moments(each) for each in releases]
        if not moments:
            raise checks.InvalidInput("Expected at least one release of moments")
        contract = moments[0].contract
        if any(each.contract != contract for each in moments):
            raise checks.InvalidInput("Expected releases of one contract")
        _refuse_repeated(moments)
        squares = [each.squares if isinstance(each, PooledRelease) else None for each in moments]
        known = [value for value in squares if value is not None]
        return cls(
            contract=contract,
            n=sum(each.n for each in moments),
            cross=np.sum([each.cross_vector for each in moments], axis=0),
            gram=np.sum([each.gram_matrix for each in moments], axis=0),
            squares=sum(known) if len(known) == len(moments) else None,
            noise_std=float(np.sqrt(sum(each.noise_std**2 for each in moments))),
        )

    @property
    def constant(self) -> int | None:
        """Place of the constant feature in z."""
        return self.contract.features if self.contract.constant > 0 else None

    @property
    def target(self) -> int:
        """Place of y in z."""
        return self.contract.dimension

    @cached_property
    def moments(self) -> Array:
        """The mean of zzᵀ; NaN for that of y² where it was not released."""
        bound, norm = self.contract.target_bound or 1.0, self.contract.full_norm
        shape = (*self.cross.shape[:-1], self.target + 1, self.target + 1)
        found = np.empty(shape)
        found[..., :-1, :-1] = self.gram * (norm**2 / self.n)
        found[..., :-1, -1] = found[..., -1, :-1] = self.cross * (norm * bound / self.n)
        found[..., -1, -1] = np.nan if self.squares is None else self.squares * bound**2 / self.n
        if self.contract.classes is not None:
            found[..., -1, -1] = 1.0
        return found

    @cached_property
    def noise(self) -> Array:
        """Standard deviations of `moments`."""
        bound, norm = self.contract.target_bound or 1.0, self.contract.full_norm
        sizes = np.append(np.full(self.target, norm), bound)
        found = np.outer(sizes, sizes) * (self.noise_std / self.n)
        found[np.diag_indices(len(sizes))] *= np.sqrt(2)
        if self.contract.classes is not None:
            found[-1, -1] = 0.0
        return found

    def value(self, form: Form) -> Any:
        """What the form comes to, with the noise of the sums."""
        total = form.offset
        for (row, column), weight in form.weights.items():
            total = total + weight * self.moments[..., row, column]
        return total

    def covariance(self, first: Form, second: Form) -> Any:
        """Of the noise of two forms."""
        total = 0.0
        for entry, weight in first.weights.items():
            other = second.weights.get(entry)
            if other is not None:
                total = total + weight * other * self.noise[entry] ** 2
        return total

    def variance(self, form: Form) -> Any:
        """Of its noise: exact."""
        return self.covariance(form, form)

    def combined(self, first: Form, second: Form) -> Form:
        """Of two forms for one number, with independent noise, the mean with least noise."""
        noises = self.variance(first), self.variance(second)
        share = float(noises[1] / (noises[0] + noises[1]))
        return first * share + second * (1.0 - share)


def _moments(release: Release) -> MomentsRelease:
    if isinstance(release, LearnerRelease):
        raise checks.InvalidInput(
            "Expected releases of moments: coefficients of a model hold no sums, and nothing about "
            "single columns can be read from them"
        )
    return release


def _refuse_repeated(moments: Sequence[MomentsRelease]) -> None:
    """Nobody's rows may count twice; the members of pools have keys, all others their names."""
    keys = [key for each in moments if isinstance(each, PooledRelease) for key in each.members]
    names = [each.party for each in moments]
    if len(set(keys)) != len(keys) or len(set(names)) != len(names):
        raise checks.InvalidInput(
            "Expected every organisation once: releases that share one cannot be added up"
        )
