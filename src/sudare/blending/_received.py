"""From a pile of releases to arrays: one contract, one release a party, nothing impossible.

What people can put right is an error that names the parties: releases under different contracts, or
two from one party. Values that a release's own public noise law all but rules out come from a
broken or hostile party; such a release is dropped with a reason, so that it cannot stop the others.

False drops. An honest learner's release is dropped with the probability that its slack neglects,
below e⁻⁴⁰. An honest moments release, whatever its data, is dropped with probability below
`FALSE_DROP` = 3e-5: without noise Σyx is at most n long, Σxxᵀ has its eigenvalues and trace between
0 and n and a known last entry, that of the constant feature; and Gaussian noise of standard
deviation σ in p dimensions passes each of these with probability at most e^{−t²/2}, t = 5; of a
pool, how far its members differ is between 0 and what its radius lets it be:

    length of the noise on Σyx        σ(√p + t)        it concentrates about a mean of at most √p·σ
    largest eigenvalue, of −Σxxᵀ too  σ(2√p + √2·t)    the same, with Slepian's bound on the mean
    trace, single entry, apart        t standard deviations

The discrete noise of a real release differs from the Gaussian law by too little to matter here.

What is kept can be computed with: numbers of rows up to `PLAUSIBLE_ROWS`, and coefficients and
noise below 10³⁰ in units of the contract's bounds; noise below 10⁻³⁰ counts as that. Powers and
products of such numbers, and of sums over any own rows, stay within the floats.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.learners import check_bound, logistic_from_moments, ridge_from_moments
from sudare.releases import (
    PLAUSIBLE_ROWS,
    Contract,
    LearnerRelease,
    MomentsRelease,
    PooledRelease,
    Release,
)

Array = NDArray[np.float64]

FALSE_DROP = 3e-5
"""Bound on the probability that an honest moments release is dropped."""
_STRICT = 5.0
"""t above: eight events, each of probability at most e^{−12.5}."""
_LARGEST = 1e30
"""Coefficients and noise, in units of the contract's bounds; its inverse is the least noise."""


@dataclass(frozen=True)
class Dropped:
    """A release that was left out, and why."""

    party: str
    reason: str

    def __str__(self) -> str:
        return f"{self.party}: {self.reason}"


@dataclass(frozen=True)
class Learners:
    """Received coefficients, one row a party, within the ball each was released from."""

    parties: tuple[str, ...]
    coefficients: Array
    """(M, dimension), in augmented units: score = θ·(x, constant)."""
    n: NDArray[np.int64]
    noise_std: Array

    def __len__(self) -> int:
        return len(self.parties)


@dataclass(frozen=True)
class Pool:
    """Whose rows a pooled release is about, and what it says of how far its members differ."""

    sizes: Array
    """(members,): rows of each."""
    counted: NDArray[np.bool_]
    """(members,): those in `apart`."""
    apart: float
    """Noisy Σ‖s_j‖²/n_j, s_j the Σyx of a member."""
    noise_std: float
    """Of `apart`."""
    radius: float
    """‖s_j‖/n_j counts up to this."""
    squares: float | None
    """Noisy Σy²; None for classes."""


@dataclass(frozen=True)
class Moments:
    """Received moments, one layer a party, in units of ‖x‖ ≤ 1 and |y| ≤ 1 a record."""

    parties: tuple[str, ...]
    cross: Array
    """(K, dimension): noisy Σyx."""
    gram: Array
    """(K, dimension, dimension): noisy Σxxᵀ, symmetric, not necessarily positive."""
    n: NDArray[np.int64]
    noise_std: Array
    """(K,): of each entry; √2 times that on the diagonals of `gram`."""
    pools: Mapping[int, Pool]
    """More about those that are of several organisations, by their place."""

    def __len__(self) -> int:
        return len(self.parties)


@dataclass(frozen=True)
class Received:
    """What came in: everything usable as arrays, everything else by name."""

    contract: Contract
    learners: Learners
    moments: Moments
    dropped: tuple[Dropped, ...]

    @property
    def parties(self) -> tuple[str, ...]:
        """Whose releases were kept: learners first, then moments."""
        return self.learners.parties + self.moments.parties

    def as_learners(self) -> Learners:
        """Every release as coefficients: those received, then what each moments release predicts.

        The noise of a learner made from moments is, roughly, that of Σyx over the curvature of its
        fit for rows spread evenly: a public number.
        """
        if not len(self.moments):
            return self.learners
        contract, held = self.contract, self.moments
        p, unit = contract.dimension, 1 / coefficient_unit(contract)
        curvature = held.n / (p if contract.target_bound is not None else 4 * p)
        made = [self._from_moments(k) for k in range(len(held))]
        noise = held.noise_std / (curvature + held.noise_std * math.sqrt(p))
        return Learners(
            self.parties,
            np.vstack([self.learners.coefficients, unit * np.array(made)]),
            np.concatenate([self.learners.n, held.n]),
            np.concatenate([self.learners.noise_std, unit * noise]),
        )

    def _from_moments(self, k: int) -> Array:
        """θ in units of ‖x‖ ≤ 1 and |y| ≤ 1."""
        contract, held = self.contract, self.moments
        n, noise_std = int(held.n[k]), float(held.noise_std[k])
        if contract.task == "regression":
            return ridge_from_moments(held.cross[k], held.gram[k], noise_std)
        share = contract.constant / contract.full_norm
        return logistic_from_moments(held.cross[k], held.gram[k], n, noise_std, share)


def receive(releases: Iterable[Release], contract: Contract | None = None) -> Received:
    """Check and stack releases; without any, `contract` says what they would have been about."""
    pile = _pile(releases)
    if contract is None:
        if not pile:
            raise checks.InvalidInput("Expected at least one release, or a contract")
        contract = pile[0].contract
        _check_contracts(pile, contract, pile[0].party)
    elif not isinstance(contract, Contract):
        raise checks.InvalidInput("Expected contract to be a sudare.releases.Contract")
    else:
        _check_contracts(pile, contract, None)
    _check_bounds(contract)
    problems = [impossible(release) for release in pile]
    kept = [release for release, problem in zip(pile, problems, strict=True) if problem is None]
    return Received(
        contract,
        _stack_learners([r for r in kept if isinstance(r, LearnerRelease)], contract),
        _stack_moments([r for r in kept if isinstance(r, MomentsRelease)], contract),
        tuple(
            Dropped(release.party, problem)
            for release, problem in zip(pile, problems, strict=True)
            if problem is not None
        ),
    )


def coefficient_unit(contract: Contract) -> float:
    """What received coefficients are multiplied by to be about ‖x‖ ≤ 1 and |y| ≤ 1."""
    return contract.full_norm / (contract.target_bound or 1.0)


def impossible(release: Release) -> str | None:
    """Why an honest party cannot have sent this; None if it can."""
    if release.n > PLAUSIBLE_ROWS:
        return f"states {release.n} rows, more than anyone has"
    unit = coefficient_unit(release.contract) if isinstance(release, LearnerRelease) else 1.0
    if release.noise_std > _LARGEST / unit:
        return f"states a noise of {release.noise_std:.3g}, too large to compute with"
    if isinstance(release, LearnerRelease):
        length, most = _length(release.theta), release.radius + release.slack
        if length > most * (1 + 1e-9):
            return f"coefficients {length:.3g} long, at most {most:.3g} under its own noise law"
        return "coefficients too large to compute with" if length > _LARGEST / unit else None
    return (
        _impossible_sums(release)
        or _impossible_squares(release)
        or (_impossible_pool(release) if isinstance(release, PooledRelease) else None)
    )


def _impossible_sums(release: MomentsRelease) -> str | None:
    p = release.contract.dimension
    most = release.n + release.noise_std * (math.sqrt(p) + _STRICT) + _rounding(release)
    if (length := _length(release.cross_vector)) > most:
        return f"Σyx is {length:.3g} long, at most {most:.3g} under its own noise law"
    return None


def _impossible_squares(release: MomentsRelease) -> str | None:
    contract, n, std = release.contract, release.n, release.noise_std
    p, slack = contract.dimension, _rounding(release)
    # Scaled down, so that no entry is too large for the eigenvalues' solver.
    gram = release.gram_matrix
    scale = max(1.0, float(np.abs(gram).max()))
    values = np.linalg.eigvalsh(gram / scale) * scale
    margin = std * (2 * math.sqrt(p) + math.sqrt(2) * _STRICT) + slack
    if values[0] < -margin or values[-1] > n + margin:
        return (
            f"Σxxᵀ has eigenvalues from {values[0]:.3g} to {values[-1]:.3g}; its own noise law "
            f"allows {-margin:.3g} to {n + margin:.3g}"
        )
    trace, most = float(np.trace(gram)), n + std * math.sqrt(2 * p) * _STRICT + slack
    if trace > most:
        return f"Σxxᵀ has trace {trace:.3g}, at most {most:.3g} under its own noise law"
    if contract.constant > 0:
        square = n * (contract.constant / contract.full_norm) ** 2
        margin = std * math.sqrt(2) * _STRICT + slack
        if abs(gram[-1, -1] - square) > margin:
            return (
                f"its constant feature adds up to {gram[-1, -1]:.3g}, which its own noise law "
                f"puts at {square:.3g} ± {margin:.3g}"
            )
    return None


def _impossible_pool(release: PooledRelease) -> str | None:
    if min(release.sizes, default=0) < 1:
        return "states a member without rows"
    if release.squares is not None and not math.isfinite(release.squares):
        return "Σy² is not a number"
    if release.apart_noise_std > _LARGEST:
        return f"states a noise of {release.apart_noise_std:.3g}, too large to compute with"
    counted = sum(size for size in release.sizes if size >= release.apart_rows)
    margin = release.apart_noise_std * _STRICT + _rounding(release)
    most = min(release.apart_radius, 1.0) ** 2 * counted + margin
    if not -margin <= release.apart <= most:
        return (
            f"how far its members differ is {release.apart:.3g}, from {-margin:.3g} to {most:.3g} "
            "under its own noise law"
        )
    return None


def _rounding(release: MomentsRelease) -> float:
    """Of sums and of the grid; matters only where there is almost no noise."""
    return 2.0**-10 + release.n * 2.0**-30


def _pile(releases: Iterable[Release]) -> list[Release]:
    if isinstance(releases, LearnerRelease | MomentsRelease):
        raise checks.InvalidInput("Expected a list of releases, not a single one")
    try:
        pile = list(releases)
    except TypeError:
        raise checks.InvalidInput("Expected releases to be a list of releases") from None
    for release in pile:
        if not isinstance(release, LearnerRelease | MomentsRelease):
            raise checks.InvalidInput(
                "Expected LearnerRelease and MomentsRelease objects, not "
                f"{type(release).__name__}; a fitted learner gives one by .release(party=...)"
            )
    names: set[str] = set()
    for release in pile:
        if release.party in names:
            raise checks.InvalidInput(
                f"Expected one release a party, but {release.party!r} sent several: "
                "choose which one counts"
            )
        names.add(release.party)
    return pile


def _check_contracts(pile: Sequence[Release], contract: Contract, first: str | None) -> None:
    agreed = "the agreed contract" if first is None else f"{first!r}"
    for release in pile:
        if release.contract == contract:
            continue
        for field in contract.__struct_fields__:
            ours, theirs = getattr(contract, field), getattr(release.contract, field)
            if ours != theirs:
                raise checks.InvalidInput(
                    f"Expected all releases under one contract: {agreed} has "
                    f"{field}={ours!r}, {release.party!r} has {field}={theirs!r}"
                )


def _check_bounds(contract: Contract) -> None:
    """As learners do: beyond these, products of the bounds leave the floats."""
    bounds = {"row_norm": contract.row_norm, "constant": contract.constant or None}
    bounds["target_bound"] = contract.target_bound
    check_bound(**{name: bound for name, bound in bounds.items() if bound is not None})


def _stack_learners(kept: Sequence[LearnerRelease], contract: Contract) -> Learners:
    theta = np.array([r.coefficients for r in kept], dtype=np.float64)
    theta = theta.reshape(len(kept), contract.dimension)
    norms = np.linalg.norm(theta, axis=1)
    radii = np.array([r.radius for r in kept], dtype=np.float64)
    outside = norms > radii
    theta[outside] *= (radii[outside] / norms[outside])[:, None]
    noise_std = np.maximum(_noise(kept), 1 / (_LARGEST * coefficient_unit(contract)))
    return Learners(tuple(r.party for r in kept), theta, _counts(kept), noise_std)


def _stack_moments(kept: Sequence[MomentsRelease], contract: Contract) -> Moments:
    p = contract.dimension
    cross = np.array([r.cross for r in kept], dtype=np.float64).reshape(len(kept), p)
    gram = np.array([r.gram_matrix for r in kept]).reshape(len(kept), p, p)
    noise_std = np.maximum(_noise(kept), 1 / _LARGEST)
    pools = {k: _pool(r) for k, r in enumerate(kept) if isinstance(r, PooledRelease)}
    return Moments(tuple(r.party for r in kept), cross, gram, _counts(kept), noise_std, pools)


def _pool(release: PooledRelease) -> Pool:
    return Pool(
        np.array(release.sizes, dtype=np.float64),
        np.array([size >= release.apart_rows for size in release.sizes]),
        release.apart,
        max(release.apart_noise_std, 1 / _LARGEST),
        min(release.apart_radius, 1.0),
        release.squares,
    )


def _counts(kept: Sequence[Release]) -> NDArray[np.int64]:
    return np.array([r.n for r in kept], dtype=np.int64)


def _noise(kept: Sequence[Release]) -> Array:
    return np.array([r.noise_std for r in kept], dtype=np.float64)


def _length(vector: Array) -> float:
    """Euclidean norm, also of numbers whose squares would overflow."""
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * float(np.linalg.norm(vector / largest)) if largest > 0 else 0.0
