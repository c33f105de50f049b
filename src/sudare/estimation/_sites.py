"""A linear model over sites that differ: each site's own, and their mean (random effects).

Every site has coefficients of its own, drawn from a law about the consortium's. For each
coefficient, with site j telling β̂_j and variance v_j (noise and sampling):

    τ²      between sites, by restricted maximum likelihood (REML)
    w_j     1/(v_j + τ²);   β̂ = Σw_jβ̂_j/Σw_j
    Var β̂   Σw_j(β̂_j − β̂)²/((k − 1)Σw_j), and Student's t with k − 1 degrees of freedom (Hartung and
            Knapp 2001): from how far sites really stand apart

Separate releases do not hold Σy², so that v_j is an upper bound. In Hartung and Knapp's interval
only the ratios of the w_j count, and a common factor in the v_j + τ² cancels.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from sudare.estimation._coefficients import (
    HIDDEN,
    Coefficient,
    Model,
    SiteEstimate,
    Term,
    check_level,
    coefficient,
    in_study_units,
    not_told,
    study_terms,
)
from sudare.estimation._forms import NoisySums
from sudare.estimation._models import linear_equations
from sudare.estimation._solving import solve
from sudare.foundations import checks
from sudare.releases import MomentsRelease, PooledRelease
from sudare.study import Study

Array = NDArray[np.float64]
FEWEST_SITES = 3
"""So many have to tell a coefficient: Student's t with one degree of freedom says nothing."""


class Combined(NamedTuple):
    """A mean over sites, by random effects."""

    mean: float
    variance: float
    between: float
    """τ²."""
    weights: Array


class _Site(NamedTuple):
    name: str
    rows: int
    values: Array
    variances: Array
    told: bool
    """Whether the noise hides none of its coefficients."""


def estimate_sites(
    releases: Sequence[MomentsRelease], study: Study, *, level: float = 0.95
) -> Model:
    """A linear regression for each release, and the mean of each coefficient over them.

    Args:
        releases: Of moments, under this study, about different people; at least three.
        level: Probability with which an interval is to hold its number.
    """
    if study.task != "regression":
        raise checks.InvalidInput("Expected a study whose target is a number")
    if len(releases) < FEWEST_SITES:
        raise checks.InvalidInput(f"Expected at least {FEWEST_SITES} releases to compare sites")
    NoisySums.of(releases)  # refuses two of the same people
    check_level(level)
    sites = [_site(each, study) for each in releases]
    coefficients, between, each_site = [], [], []
    for place, term in enumerate(study_terms(study)):
        some = [site for site in sites if site.told]
        found = None
        if len(some) >= FEWEST_SITES:
            values = np.array([site.values[place] for site in some])
            found = combine(values, np.array([site.variances[place] for site in some]))
        coefficients.append(_coefficient(term, found, len(some), len(sites), level))
        between.append(None if found is None else math.sqrt(found.between))
        shares = [0.0] * len(some) if found is None else found.weights.tolist()
        weights = dict(zip((site.name for site in some), shares, strict=True))
        each_site.append(tuple(_site_estimate(site, term, place, weights, level) for site in sites))
    return Model(
        study=study.name,
        family="linear",
        n=sum(site.rows for site in sites),
        level=level,
        coefficients=tuple(coefficients),
        sites=tuple(each_site),
        bounded=any(not isinstance(each, PooledRelease) for each in releases),
        between_deviations=tuple(between),
        notes=tuple(_notes(coefficients, releases, level)),
    )


def combine(values: Array, variances: Array) -> Combined:
    """The mean of sites' numbers by random effects, with Hartung and Knapp's variance."""
    between = _between(values, variances)
    weights = 1 / (variances + between)
    weights = weights / weights.sum()
    mean = float(weights @ values)
    variance = float(weights @ (values - mean) ** 2) / (len(values) - 1)
    return Combined(mean, variance, between, weights)


def _between(values: Array, variances: Array) -> float:
    """τ² by restricted maximum likelihood."""
    unit = float(np.median(variances)) + float(np.var(values))

    def loss(log_tau2: float) -> float:
        return float(_restricted(values, variances, np.array([unit * math.exp(log_tau2)]))[0])

    grid = np.linspace(-20.0, 8.0, 57)
    best = int(np.argmin(_restricted(values, variances, unit * np.exp(grid))))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = optimize.minimize_scalar(loss, bounds=(low, high), method="bounded")
    if _restricted(values, variances, np.zeros(1))[0] <= found.fun:
        return 0.0
    return float(unit * math.exp(found.x))


def _restricted(values: Array, variances: Array, between: Array) -> Array:
    """Minus the restricted log-likelihood of each τ², but for a constant."""
    total = variances + between[:, None]
    weights = 1 / total
    sums = weights.sum(axis=1)
    means = weights @ values / sums
    spread = (weights * (values - means[:, None]) ** 2).sum(axis=1)
    return np.asarray(np.log(total).sum(axis=1) + np.log(sums) + spread) / 2


def _site(release: MomentsRelease, study: Study) -> _Site:
    sums = NoisySums.of([release])
    solved = solve(linear_equations(sums, study, None if sums.squares is None else sums))
    matrix, shift = in_study_units(study, "linear")
    values = matrix @ solved.theta
    values[-1] += shift
    variances = np.diag(matrix @ solved.covariance @ matrix.T)
    # What is held by a prior pulls all sites the same way, and no spread between them shows it.
    return _Site(release.party, release.n, values, variances, not solved.hidden.any())


def _coefficient(
    term: Term, found: Combined | None, some: int, many: int, level: float
) -> Coefficient:
    if found is None:
        return not_told(
            term,
            f"the noise hides something in {many - some} of {many} sites: at least {FEWEST_SITES} "
            "have to tell everything",
        )
    return coefficient(term, found.mean, found.variance, level, some - 1)


def _site_estimate(
    site: _Site, term: Term, place: int, weights: dict[str, float], level: float
) -> SiteEstimate:
    own = not_told(term, HIDDEN)
    if site.told:
        own = coefficient(term, float(site.values[place]), float(site.variances[place]), level)
    weight = weights.get(site.name, 0.0)
    return SiteEstimate(name=site.name, rows=site.rows, coefficient=own, weight=weight)


def _notes(
    found: Sequence[Coefficient], releases: Sequence[MomentsRelease], level: float
) -> Iterator[str]:
    yield (
        f"Each interval holds the mean over sites like these with probability {level:g}, by random "
        "effects (REML, Hartung and Knapp). It counts noise, sampling, and that sites differ."
    )
    if any(not isinstance(each, PooledRelease) for each in releases):
        yield (
            "Separate releases do not hold the squares of the target. A site's own interval takes "
            "its residuals to be as large as the study's bounds allow: it is longer than it would "
            "have to be, and 'between sites' is at least what it says. The mean's interval does "
            "not rest on that, but on how far sites stand apart."
        )
    if any(not each.told for each in found):
        yield "Fewer than three sites tell everything: nothing can be said of their mean."
    yield (
        "A site counts only if the noise hides none of its coefficients; nothing that counts is "
        "penalised."
    )
