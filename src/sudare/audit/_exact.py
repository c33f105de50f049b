"""Exact audits: the privacy of a pair of known output distributions, by integration.

For output densities p and q (with point masses, if any) on two neighbouring inputs, the smallest
delta for which the pair satisfies (epsilon, delta) in one direction is the hockey-stick divergence,
the integral of max(0, p - exp(epsilon) q). A pure epsilon claim is wrong as soon as it is positive.

Guarantee: values come with an error estimate that covers quadrature, rounding and any shortfall of
the densities from total mass one; densities that miss it by more than `MASS_TOLERANCE` are
refused. The estimate is numerical, not a proof: a feature narrower than the grid can hide from it,
unless it shows in the total mass.

Reference: Balle, Barthe and Gaboardi (2018) for the hockey-stick form of (epsilon, delta).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sudare.audit import _search as search
from sudare.audit._findings import ExactFinding
from sudare.audit._quadrature import Box, Floats, Kink, integrate, split
from sudare.foundations import checks

LogDensity: TypeAlias = Callable[[Any], Any]
"""Points (m,) on a line, or (m, 2) in a plane, to log densities (m,); minus infinity is allowed."""

Domain: TypeAlias = Sequence[tuple[float, float]]
"""((low, high),) or ((low, high), (low, high)); sides may be infinite."""

Atoms: TypeAlias = Sequence[tuple[float, float]]
"""Point masses: for each, its probability under the first and under the second input."""

MASS_TOLERANCE = 1e-6

_TOLERANCE = 1e-12
_UNIT = float(np.finfo(np.float64).eps)
_MAX_POINTS = {1: 1_000_000, 2: 2_000_000}


def hockey_stick(
    log_p: LogDensity,
    log_q: LogDensity,
    epsilon: float,
    domain: Domain,
    *,
    atoms: Atoms = (),
) -> float:
    """The smallest delta with P(S) <= exp(epsilon) Q(S) + delta for every event S."""
    checks.non_negative(epsilon=epsilon)
    return _divergences(_Pair(log_p, log_q, domain, atoms), epsilon).forward


def worst_log_ratio(
    log_p: LogDensity, log_q: LogDensity, domain: Domain, *, atoms: Atoms = ()
) -> float:
    """The largest log(p / q) met by a grid and searches from it: a lower bound of the supremum.

    Infinite where the first input allows what the second does not. Densities need not be normalised
    and may be restricted to a part of the outputs.
    """
    pair = _Pair(log_p, log_q, domain, atoms)
    return max(pair.peak_loss(0), pair.atom_ratio(0))


def audit_exact(
    log_p: LogDensity,
    log_q: LogDensity,
    *,
    epsilon: float,
    domain: Domain,
    delta: float = 0.0,
    atoms: Atoms = (),
) -> ExactFinding:
    """Check an (epsilon, delta) claim on one pair of inputs, in both directions.

    To audit a part of the outputs only, merge the rest into one atom: merging outcomes can hide a
    violation but never make one.
    """
    checks.positive(epsilon=epsilon)
    checks.delta_like(delta=delta)
    pair = _Pair(log_p, log_q, domain, atoms)
    result = _divergences(pair, epsilon)
    ratios = [f(above) for f in (pair.peak_loss, pair.atom_ratio) for above in (0, 1)]
    return ExactFinding(
        epsilon=float(epsilon),
        delta=float(delta),
        delta_at_epsilon=max(result.forward, result.backward),
        worst_log_ratio=max(ratios),
        integration_error=result.error,
    )


class _Divergences(NamedTuple):
    forward: float
    backward: float
    error: float


class _Pair:
    """Two log densities and their common atoms, in unit coordinates."""

    def __init__(self, log_p: LogDensity, log_q: LogDensity, domain: Domain, atoms: Atoms) -> None:
        self.box = Box(_checked_domain(domain))
        self.atoms = _checked_atoms(atoms)
        self._functions = (log_p, log_q)

    def logs(self, unit: Floats) -> tuple[Floats, Floats, Floats]:
        """log p, log q and the log volume factor at unit coordinates (m, d)."""
        place, log_volume = self.box.points(unit)
        place = place[:, 0] if self.box.dimension == 1 else place
        values = []
        for name, function in zip(("log_p", "log_q"), self._functions, strict=True):
            value = np.asarray(function(place), dtype=np.float64)
            if value.shape != (len(unit),):
                raise checks.InvalidInput(
                    f"Expected {name} to return one number per point: shape ({len(unit)},), "
                    f"not {value.shape}"
                )
            if np.isnan(value).any() or np.isposinf(value).any():
                raise checks.InvalidInput(f"Expected {name} never to be NaN or plus infinity")
            values.append(value)
        return values[0], values[1], log_volume

    def loss(self, unit: Floats) -> Floats:
        """log p - log q."""
        log_p, log_q, _ = self.logs(unit)
        return _difference(log_p, log_q)

    def peak_loss(self, above: int) -> float:
        """The largest log density ratio met, of the input `above` over the other.

        Far out, logs are large and their difference is mostly rounding; what rounding could have
        made is taken off, so that no ratio is reported that may not be there.
        """

        def certain(unit: Floats) -> Floats:
            logs = self.logs(unit)
            upper, lower = logs[above], logs[1 - above]
            doubt = 4 * _UNIT * (_magnitude(upper) + _magnitude(lower))
            return _difference(upper, lower) - doubt

        found = search.peaks(certain, self.box.dimension)
        return float(np.max(certain(found))) if len(found) else -math.inf

    def atom_ratio(self, above: int) -> float:
        """The largest log ratio of an atom, of the input `above` over the other."""
        ratios = [
            math.inf if masses[1 - above] == 0 else math.log(masses[above] / masses[1 - above])
            for masses in self.atoms
            if masses[above] > 0
        ]
        return max(ratios, default=-math.inf)


def _divergences(pair: _Pair, epsilon: float) -> _Divergences:
    """Both hockey-stick divergences from one pass over the cells, and an error that covers each."""

    def integrand(unit: Floats) -> Floats:
        log_p, log_q, log_volume = pair.logs(unit)
        with np.errstate(over="ignore"):
            p, q = np.exp(log_p + log_volume), np.exp(log_q + log_volume)
        # Not p - exp(epsilon) q: near the kink the difference of the logs loses fewer digits.
        over, under = _difference(log_p, log_q) - epsilon, _difference(log_q, log_p) - epsilon
        forward = p * -np.expm1(-np.maximum(over, 0.0))
        backward = q * -np.expm1(-np.maximum(under, 0.0))
        guards = np.clip(over, -1.0, 1.0), np.clip(under, -1.0, 1.0)
        size = p * (1 + _magnitude(log_p)) + q * (1 + _magnitude(log_q))
        return np.stack([p, q, forward, backward, size, *guards], axis=1)

    dimension = pair.box.dimension
    values, errors = integrate(
        integrand,
        _cells(pair, epsilon),
        tolerance=_TOLERANCE,
        max_points=_MAX_POINTS[dimension],
        kinks=(Kink(2, 0, 5), Kink(3, 1, 6)),
    )
    masses = values[:2] + pair.atoms.sum(axis=0)
    for name, mass, error in zip(("log_p", "log_q"), masses, errors, strict=False):
        if not abs(mass - 1) <= MASS_TOLERANCE + error:
            raise checks.InvalidInput(
                f"Expected {name} and its atoms to have total mass 1 within {MASS_TOLERANCE:g}; "
                f"found {mass:.9g} over the domain"
            )
    factor = math.exp(epsilon)
    first, second = pair.atoms[:, 0], pair.atoms[:, 1]
    # A log density computed in doubles is off by a few units of its last digit, and so is a product
    # of atoms; a distribution that misses mass one may hide or invent as much divergence.
    rounding = 16 * _UNIT * (values[4] + factor)
    shortfall = factor * float(np.abs(masses - 1).max())
    return _Divergences(
        forward=float(values[2] + np.maximum(first - factor * second, 0.0).sum()),
        backward=float(values[3] + np.maximum(second - factor * first, 0.0).sum()),
        error=float(max(errors[2], errors[3]) + shortfall + rounding),
    )


def _cells(pair: _Pair, epsilon: float) -> Floats:
    """First cells in unit coordinates: finer around peaks, cut where the log ratio is ±epsilon."""
    dimension = pair.box.dimension

    def log_mass(which: int) -> Callable[[Floats], Floats]:
        return lambda unit: pair.logs(unit)[which] + pair.logs(unit)[2]

    functions = [log_mass(0), log_mass(1), pair.loss, lambda unit: -pair.loss(unit)]
    special = np.concatenate([search.peaks(function, dimension) for function in functions])
    if dimension == 2:
        ticks = np.linspace(0, 1, 17)
        sides = np.stack([ticks[:-1], ticks[1:]], axis=1)
        cells = np.stack([np.repeat(sides, 16, axis=0), np.tile(sides, (16, 1))], axis=1)
        for _ in range(8):
            low, high = cells[:, None, :, 0], cells[:, None, :, 1]
            near = np.any(np.all((special > low) & (special < high), axis=2), axis=1)
            cells = np.concatenate([cells[~near], split(cells[near])])
        return cells
    around = special + np.concatenate([2.0 ** -np.arange(4, 40), -(2.0 ** -np.arange(4, 40))])
    points = np.sort(np.concatenate([search.grid(1), special]), axis=0)
    kinks = [
        search.crossings(lambda unit: pair.loss(unit) - epsilon, points, 1e-13),
        search.crossings(lambda unit: pair.loss(unit) + epsilon, points, 1e-13),
    ]
    edges = np.concatenate([np.linspace(0, 1, 65), *(x.ravel() for x in (special, around, *kinks))])
    edges = np.unique(edges[(edges >= 0) & (edges <= 1)])
    return np.stack([edges[:-1], edges[1:]], axis=1)[:, None, :]


def _difference(upper: Floats, lower: Floats) -> Floats:
    """upper - lower where both may be minus infinity; there, minus infinity."""
    gone = np.isneginf(upper)
    return np.where(gone, -np.inf, np.where(gone, 0.0, upper) - lower)


def _magnitude(log: Floats) -> Floats:
    """Absolute value; zero for minus infinity, which is exact."""
    return np.abs(np.where(np.isneginf(log), 0.0, log))


def _checked_domain(domain: Domain) -> list[tuple[float, float]]:
    try:
        sides = [(float(low), float(high)) for low, high in domain]
    except (TypeError, ValueError):
        raise checks.InvalidInput("Expected domain to be ((low, high), ...)") from None
    if len(sides) not in (1, 2) or not all(low < high for low, high in sides):
        raise checks.InvalidInput("Expected domain to have one or two sides, each with low < high")
    return sides


def _checked_atoms(atoms: Atoms) -> Floats:
    try:
        table = np.array([(float(first), float(second)) for first, second in atoms])
    except (TypeError, ValueError):
        raise checks.InvalidInput("Expected atoms to be pairs of probabilities") from None
    if not ((table >= 0) & (table <= 1)).all():
        raise checks.InvalidInput("Expected atoms to be pairs of probabilities in [0, 1]")
    return table.reshape(-1, 2)
