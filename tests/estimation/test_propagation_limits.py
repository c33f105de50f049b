"""Where a number stops being told: one step to either side of each limit."""

import math

import numpy as np
import pytest

from sudare.estimation import NoisySums, _propagation
from sudare.estimation._forms import Form
from sudare.estimation._propagation import (
    FEW,
    NARROW,
    WIDE,
    Estimate,
    Paired,
    Spread,
    correlation,
    deviation,
    interval,
    ratio,
)
from sudare.releases import Contract

CONTRACT = Contract(features=2, row_norm=3.0, constant=0.75, target_bound=50.0)
N = 1000


def sums(moments: np.ndarray, noise_std: float) -> NoisySums:
    """Exact sums, said to have noise: `moments` is the mean of xxᵀ in the contract's units."""
    gram = moments * N / CONTRACT.full_norm**2
    return NoisySums(CONTRACT, N, np.zeros(3), gram, None, noise_std)


def reasons(found: Estimate) -> list[str]:
    return [trouble.reason for trouble in found.troubles if np.any(trouble.where)]


def test_too_wide_is_as_wide_as_what_is_possible() -> None:
    """Between 4 and 6, so that least is not 0 and the range neither bound."""
    assert interval(5.0, 4.0, 5.99, 4.0, 6.0).told
    assert reasons(interval(5.0, 4.0, 6.0, 4.0, 6.0)) == [WIDE]
    assert reasons(interval(5.0, 3.9, 6.4, 4.0, 6.0)) == [WIDE]


@pytest.mark.parametrize(("deviations", "told"), [(3.9, False), (4.1, True)])
def test_a_denominator_is_four_deviations_above_zero(deviations: float, told: bool) -> None:
    one = sums(np.diag([1.0, 0.3, 0.75**2]), 2.0)
    top, below = Form(0.0, {(0, 0): 1.0}), Form(0.0, {(1, 1): 1.0})
    std = math.sqrt(one.variance(below))
    shifted = Form(deviations * std - 0.3, below.weights)
    found = ratio(one, top, shifted, 1.96, -1e6, 1e6)
    assert (FEW not in reasons(found)) == told
    spread = Spread.of(one, top, Form(0.0, {(0, 1): 1.0}), shifted)
    assert (FEW not in reasons(deviation(one, spread, shifted, 1.96, 1e6))) == told


@pytest.mark.parametrize(("deviations", "told"), [(3.9, False), (4.1, True)])
def test_a_correlation_needs_spreads_four_deviations_above_zero(
    deviations: float, told: bool
) -> None:
    """Both have the variance .25 and the mean 0; a variance's noise is √2·σ·‖x‖²/n."""
    moments = np.array([[0.25, 0.15, 0.0], [0.15, 0.25, 0.0], [0.0, 0.0, 0.75**2]])
    known = sums(moments, 0.25 / deviations / math.sqrt(2) * N / CONTRACT.full_norm**2)
    pairs = []
    for k in (0, 1):
        mean = Form(0.0, {(k, 2): 1 / 0.75})
        pairs.append(Paired(mean, Spread.of(known, Form(0.0, {(k, k): 1.0}), mean, Form(1.0))))
    found = correlation(known, Form(0.0, {(0, 1): 1.0}), pairs[0], pairs[1], 1.0)
    assert (NARROW not in reasons(found)) == told
    assert (found.least, found.most) == (-1.0, 1.0)


def test_a_correlation_counts_what_is_of_second_order_in_both_spreads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """d√(vw) = ½√(w/v)·dv + ½√(v/w)·dw, and the second orders of dv and dw are independent."""
    moments = np.array([[0.25, 0.15, 0.0], [0.15, 0.64, 0.0], [0.0, 0.0, 0.75**2]])
    known, seen = sums(moments, 6.0), []
    pairs = []
    for k, far in ((0, 1 / 0.75), (1, 2 / 0.75)):
        mean = Form(0.0, {(k, 2): far})
        pairs.append(Paired(mean, Spread.of(known, Form(0.0, {(k, k): 1.0}), mean, Form(1.0))))

    def remember(*parts: float) -> tuple[float, float, float]:
        seen.append(parts)
        return 0.0, 0.0, 0.0

    monkeypatch.setattr(_propagation, "fieller", remember)
    correlation(known, Form(0.0, {(0, 1): 1.0}), pairs[0], pairs[1], 1.96)
    ((_, size, _, variance, _, _),) = seen
    v, w = (pair.spread for pair in pairs)
    assert size == pytest.approx(math.sqrt(v.value * w.value))
    ratios = [math.sqrt(w.value / v.value) / 2, math.sqrt(v.value / w.value) / 2]
    linear = known.variance(v.linear * ratios[0] + w.linear * ratios[1])
    second = v.second * ratios[0] ** 2 + w.second * ratios[1] ** 2
    assert variance == pytest.approx(linear + second)
    assert second > 0.01 * linear  # else nothing would be seen
