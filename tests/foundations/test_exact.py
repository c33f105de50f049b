"""OpenDP's samplers against closed forms: the laws, and what is said about them."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy import stats

from sudare.foundations import exact
from tests.statistical import counts_fit, fits, only_counts_fit, tally

Floats = NDArray[np.float64]


def laplace_law(scale: float, reach: int) -> Floats:
    """P(k) ∝ e^{−|k|/scale} for |k| < reach, with everything beyond added to the two ends."""
    q = math.exp(-1 / scale)
    k = np.arange(-reach, reach + 1)
    law = (1 - q) / (1 + q) * q ** np.abs(k)
    law[[0, -1]] = q**reach / (1 + q)
    return np.asarray(law)


def gaussian_law(scale: float, reach: int) -> Floats:
    """P(k) ∝ e^{−k²/2scale²}, likewise."""
    k = np.arange(-60 * math.ceil(scale) - reach, 60 * math.ceil(scale) + reach + 1)
    weights = np.exp(-(k**2) / (2 * scale**2))
    law = np.zeros(2 * reach + 1)
    np.add.at(law, np.clip(k, -reach, reach) + reach, weights / weights.sum())
    return law


def draws(sampler: exact.Sampler, size: int) -> NDArray[np.int64]:
    return np.array(sampler.add_noise([0] * size))


@pytest.mark.parametrize(
    ("sampler", "law"), [(exact.laplace, laplace_law), (exact.gaussian, gaussian_law)]
)
@pytest.mark.parametrize(("scale", "reach"), [(0.5, 2), (1.0, 3), (3.7, 9)])
def test_law(
    sampler: Callable[[float], exact.Sampler],
    law: Callable[[float, int], Floats],
    scale: float,
    reach: int,
) -> None:
    seen = tally(draws(sampler(scale), 20_000) + reach, 2 * reach + 1)
    wrong = [law(scale * f, reach) for f in (0.85, 1.2)]
    assert only_counts_fit(seen, law(scale, reach), wrong)


def test_one_law_is_not_the_other() -> None:
    seen = tally(draws(exact.laplace(1.0), 20_000) + 3, 7)
    assert not counts_fit(seen, gaussian_law(math.sqrt(2), 3))


@pytest.mark.parametrize(
    ("sampler", "law"), [(exact.laplace, stats.laplace), (exact.gaussian, stats.norm)]
)
def test_large_scales(sampler: Callable[[float], exact.Sampler], law: Any) -> None:
    """At a thousand steps the grid is too fine to be seen with this many draws."""
    noise = draws(sampler(1000.0), 10_000)
    assert fits(noise + 0.5, law(scale=1000).cdf)
    assert not fits(1.6 * noise, law(scale=1000).cdf)


def test_noise_is_added_to_each_number() -> None:
    steps = [10**12, -(10**12), 0]
    for sampler in (exact.laplace(2.0), exact.gaussian(2.0)):
        noisy = sampler.add_noise(steps)
        assert all(isinstance(number, int) for number in noisy)
        # e^{−200} of a chance to be farther away.
        assert all(abs(a - b) <= 400 for a, b in zip(noisy, steps, strict=True))
    many = draws(exact.laplace(2.0), 5_000)
    pairs = (many[:-1:2] > 0) * 2 + (many[1::2] > 0)
    positive = laplace_law(2.0, 1)[2]
    law = np.outer([1 - positive, positive], [1 - positive, positive])
    assert counts_fit(tally(pairs, 4), law)


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 1e6, 12345.678])
@pytest.mark.parametrize("sensitivity", [0.1, 1.0, 3.0, 1e5, 2.0**0.5])
def test_losses_are_rounded_up_and_hardly(scale: float, sensitivity: float) -> None:
    ratio = Fraction(sensitivity) / Fraction(scale)
    for stated, true in (
        (exact.laplace(scale).loss(sensitivity), ratio),
        (exact.gaussian(scale).loss(sensitivity), ratio**2 / 2),
    ):
        assert true <= Fraction(stated) <= true * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.7, 3.7])
def test_losses_are_those_of_the_laws(scale: float, shift: int) -> None:
    """The largest log-ratio, and the Rényi divergences, of a law and its shifted copy."""
    with mp.workdps(40):
        assert exact.laplace(scale).loss(float(shift)) >= shift / mpf(scale)
        rho = exact.gaussian(scale).loss(float(shift))
        k = range(-60 * math.ceil(scale), 60 * math.ceil(scale) + 1)
        whole = sum(mp.exp(-(mpf(j) ** 2) / (2 * mpf(scale) ** 2)) for j in k)
        for order in (mpf("1.1"), mpf(2), mpf(10)):
            moment = sum(
                mp.exp(-(order * j**2 + (1 - order) * mpf(j - shift) ** 2) / (2 * mpf(scale) ** 2))
                for j in k
            )
            divergence = mp.log(moment / whole) / (order - 1)
            assert divergence <= order * mpf(rho)
            assert divergence >= order * mpf(rho) * mpf("0.99") or scale < 1


def test_samplers_are_kept() -> None:
    assert exact.laplace(2.5) is exact.laplace(2.5)
    assert exact.gaussian(2.5) is exact.gaussian(2.5)
    assert exact.laplace(2.5) is not exact.laplace(2.6)
    assert exact.laplace(2.5) is not exact.gaussian(2.5)


def test_choice() -> None:
    """exp(ε·score/2Δ), whichever way the same ratio is written."""
    scores = [0.0, 1.0, 3.0]
    law = np.exp(np.array(scores) - 3)
    law /= law.sum()
    seen = tally([exact.choice(scores, 0.5, 0.25) for _ in range(4_000)], 3)
    wrong = [law**f / (law**f).sum() for f in (0.65, 1.5)]
    assert only_counts_fit(seen, law, wrong)


def test_choice_keeps_to_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def gumbel(scale: float) -> Callable[[list[float]], int]:
        asked.append(scale)
        return lambda _: 0

    monkeypatch.setattr(exact, "_gumbel", gumbel)
    exact.choice([0.0], np.float32(0.3), np.float32(0.7))  # type: ignore[arg-type]
    true = 2 * Fraction(float(np.float32(0.7))) / Fraction(float(np.float32(0.3)))
    assert true <= Fraction(asked[0]) <= true * (1 + Fraction(1, 10**12))
