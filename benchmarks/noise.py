"""Secure noise and randomised bits on one core, beside numpy's PCG64 and OpenDP.

Aims: Gaussian noise at half PCG64's rate or more, randomised bits at 0.5 Gbit/s or more. *Stream*
is `secure()` itself; *close draws* are the numbers of `sudare.foundations.mechanisms`, whose
distance from the ideal draw is bounded so that the seal can hide it.
"""

from functools import partial

import numpy as np
import opendp.prelude as dp

from benchmarks.table import Row, against, compare
from sudare.foundations.exact import gaussian, laplace
from sudare.foundations.masks import flip_threshold
from sudare.foundations.mechanisms import bernoulli, flip_bits, gamma_noise, gaussian_noise
from sudare.foundations.randomness import secure, seeded
from sudare.foundations.seal import plan_seal

EPSILON = 1.0
COEFFICIENTS = 31
"""Of a model with thirty features: what one fit draws and seals."""


def run(quick: bool) -> list[Row]:
    """Rates of our draws and of the peers', taking turns."""
    size = 10**5 if quick else 10**6
    repeat = 3 if quick else 25
    return [*_normals(size, repeat), *_bits(8 * size, repeat), *_single_calls(repeat)]


def _normals(size: int, repeat: int) -> list[Row]:
    ours, plain = secure(), seeded(1)
    numpy_name = "numpy PCG64"

    def million_a_second(seconds: float) -> float:
        return size / seconds / 1e6

    stream = compare(
        lambda: ours.standard_normal(size), lambda: plain.standard_normal(size), repeat
    )
    close = compare(
        lambda: gaussian_noise(1.0, size, ours), lambda: plain.standard_normal(size), repeat
    )
    vectors = size // COEFFICIENTS
    shape = (vectors, COEFFICIENTS)

    def spherical_gamma() -> None:
        directions = plain.standard_normal(shape)
        norms = np.sqrt(np.einsum("ij,ij->i", directions, directions))
        directions *= (plain.standard_gamma(COEFFICIENTS, vectors) / norms)[:, None]

    gamma = compare(
        lambda: gamma_noise(1.0, COEFFICIENTS, ours, runs=vectors), spherical_gamma, repeat
    )
    return [
        against(
            "Gaussian, secure stream",
            million_a_second(stream[0]),
            "M/s",
            numpy_name,
            million_a_second(stream[1]),
            ">= 0.5",
        ),
        against(
            "Gaussian, secure close draws",
            million_a_second(close[0]),
            "M/s",
            numpy_name,
            million_a_second(close[1]),
            ">= 0.5",
        ),
        _beside(
            f"Gamma in {COEFFICIENTS} dimensions, secure close draws",
            million_a_second(gamma[0]),
            "M/s",
            f"{numpy_name}, same law",
            million_a_second(gamma[1]),
        ),
    ]


def _bits(size: int, repeat: int) -> list[Row]:
    ours, plain = secure(), seeded(2)
    threshold = flip_threshold(EPSILON)
    share = threshold / 2**64
    truth = (plain.random(size) < 0.3).astype(np.uint8)

    def flipped_by_numpy() -> None:
        np.bitwise_xor(truth, plain.random(size) < share)

    coins = compare(
        lambda: bernoulli(threshold, size, ours), lambda: plain.random(size) < share, repeat
    )
    flips = compare(lambda: flip_bits(truth, EPSILON, ours), flipped_by_numpy, repeat)
    return [
        _gigabits("biased coins", size, *coins),
        _gigabits("randomised response", size, *flips),
    ]


def _gigabits(name: str, size: int, seconds: float, numpy_seconds: float) -> Row:
    """The aim is on our rate itself."""
    value, other = size / seconds / 1e9, size / numpy_seconds / 1e9
    return Row(
        name=f"{name}, exact and secure",
        value=value,
        unit="Gbit/s",
        baseline="numpy PCG64, random() < p",
        baseline_value=other,
        ratio=value / other,
        aim="rate >= 0.5",
        ok=value >= 0.5,
    )


def _single_calls(repeat: int) -> list[Row]:
    rng = secure()
    dp.enable_features("contrib")
    response = dp.m.make_randomized_response_bool(prob=1 / (1 + np.exp(-EPSILON)))
    one_bit = compare(lambda: flip_bits([1], EPSILON, rng), lambda: response(True), repeat, 0.02)
    rows = [
        _beside(
            "randomised response, one bit a call",
            1e-3 / one_bit[0],
            "k calls/s",
            "OpenDP randomised response",
            1e-3 / one_bit[1],
        )
    ]
    numbers = np.linspace(-1, 1, COEFFICIENTS)
    for delta, law, sampler in ((0.0, "Laplace", laplace), (1e-7, "Gaussian", gaussian)):
        seal = plan_seal(
            dimension=COEFFICIENTS, epsilon=EPSILON / 100, delta=delta, displacement=1e-9
        )
        noise, steps = sampler(seal.noise_scale), [0] * COEFFICIENTS

        seconds = compare(
            partial(seal.apply, numbers, rng), partial(noise.add_noise, steps), repeat, 0.02
        )
        rows.append(
            _beside(
                f"seal over {COEFFICIENTS} numbers, discrete {law}",
                seconds[0] / COEFFICIENTS * 1e6,
                "µs a number",
                f"OpenDP discrete {law} alone",
                seconds[1] / COEFFICIENTS * 1e6,
            )
        )
    return rows


def _beside(name: str, value: float, unit: str, baseline: str, other: float) -> Row:
    """For information: no aim was set."""
    return Row(
        name=name,
        value=value,
        unit=unit,
        baseline=baseline,
        baseline_value=other,
        ratio=value / other,
    )
