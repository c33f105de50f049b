"""The random steps themselves: noise, private choice, randomised bits.

The guarantees, for one call with a `secure()` generator:

    gamma_noise      density ∝ exp(−‖b‖/s): ε = Δ₂/s for L2 sensitivity Δ₂
    gaussian_noise   N(0, σ²I): μ-GDP with μ = Δ₂/σ
    choose           the exponential mechanism (McSherry and Talwar 2007): ε-DP
    flip_bits        randomised response (Warner 1965): ε-LDP for each bit
    draw_masks       one mask for all of a user's slots: ε-LDP for all slots together

Randomised bits, masks and private choice are exact: integer arithmetic on uniform words, or
OpenDP's exact samplers. The two float noises are *close draws*: each is, always, within relative
distance `draw_error(dimension)` of an ideal real-valued draw made from the same coins (except with
probability 2⁻⁷⁰ a draw). A float is not the real number the theorem speaks of, so nothing made from
them leaves without `sudare.foundations.seal`, which pays for that distance.
"""

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sudare.foundations import checks, exact
from sudare.foundations.masks import MaskLaw, flip_threshold
from sudare.foundations.randomness import is_secure, uniform_words

_BLOCK = 32768
"""Pairs of normals made at a time: small enough to stay in the processor's cache."""
_ANGLE_BITS = 54
_TURN = np.arange(1024) * (2 * math.pi / 1024)
_COSINES, _SINES = np.cos(_TURN), np.sin(_TURN)
_TAILS = math.log(2) * np.array([10] + [9 - int(math.log2(k)) for k in range(1, 1024)])
"""For ten coins, log 2 times the number of tails before the first head."""


def draw_error(dimension: int) -> float:
    """e with ‖float draw − ideal draw‖ ≤ e·‖ideal draw‖, for both float noises."""
    checks.count(dimension=dimension)
    return 2.0**-45 + dimension * 2.0**-51


def gaussian_noise(
    noise_std: float, shape: int | tuple[int, ...], rng: Generator
) -> NDArray[np.float64]:
    """Independent N(0, noise_std²) numbers, as close draws."""
    checks.positive(noise_std=noise_std)
    noise = _normals(1, math.prod(shape) if isinstance(shape, tuple) else shape, rng)
    noise *= noise_std
    return noise.reshape(shape)


def gamma_noise(
    scale: float, dimension: int, rng: Generator, runs: int | None = None
) -> NDArray[np.float64]:
    """Vectors of density ∝ exp(−‖b‖/scale), as close draws: one, or one per run.

    The norm is Gamma(dimension, scale), a sum of exponentials; the direction is that of a normal
    vector, independent of it.
    """
    checks.positive(scale=scale)
    checks.count(dimension=dimension)
    if runs is not None:
        checks.count(runs=runs)
    noise = _normals(runs or 1, dimension, rng)
    norms = np.sqrt(np.einsum("ij,ij->i", noise, noise))
    lengths = exponentials(noise.size, rng).reshape(noise.shape).sum(axis=1)
    noise *= (scale * lengths / norms)[:, None]
    return noise if runs is not None else noise[0]


def choose(scores: ArrayLike, epsilon: float, sensitivity: float, rng: Generator) -> int:
    """An index, with probability ∝ exp(ε·score/(2·sensitivity)): ε-DP, whatever the scores.

    `sensitivity` bounds how far one record moves any score. A score of −∞ is never chosen; which
    scores are −∞ must not depend on the data. Ties are broken evenly. With a secure generator the
    draw is OpenDP's exact one; a seeded generator simulates it.
    """
    checks.positive(epsilon=epsilon, sensitivity=sensitivity)
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise checks.InvalidInput("Expected scores to be a list of at least one number")
    if np.isnan(values).any() or np.isposinf(values).any():
        raise checks.InvalidInput("Expected scores without NaN and without +infinity")
    (possible,) = np.nonzero(np.isfinite(values))
    if possible.size == 0:
        raise checks.InvalidInput("Expected at least one score above -infinity")
    finite = values[possible]
    if is_secure(rng):
        return int(possible[exact.choice(finite.tolist(), epsilon, sensitivity)])
    gumbel = -np.log(rng.standard_exponential(finite.size))
    with np.errstate(over="ignore"):  # a difference beyond the floats is minus infinity
        weights = epsilon / (2 * sensitivity) * (finite - finite.max())
    return int(possible[np.argmax(weights + gumbel)])


def flip_bits(bits: ArrayLike, epsilon: float, rng: Generator) -> NDArray[np.uint8]:
    """Randomised response: each 0/1 kept with probability e^ε/(1+e^ε), else flipped.

    The probability of a flip is a whole number of 2⁻⁶⁴ths, rounded up, and met exactly.
    """
    values = np.asarray(bits)
    if values.size == 0:
        return np.zeros(values.shape, dtype=np.uint8)
    if values.dtype != np.bool_ and not (
        np.issubdtype(values.dtype, np.integer) and values.max() <= 1 and values.min() >= 0
    ):
        raise checks.InvalidInput("Expected bits to hold only 0 and 1")
    flips = bernoulli(flip_threshold(epsilon), values.size, rng).reshape(values.shape)
    return np.bitwise_xor(values.astype(np.uint8, copy=False), flips.view(np.uint8))


def bernoulli(threshold: int, size: int, rng: Generator) -> NDArray[np.bool_]:
    """Independent bits that are one with probability exactly threshold/2⁶⁴.

    A 64-bit word is compared with the threshold one byte at first: only one word in 256 needs more.
    """
    if not 0 <= threshold <= 2**64:
        raise checks.InvalidInput("Expected threshold in [0, 2^64]")
    if threshold == 2**64:
        return np.ones(size, dtype=np.bool_)
    top, rest = threshold >> 56, np.uint64(threshold & (2**56 - 1))
    drawn = np.empty(size, dtype=np.bool_)
    for start in range(0, size, 8 * _BLOCK):
        part = drawn[start : start + 8 * _BLOCK]
        first = uniform_words((part.size + 7) // 8, rng).view(np.uint8)[: part.size]
        np.less(first, top, out=part)
        (ties,) = np.nonzero(first == top)
        part[ties] = uniform_words(ties.size, rng) >> np.uint64(8) < rest
    return drawn


def draw_masks(law: MaskLaw, users: int, rng: Generator) -> NDArray[np.uint8]:
    """One mask for each user, as rows of 0/1 over the law's slots.

    The number of ones is drawn by its exact integer weight, their places uniformly.
    """
    checks.count(users=users)
    g = law.slots
    weights = [
        math.comb(g, ones) * (law.near_weight if ones <= law.threshold else law.far_weight)
        for ones in range(g + 1)
    ]
    ladder = np.cumsum(np.array(weights, dtype=np.uint64))
    drawn = rng.integers(0, law.total, size=users, dtype=np.uint64)
    ones = np.searchsorted(ladder, drawn, side="right")
    masks = (np.arange(g) < ones[:, None]).astype(np.uint8)
    return rng.permuted(masks, axis=1, out=masks)


def _normals(rows: int, columns: int, rng: Generator) -> NDArray[np.float64]:
    """Rows of standard normals, each row a close draw.

    The two numbers of a pair are close together, not each by itself: near an axis one of them is
    all rounding. So no row holds half a pair, and where one number is left over it is a lone one.
    """
    half = columns // 2
    if rows == 1 and columns % 2 == 0:
        return _normal_pairs(half, rng).reshape(1, columns)
    cosines, sines = _normal_pairs(rows * half, rng).reshape(2, rows, half)
    normals = np.empty((rows, columns))
    normals[:, :half] = cosines
    normals[:, half : 2 * half] = sines
    if columns % 2:
        normals[:, -1] = _lone_normals(rows, rng)
    return normals


def _lone_normals(size: int, rng: Generator) -> NDArray[np.float64]:
    """Standard normals, each close by itself: ±R·sin φ with φ uniform on a quarter turn.

    Of each first word 10 bits begin R's exponential, one is the sign and 53 give the angle, with
    extra coins where it is small.
    """
    words = uniform_words(size, rng)
    normals = np.sqrt(2 * _exponentials_from(words >> np.uint64(_ANGLE_BITS), rng))
    angle = words & np.uint64(2**53 - 1)
    quarter = angle * 2.0**-53
    (small,) = np.nonzero(angle < np.uint64(2**48))
    quarter[small] += (uniform_words(small.size, rng) + 0.5) * 2.0**-117
    normals *= np.sin(quarter * (math.pi / 2))
    return np.negative(normals, out=normals, where=(words & np.uint64(2**53)) > 0)


def _normal_pairs(pairs: int, rng: Generator) -> NDArray[np.float64]:
    """Standard normals by Box and Muller's polar form, from words with a known error.

    Of each first word 54 bits give the angle and 10 the first digits of the radius' exponential;
    the second word gives its remainder. The angle is taken from the nearest 1024th of a turn, whose
    cosine and sine are in a table, and the rest ρ is short: |ρ| ≤ π/1024, so that the series up to
    ρ⁵ and ρ⁶ leave 2⁻⁶².
    """
    normals = np.empty((2, pairs))
    for start in range(0, pairs, _BLOCK):
        stop = min(start + _BLOCK, pairs)
        words = uniform_words(stop - start, rng)
        radius = _exponentials_from(words >> np.uint64(_ANGLE_BITS), rng)
        radius *= 2
        np.sqrt(radius, out=radius)
        steps = (words << np.uint64(64 - _ANGLE_BITS)).view(np.int64)
        near = ((steps >> 53) + 1) >> 1
        steps -= near << 54
        rest = steps * (math.pi * 2.0**-63)
        near &= 1023
        squared = rest * rest
        sine_rest = ((squared * (1 / 120) - 1 / 6) * squared * rest + rest) * radius
        cosine_rest = ((squared * (-1 / 720) + 1 / 24) * squared - 0.5) * squared + 1.0
        cosine_rest *= radius
        cosine, sine = normals[:, start:stop]
        turned_cosine, turned_sine = _COSINES.take(near), _SINES.take(near)
        np.multiply(turned_cosine, cosine_rest, out=cosine)
        np.multiply(turned_sine, cosine_rest, out=sine)
        turned_cosine *= sine_rest
        turned_sine *= sine_rest
        cosine -= turned_sine
        sine += turned_cosine
    return normals


def exponentials(size: int, rng: Generator) -> NDArray[np.float64]:
    """Independent standard exponentials, as close draws."""
    values = np.empty(size)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        words = uniform_words(stop - start, rng)
        values[start:stop] = _exponentials_from(words >> np.uint64(54), rng)
    return values


def _exponentials_from(digits: NDArray[np.uint64], rng: Generator) -> NDArray[np.float64]:
    """Standard exponentials whose first ten coins are given.

    An exponential is J·log 2 + E with J geometric (coins until the first head) and E exponential on
    [0, log 2), that is −log(1 − V/2) with V uniform. Both parts get extra coins where the first
    ones are all tails, so the result has full relative precision from the tail down to zero.
    """
    tails = _TAILS[digits.view(np.int64)]
    (unfinished,) = np.nonzero(digits == 0)
    while unfinished.size:
        more = uniform_words(unfinished.size, rng) >> np.uint64(54)
        tails[unfinished] += _TAILS[more.view(np.int64)]
        unfinished = unfinished[more == 0]
    v = uniform_words(digits.size, rng)
    values = np.multiply(v, -(2.0**-65))
    (small,) = np.nonzero(v < np.uint64(1 << 58))
    refined = v[small] * 2.0**-65 + (uniform_words(small.size, rng) + 0.5) * 2.0**-129
    values += 1.0
    np.log(values, out=values)
    values[small] = np.log1p(-refined)
    return np.subtract(tails, values, out=tails)
