"""Exact draws from a logistic Gibbs posterior.

The target has density ∝ exp(−U), U(θ) = β Σ log(1 + e^{−z_i·θ}) + (m/2)‖θ‖², everywhere or on a
ball. Around any point θ̂, with g and H its gradient and Hessian, the logistic loss being generalised
self-concordant (|ℓ'''| ≤ ℓ'', Bach 2010) gives for h = θ − θ̂

    U(θ) − U(θ̂) ≥ g·h + (m/2)‖h‖² + Σ w_i δ_i² ψ(|δ_i|),   δ_i = z_i·h,  ψ(s) = (e^{−s} + s − 1)/s².

Whitened by A with AᵀHA ≈ I, that is at least G(ρ) at h = ρ·A·v, ‖v‖ = 1, for either of

    leverage   G = ρ²[ψ(rρ) + (½ − ψ(rρ))·m/λmax] − τρ,   r = max ‖Aᵀz_i‖,  τ = ‖Aᵀg‖
    fourth     G = ρ²ψ(qρ) − τρ,   q² ≥ max over v of Σ w_i (v·Aᵀz_i)⁴   (needs τ·q < 1)

so a radius ρ with density ∝ ρ^{p−1}e^{−G}, a uniform direction, and acceptance with probability
exp(−[U(θ) − U(θ̂) − G(ρ)]) give exact draws, whatever θ̂ is; far from the mode almost none is kept.

How many proposals a draw took depends on the data and must not be shown.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import expit

from sudare import checks
from sudare.mechanisms import exponentials, gaussian_noise
from sudare.sampling import logconcave

Array = NDArray[np.float64]

_SLACK = 1e-7
"""Taken off the whitened curvature, far above what rounding can add to it."""
_CHUNK = 2_000_000
"""Scores computed at a time: bounds the memory of a batch of proposals."""


class LogisticPosterior(NamedTuple):
    """The target: signed rows z = y·x, inverse temperature β, prior curvature m, and the ball."""

    rows: Array
    temperature: float
    curvature: float
    radius: float = math.inf

    def check(self) -> None:
        """Refuse what is no posterior."""
        rows = checks.finite_array(dimensions=2, rows=self.rows)
        checks.positive(temperature=self.temperature, curvature=self.curvature)
        if not (self.radius > 0 and len(rows)):
            raise checks.InvalidInput("Expected radius > 0")

    def potential(self, thetas: Array) -> Array:
        """U at each row of `thetas`."""
        values: Array = self.curvature / 2 * np.einsum("ij,ij->i", thetas, thetas)
        for start in range(0, len(self.rows), 4096):
            margins = self.rows[start : start + 4096] @ thetas.T
            values += self.temperature * np.logaddexp(0.0, -margins).sum(axis=0)
        return values

    def gradient(self, theta: Array) -> Array:
        slopes = expit(-(self.rows @ theta))
        gradient: Array = self.curvature * theta - self.temperature * (slopes @ self.rows)
        return gradient


@dataclass(frozen=True)
class RadialEnvelope:
    """All that is computed once for a target and a centre."""

    target: LogisticPosterior
    centre: Array
    value: float
    whitening: Array
    kind: str
    reach: float
    """r or q."""
    floor: float
    """m/λmax for the leverage envelope; zero for the other."""
    tilt: float
    """τ."""
    hull: logconcave.Hull

    def lower_bound(self, radii: Array) -> Array:
        """G(ρ)."""
        return _growth(radii, self.reach, self.floor, self.tilt)


def radial_envelope(target: LogisticPosterior, centre: Array, draws: int = 1) -> RadialEnvelope:
    """The cheaper of the two envelopes around `centre` (best near the mode) for so many draws."""
    target.check()
    centre = checks.finite_array(dimensions=1, centre=centre)
    beta, m = target.temperature, target.curvature
    p = len(centre)
    if target.rows.shape[1] != p:
        raise checks.InvalidInput("Expected centre to have a number for each column of rows")
    slopes = expit(-(target.rows @ centre))
    weights = beta * slopes * (1 - slopes)
    scaled = target.rows * np.sqrt(weights)[:, None]
    hessian = scaled.T @ scaled + m * np.eye(p)
    values, vectors = eigh(hessian)
    values = np.maximum(values, m)
    whitening = vectors / np.sqrt(values)
    leverages = target.rows @ whitening
    squared = np.einsum("ij,ij->i", leverages, leverages)
    tilt = float(np.linalg.norm(whitening.T @ target.gradient(centre))) * (1 + _SLACK)
    reach = float(np.sqrt(squared.max(initial=0.0))) * (1 + _SLACK)
    floor = m / float(values[-1]) * (1 - _SLACK)
    value = float(target.potential(centre[None])[0])

    def build(kind: str, size: float, low: float) -> RadialEnvelope:
        hull = logconcave.hull(_radial_density(p, size, low, tilt), math.sqrt(p))
        return RadialEnvelope(target, centre, value, whitening, kind, size, low, tilt, hull)

    first = build("leverage", reach, floor)
    # The other envelope costs about as much as p³/8 proposals to set up.
    if draws / _kept_share(first, p) < p**3 / 8:
        return first
    fourth = math.sqrt(_fourth_moment(leverages, weights)) * (1 + _SLACK)
    if tilt * fourth >= 0.9:
        return first
    return min(first, build("fourth", fourth, 0.0), key=lambda e: e.hull.log_mass)


def draw_radial(envelope: RadialEnvelope, size: int, rng: Generator) -> Array:
    """Independent exact draws, one a row."""
    checks.count(size=size)
    target, p = envelope.target, len(envelope.centre)
    batch = max(1, min(64, _CHUNK // max(1, len(target.rows))))
    kept: list[Array] = []
    count = 0
    while count < size:
        radii = logconcave.draw(envelope.hull, batch, rng)
        directions = gaussian_noise(1.0, (batch, p), rng)
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        thetas = envelope.centre + (radii[:, None] * directions) @ envelope.whitening.T
        excess = target.potential(thetas) - envelope.value - envelope.lower_bound(radii)
        accepted = exponentials(batch, rng) >= excess
        if math.isfinite(target.radius):
            accepted &= np.linalg.norm(thetas, axis=1) <= target.radius
        kept.append(thetas[accepted])
        count += int(accepted.sum())
    return np.concatenate(kept)[:size]


def _psi(s: Array) -> Array:
    """(e^{−s} + s − 1)/s², ½ at zero, without cancellation."""
    small = s < 1e-2
    near, safe = np.where(small, s, 0.0), np.where(small, 1.0, s)
    series = 0.5 - near / 6 + near**2 / 24 - near**3 / 120 + near**4 / 720
    return np.where(small, series, (np.expm1(-safe) + safe) / safe**2)


def _growth(radii: Array, reach: float, floor: float, tilt: float) -> Array:
    psi = _psi(reach * radii)
    return radii**2 * (psi + (0.5 - psi) * floor) * (1 - _SLACK) - tilt * radii


def _radial_density(p: int, reach: float, floor: float, tilt: float) -> logconcave.LogConcave:
    """ρ^{p−1}·e^{−G(ρ)}: G is convex, since ρ²ψ(rρ) = (e^{−rρ} + rρ − 1)/r² is."""

    def log_density(rho: Array) -> Array:
        with np.errstate(divide="ignore"):
            return (p - 1) * np.log(rho) - _growth(rho, reach, floor, tilt)

    def slope(rho: Array) -> Array:
        s = reach * rho
        rise = rho * np.where(s > 1e-300, -np.expm1(-s) / np.maximum(s, 1e-300), 1.0)
        return (p - 1) / rho - ((1 - floor) * rise + floor * rho) * (1 - _SLACK) + tilt

    return logconcave.LogConcave(log_density, slope)


def _kept_share(envelope: RadialEnvelope, p: int) -> float:
    """About the share of proposals kept: the mass of a Gaussian over the envelope's."""
    ideal = (p / 2 - 1) * math.log(2) + math.lgamma(p / 2)
    return math.exp(min(0.0, max(-700.0, ideal - envelope.hull.log_mass)))


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
