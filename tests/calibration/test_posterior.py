"""Inverse temperatures against 80-digit arithmetic.

Safe side and precision are tested together: the result meets the target exactly, and the result
enlarged by one part in 1e9 does not.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sudare.calibration._posterior import (
    inverse_temperature,
    normal_mean_inverse_temperature,
    normal_mean_variance,
    posterior_mu,
    total_variation_slack,
)
from sudare.foundations.checks import InvalidInput
from sudare.foundations.gaussian import gaussian_mu
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
def test_calibrating_and_accounting_agree(
    epsilon: float, delta: float, model: dict[str, Any]
) -> None:
    beta = inverse_temperature(epsilon, delta, **model)
    mu = posterior_mu(beta, **model)
    assert mu >= mp.sqrt(2 * exact_divergence(mpf(beta), model))
    assert gaussian_mu(epsilon, delta) * (1 - 1e-9) <= mu <= gaussian_mu(epsilon, delta)


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


def test_normal_mean_example() -> None:
    beta = normal_mean_inverse_temperature(1, 1e-5, n=100, bound=1, noise_std=1, prior_std=1)
    assert beta == pytest.approx(1.8062, abs=5e-5)


# Refusals


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: inverse_temperature(0, 1e-5, **FLAT), "epsilon"),
        (lambda: inverse_temperature(1, 0, **FLAT), "delta"),
        (lambda: inverse_temperature(1, 0.1, gradient_diameter=0, prior_curvature=1), "diameter"),
        (lambda: inverse_temperature(1, 0.1, gradient_diameter=1, prior_curvature=0), "prior"),
        (lambda: inverse_temperature(1, 0.1, **FLAT, loss_curvature=-1, n=3), "loss_curvature"),
        (lambda: inverse_temperature(1, 0.1, **FLAT, loss_curvature=1), "n=None"),
        (lambda: inverse_temperature(1, 0.1, **FLAT, n=0), "n=0"),
        (lambda: posterior_mu(0, **FLAT), "inverse_temperature"),
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


def test_a_vanishing_slack_is_zero_not_negative() -> None:
    assert total_variation_slack(700.0, 1e-300) == 0.0
