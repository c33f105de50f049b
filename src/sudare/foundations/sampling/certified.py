"""One draw from a posterior on a ball, with everything that can be off about it in public numbers.

`certify_logistic` and `certify_ball` look at sizes and bounds only, never at data, and promise for
every table within them: the ideal point that the program follows has a density within a factor
e^{±log_ratio} of the target's, up to `total_variation`; and the float that comes out is within
`displacement` of that point. docs/theory/gibbs.md adds up what these numbers are made of.

A logistic posterior is drawn by the radial sampler until a proposal is kept, where the rows' bound
alone shows that a decent share is. Elsewhere it has a public number of tries, after which the
proximal sampler (Chen, Chewi, Salim and Wibisono 2022) takes over: y = x + noise of precision q,
then x given y by the radial sampler, whose target has curvature m + q and is as easy as q is large.
It contracts by 1 + m/q a step, on convex sets too, and the steps are counted beforehand. So the law
is a mixture of the exact one and one within `total_variation` of it, whatever the data. Which of
the two it was depends on the data and must not be shown.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.foundations.mechanisms import draw_error, exponentials, gaussian_noise
from sudare.foundations.rounding import up
from sudare.foundations.sampling.centre import CLOSE, settle
from sudare.foundations.sampling.logistic import (
    BLOCK,
    SLACK,
    LogisticPosterior,
    batch_size,
    propose,
    radial_envelope,
)
from sudare.foundations.sampling.shared import WALL_WIDTH, Draws, hard_limit

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]

_UNIT = 2.0**-53
_NEVER = 64.0
"""Events of probability e⁻⁶⁴ are left out and added to the total variation."""
_SLIP = 2.0**-100
"""Chance that a float draw is not close *in absolute terms*, which is all that counts here: two
numbers that are both below 2⁻⁵⁰, of which only the relative precision would be lost."""
_LEAST_KEPT = 0.001
"""Share of proposals that the radial sampler must provably keep around the mode to go on alone."""
_MOST_WORK = 2e12
"""Steps × rows × columns² that a fallback may take: about an hour."""
_OUTWARD = 0.27847
"""Above the largest u/(1 + e^u): what one row can pull outward, times the distance from zero."""


@dataclass(frozen=True)
class DrawCertificate:
    """What a draw needs and what it promises: public numbers only."""

    radius: float
    wall: float
    """Slope of the potential's rise beyond the radius."""
    displacement: float
    log_ratio: float
    total_variation: float
    rise: float
    """Points whose potential exceeds the centre's by more are left out: e⁻⁶⁴ of the law."""
    tries: int
    """Proposals before the fallback; zero if there is none and the draw is exact."""
    steps: int = 0
    precision: float = 0.0
    """q."""

    @property
    def sampler(self) -> str:
        if not self.tries:
            return "exact"
        return f"exact, else within {self.total_variation:.1e} in total variation"

    @property
    def limit(self) -> float:
        """Radius of the ball that holds every draw."""
        return hard_limit(self.radius, self.wall)


def certify_logistic(
    *,
    n: int,
    dimension: int,
    row_norm: float,
    temperature: float,
    curvature: float,
    radius: float,
    total_variation: float,
) -> DrawCertificate:
    """For `LogisticPosterior` with rows of at most `row_norm`; refuses what cannot be promised.

    `total_variation` is the most that a fallback may cost; none is planned where none is needed.
    """
    checks.count(n=n, dimension=dimension)
    checks.positive(row_norm=row_norm, temperature=temperature, radius=radius)
    checks.positive(curvature=curvature)
    checks.proportion(total_variation=total_variation)
    p, m = dimension, curvature
    precision = max(0.0, (row_norm / easy_reach(p)) ** 2 - m)
    far = math.sqrt(p) + 12.0
    # The steepest the potential can fall outward at the edge, in a step of the fallback too.
    outward = _OUTWARD * temperature * n / radius + math.sqrt(precision) * far
    outward += precision * WALL_WIDTH * radius
    wall = _wall(outward, p, radius)
    limit = hard_limit(radius, wall)
    sizes = _Sizes(n, p, row_norm, temperature, wall, limit)
    never = math.exp(4 - _NEVER)
    if precision == 0:
        alone = up(never + 2.0**20 * (p + 32) * _SLIP)
        displacement, error = sizes.errors(m, 0.0)
        return _checked(
            DrawCertificate(radius, wall, displacement, up(2 * error), alone, sizes.rise, 0),
            total_variation,
        )
    divergence = start_divergence(temperature * n, row_norm, p, m, _start_radius(precision, radius))
    wanted = math.log(math.sqrt(max(divergence, 1.0) / 2) / (0.9 * total_variation))
    steps = math.ceil(max(1.0, wanted / math.log1p(m / precision)) * (1 + 1e-9))
    if steps * n * p * p > _MOST_WORK or steps > 5_000_000:
        raise checks.InvalidInput(
            "Expected a larger regularization: with this one the draw could take hours, and "
            'how long must not depend on the data; "auto" chooses one that is large enough'
        )
    # About as long as the steps would take.
    tries = min(1_000_000, max(2_000, steps * (p // 2 + 40_000 // n)))
    draws = tries + steps * 2**10
    allowed = 0.9 * total_variation + (steps + 1) * never + draws * (p + 32) * _SLIP
    displacement, error = sizes.errors(m, 0.0)
    inner, inner_error = sizes.errors(m + precision, precision)
    # Noise hides a displaced x, and moves a displaced y, by a factor: all but e⁻⁷² of it.
    noise_error = draw_error(p) * far / math.sqrt(precision)
    noise_error += 2 * _UNIT * (limit + far / math.sqrt(precision))
    step_ratio = 2 * inner_error + far * inner * math.sqrt(precision)
    step_ratio += 4 * limit * precision * noise_error
    return _checked(
        DrawCertificate(
            radius,
            wall,
            up(max(displacement, inner)),
            up(max(2 * error, steps * step_ratio)),
            up(allowed),
            sizes.rise,
            tries,
            steps,
            precision,
        ),
        total_variation,
    )


def certify_ball(
    *,
    n: int,
    dimension: int,
    row_norm: float,
    target_bound: float,
    temperature: float,
    curvature: float,
    radius: float,
) -> DrawCertificate:
    """For `draw_ball` with Q = 2βΣxxᵀ + mI and c = 2βΣyx, summed in blocks: always exact."""
    checks.count(n=n, dimension=dimension)
    checks.positive(row_norm=row_norm, temperature=temperature, radius=radius)
    checks.positive(curvature=curvature)
    checks.non_negative(target_bound=target_bound)
    p, m, loss = dimension, curvature, 2 * temperature * n * row_norm
    wall = _wall(temperature * n * target_bound**2 / (2 * radius), p, radius)
    limit = hard_limit(radius, wall)
    largest = m + loss * row_norm
    ratio = math.sqrt(largest / m)
    close = draw_error(p) + p * math.sqrt(p) * 4 * _UNIT
    displacement = up(2 * limit * ratio * close + 8 * _UNIT * limit * (p + 4))
    depth = min(n, BLOCK) + n / BLOCK + 16
    # The Gaussian of the float sums and factors, against the one meant: its curvature and slope.
    bent = depth * _UNIT * loss * row_norm + 16 * p * _UNIT * (largest + wall / limit)
    pulled = depth * _UNIT * loss * target_bound + 16 * p * _UNIT * (largest * limit + wall)
    error = 2 * limit**2 * bent + 2 * limit * pulled
    error += 2 * wall * displacement + wall * limit * (2.0**-44 + (p + 8) * 2 * _UNIT)
    never = up(math.exp(4 - _NEVER) + 2.0**20 * (p + 32) * _SLIP)
    return DrawCertificate(radius, wall, displacement, up(2 * error), never, math.inf, 0)


def draw_certified(
    target: LogisticPosterior,
    certificate: DrawCertificate,
    rng: Generator,
    start: Array | None = None,
    progress: Progress | None = None,
) -> Draws:
    """One draw as certified; `progress` gets the steps of a fallback, and stays inside."""
    target.check()
    if (target.radius, target.wall) != (certificate.radius, certificate.wall):
        raise checks.InvalidInput("Expected the target to have the certificate's radius and wall")
    found = _radial(target, start, certificate, rng, certificate.tries)
    if found is not None:
        return Draws(found, "radial", certificate.total_variation)
    q, p = certificate.precision, target.rows.shape[1]
    x = gaussian_noise(1.0, p, rng)
    # U^{1/p} by way of an exponential: a close draw, where 53 bits of U would be few near zero.
    share = math.exp(-float(exponentials(1, rng)[0]) / p)
    x *= _start_radius(q, target.radius) * share / np.linalg.norm(x)
    for step in range(certificate.steps):
        y = x + gaussian_noise(1 / math.sqrt(q), p, rng)
        given = target._replace(curvature=target.curvature + q, linear=q * y)
        drawn = _radial(given, x, certificate, rng, 0)
        assert drawn is not None
        x = drawn[0]
        if progress is not None:
            progress(step + 1, certificate.steps)
    return Draws(x[None], "proximal", certificate.total_variation)


def start_divergence(
    total_temperature: float, row_norm: float, p: int, m: float, start: float
) -> float:
    """Bounds KL(uniform on the ball of radius `start` ‖ posterior), whatever the rows.

    E U − log of the start's density + log ∫e^{−U}: U is at most βn·log 2 at zero, where the start
    is, and there rises by βnX a unit; by its strong convexity ∫e^{−U} ≤ (2π/m)^{p/2}·e^{−min U}.
    """
    risen = total_temperature * (math.log(2) + row_norm * start) + m * start**2 / 2
    return risen + p / 2 * math.log(2 / (m * start**2)) + math.lgamma(p / 2 + 1)


def radial_acceptance(dimension: int, reach: float) -> float:
    """A share of proposals that the radial sampler certainly keeps at a mode without a ball.

    ∫ρ^{p−1}e^{−ρ²ψ̄(rρ)} / ∫ρ^{p−1}e^{−ρ²ψ(rρ)} with ψ̄(s) = (e^s − s − 1)/s², since the potential
    rises by at most ρ²ψ̄(rρ) (Bach 2010).
    """
    checks.count(dimension=dimension)
    checks.positive(reach=reach)
    # In units s = rρ: both integrands are s^{p−1}·exp(−f(s)/r²).
    s = np.geomspace(1e-6, 1e4, 8_001) * max(1e-3, min(1.0, reach * math.sqrt(dimension)))
    with np.errstate(over="ignore"):
        low, high = np.expm1(-s) + s, np.expm1(s) - s
        logs = [dimension * np.log(s) - f / reach**2 for f in (high, low)]
    top = max(float(log.max()) for log in logs)
    upper, lower = (float(np.exp(log - top).sum()) for log in logs)
    return min(1.0, upper / lower)


@lru_cache(maxsize=256)
def easy_reach(dimension: int) -> float:
    """The largest reach at which `radial_acceptance` is decent."""
    low, high = 1e-6, 1e3
    while high > low * (1 + 1e-6):
        middle = math.sqrt(low * high)
        if radial_acceptance(dimension, middle) > _LEAST_KEPT:
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True)
class _Sizes:
    """Public sizes of a logistic posterior, and what rounding can do to a draw from it."""

    n: int
    p: int
    row_norm: float
    temperature: float
    wall: float
    limit: float

    @property
    def rise(self) -> float:
        """U exceeds its minimum by no more than a Gamma(p) variable does: all but e⁻⁶⁴."""
        return self.p + math.sqrt(2 * _NEVER * self.p) + _NEVER

    def errors(self, m: float, precision: float) -> tuple[float, float]:
        """The displacement of a draw and the error of the logarithm of its acceptance."""
        p, limit, beta_n = self.p, self.limit, self.temperature * self.n
        loss = beta_n * self.row_norm**2 / 4
        depth = 8 * BLOCK + self.n / (8 * BLOCK) + 16 * p
        if depth * 2 * _UNIT * (m + loss) > SLACK / 4 * m:
            raise checks.InvalidInput(
                "Expected a larger regularization: beside the loss of so many rows, double "
                "arithmetic cannot resolve this one"
            )
        # A pull makes the whitened ball wider, and distances in it shorter by more.
        widest, pulled = (
            2 * limit * math.sqrt(m + pull + loss) * (1 + 1e-6) for pull in (0.0, self.wall / limit)
        )
        kept = self.rise + 2 * p + 2 * CLOSE * pulled + 1
        radius = min(widest, math.sqrt(2 * kept * (m + loss) / m))
        close = 2.0**-43 + 2 * draw_error(p) + p * math.sqrt(p) * 4 * _UNIT
        displacement = (close * radius + 8 * _UNIT * widest) / math.sqrt(m)
        displacement = up(displacement + 8 * _UNIT * limit * (p + 4))
        steepest = math.sqrt(2 * (m + self.wall / limit + loss) * kept) + 2 * self.wall
        score = self.row_norm * limit
        blocks = BLOCK + self.n / (8 * BLOCK) + 24
        sums = beta_n * ((p + 2) * score + blocks * (score + 1)) * _UNIT
        outside = precision * limit + math.sqrt(precision) * (math.sqrt(p) + 12)
        sums += (m * limit + outside + self.wall) * limit * (p + 8) * _UNIT
        error = steepest * displacement + 2 * sums
        # The radius: G, the hull's tangents and its accept step at a float beside the ideal one.
        error += 2.0**-42 * (4 * kept + 2 * p + _NEVER + 4 * CLOSE * pulled)
        error += 2.0**-51 * (p + 2 * kept) * pulled
        return displacement, up(error)


def _start_radius(precision: float, radius: float) -> float:
    return min(1 / math.sqrt(precision), radius / 2)


def _wall(outward: float, p: int, radius: float) -> float:
    """A slope from which the density falls by e⁻⁶⁴ between the radius and the limit."""
    return 1.01 * (outward + (p - 1 + _NEVER / WALL_WIDTH) / radius)


def _checked(certificate: DrawCertificate, total_variation: float) -> DrawCertificate:
    if certificate.total_variation > total_variation:
        raise checks.InvalidInput(
            "Expected a larger delta: what double arithmetic leaves to chance does not fit it"
        )
    return certificate


def _radial(
    target: LogisticPosterior,
    start: Array | None,
    certificate: DrawCertificate,
    rng: Generator,
    tries: int,
) -> Array | None:
    """The first proposal kept, if one is within so many tries (0: as many as it takes)."""
    centre, pull = settle(target, start)
    envelope = radial_envelope(target, centre, 1, pull)
    tried = 0
    while not tries or tried < tries:
        batch = batch_size(envelope, 1)
        kept = propose(envelope, batch, rng, certificate.rise)
        if len(kept):
            return kept[:1]
        tried += batch
    return None
