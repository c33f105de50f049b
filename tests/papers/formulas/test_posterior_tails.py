"""The tail guarantee against 80-digit arithmetic, and the printed corollaries where they fail.

Safe side and precision are tested together: the result meets the target exactly, and the result
enlarged by one part in 1e9 does not.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given

from papers.formulas.posterior import (
    PrivacyWarning,
    deviation_tail,
    paper_corollary10_delta,
    paper_corollary10_inverse_temperature,
    paper_corollary10_limit,
    paper_corollary10_true_delta,
    paper_normal_mean_discriminant,
    posterior_divergence,
    posterior_tail,
    tail_budget,
    tail_inverse_temperature,
)
from sudare.calibration import inverse_temperature
from sudare.foundations.checks import InvalidInput
from tests.calibration.posteriors import (
    DELTA,
    EPSILONS,
    FLAT,
    MODELS,
    exact_divergence,
    repeatable,
)
from tests.support.digits import MORE, exact_gaussian_delta, mp, mpf
from tests.support.strategies import spread


def exact_tail(epsilon: Any, divergence: Any) -> Any:
    """Minami's bound, which says nothing once D reaches ε."""
    if divergence >= epsilon:
        return mpf(1)
    return mp.exp(-((mpf(epsilon) - divergence) ** 2) / (4 * divergence))


@repeatable
@given(EPSILONS, DELTA, MODELS)
@example(1e-4, 1e-60, {**FLAT, "loss_curvature": 0.0, "n": 1})
@example(50.0, 0.3, {**FLAT, "loss_curvature": 1.0, "n": 10**7})
def test_tail_temperature_is_the_largest_the_tail_bound_allows(
    epsilon: float, delta: float, model: dict[str, Any]
) -> None:
    beta = mpf(tail_inverse_temperature(epsilon, delta, **model))
    assert exact_tail(epsilon, exact_divergence(beta, model)) <= delta
    assert exact_tail(epsilon, exact_divergence(beta * MORE, model)) > delta


@repeatable
@given(EPSILONS, DELTA)
@example(1e-4, 1e-60)
@example(50.0, 0.3)
@example(50.0, 1 - 2**-53)
def test_tail_budget_is_the_largest_divergence_allowed(epsilon: float, delta: float) -> None:
    budget = mpf(tail_budget(epsilon, delta))
    assert 0 < budget < epsilon
    assert exact_tail(epsilon, budget) <= delta
    assert exact_tail(epsilon, budget * MORE) > delta


@repeatable
@given(EPSILONS, spread(1e-6, 1e3), MODELS)
@example(1.0, 1e-200, {**FLAT, "loss_curvature": 0.0, "n": 1})
@example(1e-300, 1.0, {**FLAT, "loss_curvature": 0.0, "n": 1})
@example(1e200, 1e-100, {**FLAT, "loss_curvature": 1.0, "n": 1})
def test_divergence_and_tails_are_rounded_up(
    epsilon: float, beta: float, model: dict[str, Any]
) -> None:
    exact = exact_divergence(mpf(beta), model)
    divergence = posterior_divergence(beta, **model)
    assert exact <= divergence <= exact * MORE + mpf(2) ** -1070
    tail = posterior_tail(epsilon, beta, **model)
    assert exact_tail(epsilon, exact) <= tail <= 1
    if divergence < epsilon:
        assert tail <= exact_tail(epsilon, divergence) * MORE + mpf(2) ** -1070
    else:
        assert tail == 1
    beyond = mp.exp(-(mpf(epsilon) ** 2) / (4 * exact))
    assert beyond <= deviation_tail(epsilon, beta, **model)
    more = mp.exp(-(mpf(epsilon) ** 2) / (4 * mpf(divergence)))
    assert deviation_tail(epsilon, beta, **model) <= more * MORE + mpf(2) ** -1070


@repeatable
@given(EPSILONS, DELTA, MODELS)
def test_tail_of_the_tail_temperature_is_the_delta_asked_for(
    epsilon: float, delta: float, model: dict[str, Any]
) -> None:
    tail = posterior_tail(epsilon, tail_inverse_temperature(epsilon, delta, **model), **model)
    assert tail == pytest.approx(delta, rel=1e-7)


# The printed corollaries


@pytest.mark.parametrize(("delta", "limit"), [(1e-3, 1.0175), (1e-5, 1.0106), (1e-8, 1.0067)])
def test_tail_bound_implies_corollary_10_only_up_to_its_limit(delta: float, limit: float) -> None:
    assert paper_corollary10_limit(delta) == pytest.approx(limit, abs=5e-5)

    def implied(epsilon: Any) -> bool:
        divergence = epsilon**2 / (2 * (1 - 2 * mp.log(delta)))
        return bool(exact_tail(epsilon, divergence) <= delta)

    assert implied(mpf(paper_corollary10_limit(delta)))
    assert not implied(mpf(paper_corollary10_limit(delta)) * MORE)


def test_tail_bound_misses_corollary_10_at_epsilon_two() -> None:
    beta = paper_corollary10_inverse_temperature(2, 1e-5, lipschitz=1, prior_curvature=1)
    assert float(exact_tail(2, exact_divergence(beta, FLAT))) == pytest.approx(1.615e-5, rel=1e-3)


@pytest.mark.parametrize(("delta", "first"), [(1e-3, 8.08), (1e-5, 8.99), (1e-8, 9.92)])
def test_corollary_10_is_false_for_large_epsilon(delta: float, first: float) -> None:
    def attained(epsilon: float) -> float:
        beta = paper_corollary10_inverse_temperature(
            epsilon, delta, lipschitz=0.5, prior_curvature=4
        )
        model: dict[str, Any] = {"gradient_diameter": 1.0, "prior_curvature": 4.0}
        return float(exact_gaussian_delta(epsilon, mp.sqrt(2 * exact_divergence(beta, model))))

    assert attained(2.0) < delta
    assert attained(first - 0.01) < delta
    with pytest.warns(PrivacyWarning, match=r"10\(ii\) is false"):
        assert attained(first + 0.01) > delta
    if delta == 1e-5:
        with pytest.warns(PrivacyWarning, match="ε = 10 and δ = 1e-05"):
            assert attained(10.0) == pytest.approx(1.68e-5, rel=3e-3)


def test_corollary_10_first_part_is_false_beyond_3_105() -> None:
    assert paper_corollary10_delta(3) == pytest.approx(1 / math.e, rel=1e-14)
    assert paper_corollary10_true_delta(5) == pytest.approx(0.384, abs=5e-4)
    assert paper_corollary10_true_delta(3.104) < paper_corollary10_delta(3.104)
    with pytest.warns(PrivacyWarning, match=r"10\(i\) is false"):
        assert paper_corollary10_true_delta(3.106) > paper_corollary10_delta(3.106)
    with pytest.warns(PrivacyWarning):
        assert paper_corollary10_delta(5) == pytest.approx(0.223, abs=5e-4)


@repeatable
@given(EPSILONS)
@example(0.25)
@example(0.2499999)
@example(1e-16)
def test_true_delta_of_corollary_10_is_the_gaussian_curve_at_divergence_epsilon(
    epsilon: float,
) -> None:
    value = paper_corollary10_true_delta(epsilon)
    exact = exact_gaussian_delta(epsilon, mp.sqrt(2 * mpf(epsilon)))
    assert exact <= value <= exact * MORE


@pytest.mark.parametrize(
    ("epsilon", "fraction"), [(0.1, 0.077), (1, 0.268), (5, 0.351), (20, 0.374)]
)
def test_tail_bound_supports_the_first_part_for_small_divergences_only(
    epsilon: float, fraction: float
) -> None:
    supported = tail_budget(epsilon, math.exp(-(1 + epsilon) / 4)) / epsilon
    assert supported == pytest.approx(fraction, abs=6e-4)


# ε, δ, then β·L/√m by Corollary 10(ii), by the tail bound and by the Gaussian guarantee.
GAINS = [
    (0.1, 1e-3, 0.01299, 0.01340, 0.02873),
    (0.1, 1e-5, 0.01020, 0.01040, 0.01626),
    (0.1, 1e-8, 0.00813, 0.00823, 0.01088),
    (0.5, 1e-3, 0.06495, 0.06608, 0.10846),
    (0.5, 1e-5, 0.05100, 0.05155, 0.07111),
    (0.5, 1e-8, 0.04064, 0.04091, 0.05069),
    (1, 1e-3, 0.12990, 0.12997, 0.19420),
    (1, 1e-5, 0.10201, 0.10203, 0.13403),
    (1, 1e-8, 0.08128, 0.08129, 0.09803),
    (2, 1e-3, 0.25980, 0.25196, 0.34596),
    (2, 1e-5, 0.20401, 0.20006, 0.25078),
    (2, 1e-8, 0.16256, 0.16051, 0.18847),
    (5, 1e-3, 0.64950, 0.58160, 0.72480),
    (5, 1e-5, 0.51004, 0.47414, 0.56062),
    (5, 1e-8, 0.40640, 0.38718, 0.43898),
]


@pytest.mark.parametrize(("epsilon", "delta", "printed", "tail", "gaussian"), GAINS)
def test_gain_over_the_printed_corollary(
    epsilon: float, delta: float, printed: float, tail: float, gaussian: float
) -> None:
    found = (
        paper_corollary10_inverse_temperature(epsilon, delta, lipschitz=1, prior_curvature=1),
        tail_inverse_temperature(epsilon, delta, **FLAT),
        inverse_temperature(epsilon, delta, **FLAT),
    )
    assert found == pytest.approx((printed, tail, gaussian), abs=5.1e-6)
    assert (found[0] > found[1]) == (epsilon > paper_corollary10_limit(delta))


def test_normal_mean_example() -> None:
    model = {**FLAT, "loss_curvature": 1.0, "n": 100}
    tail = tail_inverse_temperature(1, 1e-5, **model)
    assert tail == pytest.approx(1.0509, abs=5e-5)
    assert float(
        exact_gaussian_delta(1, mp.sqrt(2 * exact_divergence(tail, model)))
    ) == pytest.approx(3.0e-8, rel=0.02)
    # The printed Lipschitz constant, for a mean confined to [−3, 3]: S = 2·(1 + 3).
    confined = tail_inverse_temperature(1, 1e-5, **{**model, "gradient_diameter": 8.0})
    assert confined == pytest.approx(0.0739, abs=5e-5)


def test_sign_under_the_root_of_equation_32() -> None:
    printed = paper_normal_mean_discriminant(0.1, 1e-5, n=10, bound=1, radius=3)
    assert printed == pytest.approx(-0.028, abs=5e-4)
    # With + in place of −, the formula is the tail calibration with S = 2·(bound + radius).
    u, c = tail_budget(0.1, 1e-5), 2 * (1 + 3) ** 2
    corrected = (10 * u + math.sqrt(2 * (10 * u) ** 2 - printed)) / (2 * c)
    model = {**FLAT, "gradient_diameter": 8.0, "loss_curvature": 1.0, "n": 10}
    assert corrected == pytest.approx(tail_inverse_temperature(0.1, 1e-5, **model), rel=1e-9)


# Refusals


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: tail_inverse_temperature(math.nan, 1e-5, **FLAT), "epsilon"),
        (lambda: tail_budget(1, 1), "delta"),
        (lambda: posterior_divergence(-1, **FLAT), "inverse_temperature"),
        (lambda: posterior_tail(0, 1, **FLAT), "epsilon"),
        (lambda: posterior_tail(1, 1, **FLAT, loss_curvature=1), "n=None"),
        (lambda: deviation_tail(0, 1, **FLAT), "deviation"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        call()


def test_a_vanishing_budget_is_zero_not_negative() -> None:
    assert tail_budget(1e-200, 1e-5) == 0.0
