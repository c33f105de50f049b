"""Exact draws from a logistic Gibbs posterior.

The target has density ∝ exp(−U), U(θ) = β Σ log(1 + e^{−z_i·θ}) + (m/2)‖θ‖², everywhere or on a
ball. Around any point θ̂, with g and H its gradient and Hessian, the logistic loss being generalised
self-concordant (|ℓ'''| ≤ ℓ'', Bach 2010) gives for h = θ − θ̂

    U(θ) − U(θ̂) ≥ g·h + (m/2)‖h‖² + Σ w_i δ_i² ψ(|δ_i|),   δ_i = z_i·h,  ψ(s) = (e^{−s} + s − 1)/s².

At h = ρ·A·v, ‖v‖ = 1, where A whitens mI + c(H − mI), that is at least G(ρ) for either of

    G = ρ²·min(½, (1 − f)ψ(rρ)/c + f/2) − τρ,   τ = ‖Aᵀg‖,  f = m/λmax
    leverage   r = max ‖Aᵀz_i‖, any c of (0, 1]
    fourth     r² = q²/(1 − f),  q² ≥ max over v of Σ w_i (v·Aᵀz_i)⁴, c = 1

The stretch c gives the data's share of the curvature, which may weaken away from θ̂, less weight in
the norm than the prior's, which does not: with x the prior's part of ρ², the right side is at least
x/2 + (ρ² − x)ψ(rρ)/c, which is linear in x. Many directions that only the prior bends then cost
nothing. The fourth moment comes in by Jensen's inequality and Σw|δ|³ ≤ √(Σwδ²·Σwδ⁴).

So a radius ρ with density ∝ ρ^{p−1}e^{−G}, a uniform direction, and acceptance with probability
exp(−[U(θ) − U(θ̂) − G(ρ)]) give exact draws, whatever θ̂ is; far from the mode almost none is kept.

On a ball ‖θ‖ ≤ B the same holds with (κ/2)‖θ‖² added to U, for any pull κ ≥ 0: the target is at
most e^{−U − (κ/2)(‖θ‖² − B²)} there, so the envelope around the mode of U + (κ/2)‖θ‖² serves, and κ
drops out of the acceptance but for a constant. Where the ball cuts deep, this keeps proposals in
it. A wall (see `shared`) of slope at least κ·limit keeps the inequality beyond B.

How many proposals a draw took depends on the data and must not be shown.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import expit

from sudare.foundations import checks
from sudare.foundations.mechanisms import exponentials, gaussian_noise
from sudare.foundations.sampling import logconcave
from sudare.foundations.sampling.shared import Draws, hard_limit, wall_height

Array = NDArray[np.float64]

SLACK = 1e-6
"""Taken off the whitened curvature, far above what rounding can add to it."""
BLOCK = 512
"""Rows multiplied and added up at a time: bounds the depth of every sum."""
_CHUNK = 8 * BLOCK
_STRETCHES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Values of c that are tried; far below, the tilt in the stretched norm would grow."""
_SCORES = 2**18
"""Scores in memory at a time: about what fits the processor's cache."""


class LogisticPosterior(NamedTuple):
    """The target: signed rows z = y·x, inverse temperature β, prior curvature m, and the ball."""

    rows: Array
    temperature: float
    curvature: float
    radius: float = math.inf
    wall: float = 0.0
    """Slope of the potential's rise beyond the radius; zero for a hard edge."""
    linear: Array | None = None
    """b, if −b·θ is part of the potential."""

    def check(self) -> None:
        """Refuse what is no posterior."""
        rows = checks.finite_array(dimensions=2, rows=self.rows)
        checks.positive(temperature=self.temperature, curvature=self.curvature)
        checks.non_negative(wall=self.wall)
        if not self.radius > 0:
            raise checks.InvalidInput("Expected radius > 0")
        if self.linear is not None:
            linear = checks.finite_array(dimensions=1, linear=self.linear)
            if linear.size != rows.shape[1]:
                raise checks.InvalidInput("Expected linear to have a number for each column")

    @property
    def limit(self) -> float:
        """The radius beyond which nothing is drawn."""
        return hard_limit(self.radius, self.wall)

    def potential(self, thetas: Array) -> Array:
        """U at each row of `thetas`, wall included; infinite outside the ball."""
        return self.smooth(thetas) + wall_height(thetas, self.radius, self.wall)

    def smooth(self, thetas: Array) -> Array:
        """U without wall and ball.

        log(1 + e^{−s}) is max(−s, 0) + log(1 + e^{−|s|}), and the second parts are multiplied up
        before the logarithm: BLOCK factors of at most 2 each are a float.
        """
        columns = np.ascontiguousarray(thetas.T)
        total = np.zeros(len(thetas))
        for start in range(0, len(self.rows), _CHUNK):
            scores = self.rows[start : start + _CHUNK] @ columns
            lows = _blocked(np.add, np.minimum(scores, 0.0))
            np.abs(scores, out=scores)
            np.negative(scores, out=scores)
            np.exp(scores, out=scores)
            scores += 1.0
            total += (np.log(_blocked(np.multiply, scores)) - lows).sum(axis=0)
        total *= self.temperature
        total += self.curvature / 2 * np.einsum("ij,ij->i", thetas, thetas)
        if self.linear is not None:
            total -= thetas @ self.linear
        return total

    def gradient(self, theta: Array) -> Array:
        """∇U without the wall, summed in blocks."""
        gradient: Array = self.curvature * theta
        if self.linear is not None:
            gradient -= self.linear
        for start in range(0, len(self.rows), _CHUNK):
            rows = self.rows[start : start + _CHUNK]
            gradient -= self.temperature * (expit(-(rows @ theta)) @ rows)
        return gradient

    def hessian(self, theta: Array) -> tuple[Array, Array]:
        """∇²U without the wall, summed in blocks, and the rows' weights in it."""
        slopes = expit(-(self.rows @ theta))
        weights: Array = self.temperature * slopes * (1 - slopes)
        hessian = self.curvature * np.eye(len(theta))
        for start in range(0, len(self.rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            scaled = self.rows[part] * np.sqrt(weights[part])[:, None]
            hessian += scaled.T @ scaled
        return hessian, weights


class _Shape(NamedTuple):
    """G, and the density of the radius."""

    p: int
    reach: float
    """r."""
    floor: float
    """f, with m + κ for m."""
    tilt: float
    """τ."""
    stretch: float = 1.0
    """c."""

    def growth(self, radii: Array) -> Array:
        """G(ρ)."""
        psi = _psi(self.reach * radii)
        bend = np.minimum(0.5, (1 - self.floor) / self.stretch * psi + self.floor / 2)
        return radii**2 * bend * (1 - SLACK) - self.tilt * radii

    def near(self) -> logconcave.LogConcave:
        """ρ^{p−1}·e^{−G(ρ)} where G is ½ρ² − τρ."""
        return logconcave.LogConcave(
            self.log_density,
            lambda rho: (self.p - 1) / rho - rho * (1 - SLACK) + self.tilt,
        )

    def far(self) -> logconcave.LogConcave:
        """The same beyond: convex, since ρ²ψ(rρ) = (e^{−rρ} + rρ − 1)/r² is."""

        def slope(rho: Array) -> Array:
            s = self.reach * rho
            rise = rho * np.where(s > 1e-300, -np.expm1(-s) / np.maximum(s, 1e-300), 1.0)
            bent = (1 - self.floor) / self.stretch * rise + self.floor * rho
            return (self.p - 1) / rho - bent * (1 - SLACK) + self.tilt

        return logconcave.LogConcave(self.log_density, slope)

    def log_density(self, rho: Array) -> Array:
        with np.errstate(divide="ignore"):
            return (self.p - 1) * np.log(rho) - self.growth(rho)

    def rough_log_mass(self) -> float:
        """About the logarithm of the integral of the density: to choose by, not to rely on."""
        log_radii = np.linspace(-3.0, 3.0, 241) + math.log(self.p) / 2
        logs = self.log_density(np.exp(log_radii)) + log_radii
        return float(np.logaddexp.reduce(logs))

    def hull(self, upto: float) -> logconcave.Hull:
        far, start = self.far(), math.sqrt(self.p)
        border = 0.0
        if self.stretch < 1:
            border = _psi_inverse(self.stretch / 2) / max(self.reach, 1e-300)
        if not border > 0:
            return logconcave.hull(far, start, upto)
        if border >= upto:
            return logconcave.hull(self.near(), start, upto)
        inner = logconcave.hull(self.near(), start, border)
        return logconcave.joined(far, inner, logconcave.hull(far, start, upto, border))


@dataclass(frozen=True)
class RadialEnvelope:
    """All that is computed once for a target and a centre."""

    target: LogisticPosterior
    centre: Array
    pull: float
    """κ."""
    value: float
    """U(θ̂) − (κ/2)(B² − ‖θ̂‖²)."""
    whitening: Array
    kind: str
    shape: _Shape
    hull: logconcave.Hull
    share: float
    """About the share of proposals kept without a ball: a Gaussian's mass over the envelope's."""

    def lower_bound(self, radii: Array) -> Array:
        """G(ρ)."""
        return self.shape.growth(radii)


def radial_envelope(
    target: LogisticPosterior, centre: Array, draws: int = 1, pull: float = 0.0
) -> RadialEnvelope:
    """The cheaper of the two envelopes around `centre` for so many draws.

    Best at the mode of the potential with (pull/2)‖θ‖² added: `settle` finds both.
    """
    target.check()
    checks.count(draws=draws)
    checks.non_negative(pull=pull)
    centre = checks.finite_array(dimensions=1, centre=centre)
    p = len(centre)
    if target.rows.shape[1] != p:
        raise checks.InvalidInput("Expected centre to have a number for each column of rows")
    if pull > 0 and not pull <= (target.wall / target.limit if target.wall else math.inf):
        raise checks.InvalidInput("Expected pull * limit <= wall: a steeper pull is not covered")
    if pull > 0 and math.isinf(target.radius):
        raise checks.InvalidInput("Expected pull = 0 without a ball")
    m = target.curvature + pull
    hessian, weights = target.hessian(centre)
    hessian[np.diag_indices(p)] += pull
    values, vectors = eigh(hessian)
    values = np.maximum(values, m)
    along = vectors.T @ (target.gradient(centre) + pull * centre)
    rows = target.rows @ vectors
    squares = np.einsum("ij,ij->i", rows, rows)
    # What rounding may have taken off the gradient: sums of chunks, chunk by chunk.
    n = len(target.rows)
    depth = min(n, _CHUNK) + n / _CHUNK + p + 8
    norm = float(np.linalg.norm(centre))
    size = target.temperature * n * math.sqrt(float(squares.max())) + m * norm
    size += 0.0 if target.linear is None else float(np.linalg.norm(target.linear))
    rounding = 2.0**-52 * depth * size / math.sqrt(m)
    value, reaches = float(target.smooth(centre[None])[0]), math.inf
    if math.isfinite(target.radius):
        value -= pull / 2 * (target.radius - norm) * (target.radius + norm)
        reaches = target.limit + norm

    def shaped(stretch: float, squared_reach: float) -> _Shape:
        spread = m + stretch * (values - m)
        tilt = float(np.linalg.norm(along / np.sqrt(spread))) + rounding
        reach, floor = math.sqrt(squared_reach) * (1 + SLACK), m / spread[-1] * (1 - SLACK)
        return _Shape(p, reach, float(floor), tilt * (1 + SLACK), stretch)

    def build(kind: str, shape: _Shape) -> RadialEnvelope:
        spread = m + shape.stretch * (values - m)
        hull = shape.hull(reaches * math.sqrt(float(spread[-1])) * (1 + 1e-6))
        share = float(np.log(spread / values).sum() / 2) + _gaussian_log_mass(p) - hull.log_mass
        # The symmetric root: eigenvectors alone may turn round at the last bit of a row.
        whitening = (vectors / np.sqrt(spread)) @ vectors.T
        share = math.exp(max(-700.0, min(0.0, share)))
        return RadialEnvelope(target, centre, pull, value, whitening, kind, shape, hull, share)

    spreads = m + np.array(_STRETCHES) * (values - m)[:, None]
    squared_reaches = (rows**2 @ (1 / spreads)).max(axis=0)
    volumes = np.log(spreads).sum(axis=0) / 2
    shapes = [shaped(c, float(r)) for c, r in zip(_STRETCHES, squared_reaches, strict=True)]
    costs = [shape.rough_log_mass() - volume for shape, volume in zip(shapes, volumes, strict=True)]
    best = build("leverage", shapes[int(np.argmin(costs))])
    # The other envelope costs about as much as p³/8 proposals to set up.
    if draws < p**3 / 8 * best.share:
        return best
    fourth = _fourth_moment(rows / np.sqrt(values), weights)
    fourth /= max(1 - m / float(values[-1]), 1e-12)
    return max(best, build("fourth", shaped(1.0, fourth)), key=lambda e: e.share)


def draw_radial(envelope: RadialEnvelope, size: int, rng: Generator) -> Draws:
    """Independent exact draws."""
    checks.count(size=size)
    kept: list[Array] = []
    count = 0
    while count < size:
        kept.append(propose(envelope, batch_size(envelope, size - count), rng))
        count += len(kept[-1])
    return Draws(np.concatenate(kept)[:size], f"radial, {envelope.kind}", 0.0)


def propose(
    envelope: RadialEnvelope, proposals: int, rng: Generator, rise: float = math.inf
) -> Array:
    """Those that are kept of so many proposals, and of these the ones with U − U(θ̂) ≤ rise."""
    target, p = envelope.target, len(envelope.centre)
    radii = logconcave.draw(envelope.hull, proposals, rng)
    directions = gaussian_noise(1.0, (proposals, p), rng)
    directions *= (radii / np.linalg.norm(directions, axis=1))[:, None]
    thetas = envelope.centre + directions @ envelope.whitening.T
    values = target.potential(thetas)
    accepted = exponentials(proposals, rng) >= values - envelope.value - envelope.lower_bound(radii)
    if math.isfinite(rise):
        accepted &= values <= envelope.value + (rise + _pull_height(envelope))
    return thetas[accepted]


def batch_size(envelope: RadialEnvelope, wanted: int) -> int:
    """Proposals to make at a time: about as many as are needed, as far as the cache holds them."""
    most = min(4096, _SCORES // min(_CHUNK, len(envelope.target.rows)))
    return max(1, min(most, math.ceil(1.5 * wanted / envelope.share)))


def _pull_height(envelope: RadialEnvelope) -> float:
    """(κ/2)(B² − ‖θ̂‖²)."""
    if envelope.pull == 0:
        return 0.0
    norm, radius = float(np.linalg.norm(envelope.centre)), envelope.target.radius
    return envelope.pull / 2 * (radius - norm) * (radius + norm)


def _blocked(operation: np.ufunc, values: Array) -> Array:
    """The sums or products of blocks of rows, one a row."""
    whole = len(values) - len(values) % BLOCK
    blocks: Array = operation.reduce(values[:whole].reshape(-1, BLOCK, values.shape[1]), axis=1)
    if whole == len(values):
        return blocks
    return np.concatenate([blocks, operation.reduce(values[whole:], axis=0)[None]])


def _psi(s: Array) -> Array:
    """(e^{−s} + s − 1)/s², ½ at zero, without cancellation."""
    small = s < 1e-2
    near, safe = np.where(small, s, 0.0), np.where(small, 1.0, s)
    series = 0.5 - near / 6 + near**2 / 24 - near**3 / 120 + near**4 / 720
    return np.where(small, series, (np.expm1(-safe) + safe) / safe**2)


def _gaussian_log_mass(p: int) -> float:
    """log ∫ρ^{p−1}e^{−ρ²/2}."""
    return (p / 2 - 1) * math.log(2) + math.lgamma(p / 2)


@lru_cache(maxsize=64)
def _psi_inverse(value: float) -> float:
    """s with ψ(s) = value, for a value below ½, rounded up: a border may be too far out, not in."""
    low, high = 0.0, 1 / value
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if float(_psi(np.array([middle]))[0]) > value:
            low = middle
        else:
            high = middle
    return high


def _fourth_moment(leverages: Array, weights: Array) -> float:
    """An upper bound on max over unit v of Σ w (v·a)⁴.

    λmax(M − c·ee) + c for any c, with M = Σ w·vec(aa)vec(aa)' on symmetric matrices and e = vec(I).
    """
    p = leverages.shape[1]
    upper = np.triu_indices(p)
    scale = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    moment = np.zeros((len(scale), len(scale)))
    for start in range(0, len(leverages), 2048):
        a = leverages[start : start + 2048]
        root = np.sqrt(weights[start : start + 2048])
        products = a[:, upper[0]] * a[:, upper[1]] * (scale * root[:, None])
        moment += products.T @ products
    unit = (upper[0] == upper[1]).astype(float)
    guess = float(unit @ moment @ unit) / p**2
    return min(
        float(eigh(moment - c * np.outer(unit, unit), eigvals_only=True)[-1]) + c
        for c in (0.0, 0.5 * guess, 0.8 * guess, guess)
    )
