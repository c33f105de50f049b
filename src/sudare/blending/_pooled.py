"""How far the organisations of a pool differ: what one summed number says about it.

A pooled release is about N = Σn_j rows of organisations j with sums s_j = Σyx. Beside S = Σs_j,
whose every coordinate has noise of standard deviation σ, it tells

    A = Σ min(‖s_j‖, R·n_j)²/n_j    over organisations with enough rows, and noise τ

As in `_groups`, the truths behind the s_j/n_j vary by t·u about a common μ, T = t·Σu in all. With
q = E‖yx‖², b = E‖S/N‖² and h = Σn_j²/N², counting sampling within (v) and variation between (T):

    E‖s_j/n_j‖² = ‖μ‖² + T + v/n_j,   ‖μ‖² = b − h·T − v/N,   v·(1 − 1/N) = q − b − (1 − h)·T

b is ‖S/N‖² less p(σ/N)², what noise adds to it. Without the radius E[A] is thus linear in t:

    E[A] = N·b + (M − 1)·(q − b) + T·(1 − h)·(N − M + 1),   but for 1/N, and if all are counted

The radius is put in by taking each ‖s_j/n_j‖² for normal. The variance of A about that adds up its
noise, that of b and q, and sampling: of s_j·s_j, and of μ·s_j as far as b does not cancel it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sudare.blending._received import Moments, Pool
from sudare.blending._records import Array, Records


@dataclass(frozen=True)
class Apart:
    """A pool's A beside all else that its likelihood takes, along the axes of E[xxᵀ]."""

    pool: Pool
    mean: Array
    """S/N, with its noise."""
    mean_noise_std: float
    """σ/N."""
    unit: Array
    """u."""
    within: Array
    """(p,): what one yx varies by at an organisation, at most."""
    square: float
    """q."""
    square_error: float
    """Its variance."""

    def likelihood(self, between: Array) -> Array:
        """log likelihood of each between-variance."""
        found = []
        for t in between:
            expected, variance = self.law(float(t))
            found.append(-((self.pool.apart - expected) ** 2) / variance - np.log(variance))
        return np.array(found) / 2

    def law(self, between: float) -> tuple[float, float]:
        """Mean and variance of A if truths vary by `between`."""
        some = self.pool.sizes[self.pool.counted]
        squares, towards = self._lengths(between)
        spread = self.within / some[:, None] + between * self.unit
        quadratic = 2 * (spread**2).sum(axis=1)
        std = np.sqrt(quadratic + 4 * (spread @ towards))
        capped, below = _cut_off(squares, std, self.pool.radius**2)
        sampling = (1 - self._concentrated) * float((below * some**2) @ quadratic)
        return float(some @ capped), sampling + self._errors(between, below, towards)

    @property
    def _concentrated(self) -> float:
        """h."""
        part = self.pool.sizes / self.pool.sizes.sum()
        return float(part @ part)

    @property
    def _mean_square(self) -> float:
        """b."""
        noise = len(self.mean) * self.mean_noise_std**2
        return float(np.clip(self.mean @ self.mean - noise, 0.0, self.square))

    def _lengths(self, between: float) -> tuple[Array, Array]:
        """E‖s_j/n_j‖² of those counted, and the squares of μ along the axes."""
        sizes, b, h = self.pool.sizes, self._mean_square, self._concentrated
        rows, t_all = sizes.sum(), between * float(self.unit.sum())
        v = max(self.square - b - (1 - h) * t_all, 0.0) * rows / max(rows - 1.0, 1.0)
        length = max(b - h * t_all - v / rows, 0.0)
        towards = self.mean**2 * length / max(float(self.mean @ self.mean), 1e-300)
        return length + t_all + v / sizes[self.pool.counted], towards

    def _errors(self, between: float, below: Array, towards: Array) -> float:
        """Variance by all noise, and by sampling along μ, which moves A and b together.

        `below` holds the chances that lengths are not cut off: so far A moves with b and q.
        """
        sizes, counted = self.pool.sizes, self.pool.counted
        rows, some = sizes.sum(), sizes[counted]
        per_b = float(below @ (some - 1)) * rows / max(rows - 1.0, 1.0)
        per_q = float(below @ (1 - some / rows)) * rows / max(rows - 1.0, 1.0)
        noise, p = self.mean_noise_std**2, len(self.mean)
        shift = np.full(len(sizes), -per_b / rows)
        shift[counted] += below
        varied = sizes[:, None] * self.within + (sizes**2)[:, None] * between * self.unit
        return float(
            self.pool.noise_std**2
            + per_b**2 * noise * (4 * self._mean_square + 2 * p * noise)
            + per_q**2 * self.square_error
            + 4 * float(shift**2 @ (varied @ towards))
        )


def apart_of(
    held: Moments, place: int, mean: Array, unit: Array, within: Array, own: Records
) -> Apart:
    """What the pool at this place says, with E‖yx‖² and its error."""
    pool, n = held.pools[place], float(held.n[place])
    noise_std = float(held.noise_std[place]) / n
    noise = noise_std**2
    rows = float(np.clip(np.trace(held.gram[place]) / n, 0.0, 1.0))
    rows_error = 2 * len(mean) * noise
    if own.noise_variance is None:
        return Apart(pool, mean, noise_std, unit, within, rows, rows_error)
    # E[y²‖x‖²] is not released: own rows tell how far it is from E[y²]·E‖x‖².
    ratio, doubt = _together((own.rows**2).sum(axis=1), own.targets**2)
    y = float((own.targets**2).mean()) if pool.squares is None else pool.squares / n
    y = float(np.clip(y, 0.0, 1.0))
    error = ratio**2 * (y**2 * rows_error + rows**2 * 2 * noise) + (y * rows) ** 2 * doubt
    square = min(ratio * y * rows, y, rows)
    return Apart(pool, mean, noise_std, unit, within, square, error)


def _together(one: Array, other: Array) -> tuple[float, float]:
    """E[ab]/(E[a]·E[b]) of non-negative numbers from a sample, and about the variance of that."""
    a, b = (each / max(float(each.mean()), 1e-12) for each in (one, other))
    ratio = float((a * b).mean())
    # To first order, as each of the three means errs.
    residuals = a * b - ratio * (a + b)
    return ratio, float(residuals.var()) / len(residuals)


def _cut_off(mean: Array, std: Array, most: float) -> tuple[Array, Array]:
    """E[min(Q, most)] of a normal Q, and the chance that it is below."""
    std = np.maximum(std, 1e-150)
    z = (most - mean) / std
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return mean - std * (density - z * ndtr(-z)), ndtr(z)
