import math

import numpy as np
import pytest
from scipy.optimize import brentq

from sudare.estimation import NoisySums
from sudare.estimation._forms import Form
from sudare.estimation._propagation import (
    FEW,
    IMPOSSIBLE,
    NARROW,
    NEGATIVE,
    WIDE,
    Estimate,
    Paired,
    Spread,
    correlation,
    deviation,
    fieller,
    interval,
    ratio,
)
from sudare.foundations.randomness import seeded
from sudare.releases import Contract

CONTRACT = Contract(features=2, row_norm=3.0, constant=0.75, target_bound=50.0)


def sums(noise_std: float, draws: int | None = None, seed: int = 0) -> NoisySums:
    """Two columns with means 0.4 and -0.7 and a correlation of 0.6, of 1,000 rows."""
    rng = seeded(seed)
    covariance = np.array([[0.25, 0.15], [0.15, 0.25]])
    second = np.array([0.4, -0.7])
    moments = np.zeros((3, 3))
    moments[:2, :2] = covariance + np.outer(second, second)
    moments[:2, 2] = moments[2, :2] = 0.75 * second
    moments[2, 2] = 0.75**2
    front = () if draws is None else (draws,)
    noise = rng.standard_normal((*front, 3, 3)) * noise_std
    upper = np.triu(noise, 1)
    noise = upper + np.swapaxes(upper, -1, -2) + noise * np.eye(3) * math.sqrt(2)
    gram = moments * 1000 / CONTRACT.full_norm**2 + noise
    return NoisySums(CONTRACT, 1000, np.zeros((*front, 3)), gram, None, noise_std)


def mean(place: int) -> Form:
    return Form(0.0, {(place, 2): 1 / 0.75})


def square(place: int, other: int) -> Form:
    return Form(0.0, {(place, other): 1.0})


def first_reason(found: Estimate) -> str:
    return next(trouble.reason for trouble in found.troubles if trouble.where)


@pytest.mark.parametrize(
    ("top", "below", "noises"),
    [(3.0, 5.0, (0.2, 0.4, 0.1)), (-1.0, 2.0, (0.05, 0.2, -0.08)), (0.0, 9.0, (1.0, 0.0, 0.0))],
)
def test_fieller_holds_what_the_noise_cannot_tell_apart(
    top: float, below: float, noises: tuple[float, float, float]
) -> None:
    z = 1.96

    def excess(rho: float) -> float:
        variance = noises[0] - 2 * rho * noises[2] + rho**2 * noises[1]
        return (top - rho * below) ** 2 - z**2 * variance

    value, low, high = fieller(top, below, *noises, z)
    assert value == pytest.approx(top / below)
    assert low == pytest.approx(brentq(excess, value - 50, value))
    assert high == pytest.approx(brentq(excess, value, value + 50))


def test_fieller_has_no_end_where_the_denominator_may_be_zero() -> None:
    _, low, high = fieller(1.0, 1.0, 0.1, 0.5, 0.0, 1.96)
    assert (low, high) == (-np.inf, np.inf)


def test_small_noise_is_not_lost() -> None:
    value, low, high = fieller(0.3, 0.7, 1e-24, 1e-24, 0.0, 1.96)
    assert low < value < high
    assert high - low == pytest.approx(2 * 1.96e-12 / 0.7 * math.hypot(1, 3 / 7), rel=0.01)


def test_what_is_too_wide_or_impossible_is_not_told() -> None:
    assert interval(0.4, 0.2, 0.6, 0.0, 1.0).told
    wide, far = interval(0.4, -0.3, 1.1, 0.0, 1.0), interval(-0.4, -0.5, -0.3, 0.0, 1.0)
    assert not wide.told
    assert first_reason(wide) == WIDE
    assert not far.told
    assert first_reason(far) == IMPOSSIBLE
    moved = interval(0.4, 0.2, 0.6, 0.0, 1.0).shifted(5.0)
    assert (moved.value, moved.low, moved.high, moved.least, moved.most) == (5.4, 5.2, 5.6, 5, 6)
    assert not moved.and_not(True, "because").told


def test_a_group_of_which_nobody_knows_the_size_is_not_told() -> None:
    found = ratio(sums(40.0), square(0, 1), square(0, 0), 1.96, -10.0, 10.0)
    assert first_reason(found) == FEW


def test_deviation_and_correlation_of_a_known_law() -> None:
    exact = sums(1e-9)
    spreads = [Spread.of(exact, square(k, k), mean(k), Form(1.0)) for k in (0, 1)]
    found = deviation(exact, spreads[0], Form(1.0), 1.96, 3.0)
    assert found.value == pytest.approx(0.5, rel=1e-6)
    pairs = [Paired(mean(k), spreads[k]) for k in (0, 1)]
    r = correlation(exact, square(0, 1), pairs[0], pairs[1], 1.96)
    assert r.value == pytest.approx(0.6, rel=1e-6)


def test_the_variance_has_no_bias_though_the_mean_is_noisy() -> None:
    """The mean of 20,000 draws, within five of its standard errors."""
    many = sums(20.0, 20_000, seed=3)
    spread = Spread.of(many, square(0, 0), mean(0), Form(1.0))
    error = spread.value - 0.25
    assert abs(error.mean()) < 5 * error.std() / math.sqrt(20_000)
    stated = np.sqrt(np.mean(spread.variance(many)))
    assert stated == pytest.approx(error.std(), rel=0.1)
    # Without the correction the bias would be the variance of the mean's noise.
    assert many.variance(mean(0)) > 2 * 5 * error.std() / math.sqrt(20_000)


def test_a_spread_near_zero_hides_deviation_and_correlation() -> None:
    # Three times the mean's square is more than the mean of squares.
    some = sums(1e-3)
    below = Spread.of(some, square(0, 0), mean(0) * 3.0, Form(1.0))
    found = deviation(some, below, Form(1.0), 1.96, 3.0)
    assert not found.told
    assert first_reason(found) == NEGATIVE
    other = Spread.of(some, square(1, 1), mean(1), Form(1.0))
    r = correlation(some, square(0, 1), Paired(mean(0), below), Paired(mean(1), other), 1.96)
    assert first_reason(r) == NARROW
