"""Inverse temperatures against 80-digit arithmetic, and the printed corollaries where they fail.

Safe side and precision are tested together: the result meets the target exactly, and the result
enlarged by one part in 1e9 does not.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from sudare.calibration.gaussian import gaussian_mu
from sudare.calibration.posterior import (
    deviation_tail,
    inverse_temperature,
    normal_mean_inverse_temperature,
    normal_mean_variance,
    posterior_divergence,
    posterior_mu,
    posterior_tail,
    tail_budget,
    tail_inverse_temperature,
    total_variation_slack,
)
from sudare.calibration.posterior_papers import (
    PrivacyWarning,
    paper_corollary10_delta,
    paper_corollary10_inverse_temperature,
    paper_corollary10_limit,
    paper_corollary10_true_delta,
    paper_normal_mean_discriminant,
)
from sudare.checks import InvalidInput
from tests.support.strategies import spread

MORE = 1 + mpf(10) ** -9

repeatable = settings(derandomize=True, deadline=None, max_examples=100)


@pytest.fixture(autouse=True, scope="module")
def eighty_digits() -> Iterator[None]:
    with mp.workdps(80):
        yield


EPSILONS = spread(1e-4, 50)
DELTA = spread(1e-60, 0.3)
MODELS = st.fixed_dictionaries(
    {
        "gradient_diameter": spread(1e-3, 1e3),
        "prior_curvature": spread(1e-6, 1e6),
        "loss_curvature": st.one_of(st.just(0.0), spread(1e-6, 1e3)),
        "n": st.integers(1, 10**7),
    }
)
FLAT: dict[str, Any] = {"gradient_diameter": 2.0, "prior_curvature": 1.0}


def exact_gaussian_delta(epsilon: Any, mu: Any) -> Any:
    epsilon, mu = mpf(epsilon), mpf(mu)

    def upper(x: Any) -> Any:
        return mp.erfc(x / mp.sqrt(2)) / 2

    return upper(epsilon / mu - mu / 2) - mp.exp(epsilon) * upper(epsilon / mu + mu / 2)


def exact_divergence(beta: Any, model: dict[str, Any]) -> Any:
    """D = (βS)²/(2m), the exponent both guarantees are made of."""
    m = mpf(model["prior_curvature"])
    m += model.get("n", 0) * mpf(model.get("loss_curvature", 0)) * beta
    return (mpf(beta) * mpf(model["gradient_diameter"])) ** 2 / (2 * m)


def exact_tail(epsilon: Any, divergence: Any) -> Any:
    """Minami's bound, which says nothing once D reaches ε."""
    if divergence >= epsilon:
        return mpf(1)
    return mp.exp(-((mpf(epsilon) - divergence) ** 2) / (4 * divergence))


@repeatable
@given(EPSILONS, DELTA, MODELS)
@example(1e-4, 1e-60, {**FLAT, "loss_curvature": 0.0, "n": 1})
@example(50.0, 0.3, {**FLAT, "loss_curvature": 1.0, "n": 10**7})
@example(1e-4, 0.3, {**FLAT, "loss_curvature": 0.0, "n": 1})
@example(50.0, 1e-60, {**FLAT, "prior_curvature": 0.0, "loss_curvature": 1.0, "n": 10})
def test_gaussian_temperature_is_the_largest_allowed(
    epsilon: float, delta: float, model: dict[str, Any]
) -> None:
    beta = mpf(inverse_temperature(epsilon, delta, **model))
    mu, more = (mp.sqrt(2 * exact_divergence(b, model)) for b in (beta, beta * MORE))
    assert exact_gaussian_delta(epsilon, mu) <= delta
    assert exact_gaussian_delta(epsilon, more) > delta


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
@given(EPSILONS, DELTA, MODELS)
def test_calibrating_and_accounting_agree(
    epsilon: float, delta: float, model: dict[str, Any]
) -> None:
    beta = inverse_temperature(epsilon, delta, **model)
    mu = posterior_mu(beta, **model)
    assert mu >= mp.sqrt(2 * exact_divergence(mpf(beta), model))
    assert gaussian_mu(epsilon, delta) * (1 - 1e-9) <= mu <= gaussian_mu(epsilon, delta)


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


@repeatable
@given(
    EPSILONS,
    DELTA,
    st.integers(1, 10**6),
    spread(1e-2, 1e2),
    spread(1e-2, 1e2),
    spread(1e-2, 1e2),
)
def test_normal_mean_is_exactly_tight(
    epsilon: float, delta: float, n: int, bound: float, noise_std: float, prior_std: float
) -> None:
    shape: dict[str, Any] = {"n": n, "noise_std": noise_std, "prior_std": prior_std}
    beta = normal_mean_inverse_temperature(epsilon, delta, bound=bound, **shape)
    variance = normal_mean_variance(beta, **shape)
    exact = 1 / (n * mpf(beta) / mpf(noise_std) ** 2 + 1 / mpf(prior_std) ** 2)
    assert exact <= variance <= exact * MORE
    # The mean moves by 2·bound·β·v/noise_std² when a row goes from one end to the other.
    shift = 2 * mpf(bound) * mpf(beta) * mpf(variance) / mpf(noise_std) ** 2
    assert exact_gaussian_delta(epsilon, shift / mp.sqrt(variance)) <= delta
    assert exact_gaussian_delta(epsilon, shift / mp.sqrt(variance) * MORE) > delta


def test_normal_mean_posterior_by_completing_the_square() -> None:
    """The law the docstring states is ∝ prior · likelihood^β, for rows and a neighbour."""
    beta, noise_std, prior_std, rows = 0.7, 1.5, 2.0, (1.0, -0.5, 0.25)
    v = normal_mean_variance(beta, n=3, noise_std=noise_std, prior_std=prior_std)
    mean = beta * sum(rows) * v / noise_std**2

    def log_density(theta: float) -> float:
        fit = sum((x - theta) ** 2 for x in rows) / (2 * noise_std**2)
        return -(theta**2) / (2 * prior_std**2) - beta * fit

    for theta in (-3.0, 0.1, 2.0):
        kernel = -((theta - mean) ** 2) / (2 * v) + mean**2 / (2 * v)
        assert kernel == pytest.approx(log_density(theta) - log_density(0.0), abs=1e-12)


@repeatable
@given(EPSILONS, DELTA)
@example(50.0, 1e-60)
@example(50.0, 1e-300)
def test_total_variation_slack_is_the_largest(epsilon: float, delta: float) -> None:
    gamma = mpf(total_variation_slack(epsilon, delta))
    assert gamma * (1 + mp.exp(epsilon)) <= delta
    if gamma > 1e-290:
        assert gamma * MORE * (1 + mp.exp(epsilon)) > delta


def test_more_rows_and_more_curvature_allow_a_colder_posterior() -> None:
    betas = [
        inverse_temperature(1.0, 1e-5, n=n, loss_curvature=0.5, **FLAT) for n in (1, 10, 100, 1000)
    ]
    assert betas == sorted(betas)
    assert betas[0] < betas[-1] / 10
    assert inverse_temperature(1.0, 1e-5, **FLAT) < betas[0]


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
    beta = normal_mean_inverse_temperature(1, 1e-5, n=100, bound=1, noise_std=1, prior_std=1)
    assert beta == pytest.approx(1.8062, abs=5e-5)
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
        (lambda: inverse_temperature(0, 1e-5, **FLAT), "epsilon"),
        (lambda: inverse_temperature(1, 0, **FLAT), "delta"),
        (lambda: tail_inverse_temperature(math.nan, 1e-5, **FLAT), "epsilon"),
        (lambda: tail_budget(1, 1), "delta"),
        (lambda: inverse_temperature(1, 0.1, gradient_diameter=0, prior_curvature=1), "diameter"),
        (lambda: inverse_temperature(1, 0.1, gradient_diameter=1, prior_curvature=0), "prior"),
        (lambda: inverse_temperature(1, 0.1, **FLAT, loss_curvature=-1, n=3), "loss_curvature"),
        (lambda: inverse_temperature(1, 0.1, **FLAT, loss_curvature=1), "n=None"),
        (lambda: inverse_temperature(1, 0.1, **FLAT, n=0), "n=0"),
        (lambda: posterior_mu(0, **FLAT), "inverse_temperature"),
        (lambda: posterior_divergence(-1, **FLAT), "inverse_temperature"),
        (lambda: posterior_tail(0, 1, **FLAT), "epsilon"),
        (lambda: posterior_tail(1, 1, **FLAT, loss_curvature=1), "n=None"),
        (lambda: deviation_tail(0, 1, **FLAT), "deviation"),
        (lambda: total_variation_slack(1, 0), "delta"),
        (lambda: total_variation_slack(-1, 0.1), "epsilon"),
        (
            lambda: normal_mean_inverse_temperature(1, 0.1, n=5, bound=0, noise_std=1, prior_std=1),
            "bound",
        ),
        (lambda: normal_mean_variance(1, n=True, noise_std=1, prior_std=1), "n="),
        (
            lambda: inverse_temperature(1, 0.1, gradient_diameter=1e-200, prior_curvature=1e300),
            "finite",
        ),
        (
            lambda: inverse_temperature(1, 1e-5, gradient_diameter=1e300, prior_curvature=1e-300),
            "finite",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        call()


def test_a_vanishing_budget_is_zero_not_negative() -> None:
    assert tail_budget(1e-200, 1e-5) == 0.0
    assert total_variation_slack(700.0, 1e-300) == 0.0
