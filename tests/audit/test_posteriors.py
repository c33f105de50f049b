"""Posteriors on a line: the normal mean's calibration is tight, the printed corollary is false."""

import math
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from sudare.audit import ExactFinding, audit_exact, catalogue
from sudare.audit._posteriors import lipschitz_pair, normal_mean
from sudare.calibration import (
    inverse_temperature,
    normal_mean_inverse_temperature,
    normal_mean_variance,
    posterior_mu,
)
from sudare.foundations.curves import gaussian_delta

LINE = ((-math.inf, math.inf),)
MODELS = [
    # ε, δ, n, bound, noise_std, prior_std, sum of the other rows
    (1.0, 1e-5, 100, 1.0, 1.0, 1.0, 0.0),
    (1.0, 1e-5, 100, 1.0, 1.0, 1.0, 99.0),
    (0.1, 1e-3, 1, 2.0, 0.5, 3.0, 0.0),
    (3.0, 1e-6, 10, 0.2, 1.5, 0.1, -1.0),
    (1.0, 0.2, 10_000, 5.0, 1.0, 1.0, 123.0),
]


def audited(factor: float, model: tuple[float, float, int, float, float, float, float]):
    epsilon, delta, n, bound, noise_std, prior_std, rest = model
    beta = factor * normal_mean_inverse_temperature(
        epsilon, delta, n=n, bound=bound, noise_std=noise_std, prior_std=prior_std
    )
    first, second = (
        normal_mean(rest + row, beta, n=n, noise_std=noise_std, prior_std=prior_std)
        for row in (-bound, bound)
    )
    return audit_exact(first, second, epsilon=epsilon, delta=delta, domain=LINE)


@pytest.mark.parametrize("model", MODELS)
def test_normal_mean_uses_up_its_delta_and_no_more(model):
    delta = model[1]
    at_limit, beyond = audited(1.0, model), audited(1.01, model)
    assert at_limit.delta_at_epsilon == pytest.approx(delta, rel=1e-6)
    assert at_limit.integration_error < 1e-6 * delta
    assert not at_limit.violated
    assert beyond.violated
    assert beyond.delta_at_epsilon > 1.01 * delta
    assert audited(0.99, model).delta_at_epsilon < 0.99 * delta


def test_normal_mean_density_is_prior_times_tempered_likelihood():
    rows, beta, noise_std, prior_std = np.array([1.0, -0.5, 0.25]), 0.7, 1.5, 2.0
    theta = np.linspace(-3, 3, 7)
    found = normal_mean(rows.sum(), beta, n=3, noise_std=noise_std, prior_std=prior_std)(theta)
    fit = ((rows - theta[:, None]) ** 2).sum(axis=1) / (2 * noise_std**2)
    expected = -(theta**2) / (2 * prior_std**2) - beta * fit
    assert np.ptp(found - expected) < 1e-12
    variance = normal_mean_variance(beta, n=3, noise_std=noise_std, prior_std=prior_std)
    grid = np.linspace(-12, 12, 20_001) * math.sqrt(variance)
    law = normal_mean(0.0, beta, n=3, noise_std=noise_std, prior_std=prior_std)
    assert np.trapezoid(np.exp(law(grid)), grid) == pytest.approx(1.0, abs=1e-9)


def test_lipschitz_pair_is_the_posterior_of_one_row():
    """Against the definition in forty digits; the loss is smooth, convex and 1-Lipschitz."""
    beta = 0.6
    first, second = lipschitz_pair(beta)
    with mp.workdps(40):
        for law, x in ((first, -1000), (second, 1000)):

            def potential(theta, x=x):
                return beta * mp.sqrt(1 + (mpf(theta) - x) ** 2) + mpf(theta) ** 2 / 8

            base = potential(0)
            total = mp.quad(lambda t: mp.exp(base - potential(t)), [-40, -10, 0, 10, 40])  # noqa: B023
            for theta in (-7.0, 0.0, 0.3, 5.5):
                expected = base - potential(theta) - mp.log(total)
                assert law(np.array([theta]))[0] == pytest.approx(float(expected), abs=1e-11)


def test_lipschitz_pair_attains_the_gaussian_guarantee():
    model: Any = {"gradient_diameter": 2.0, "prior_curvature": 0.25}
    beta = inverse_temperature(2.0, 1e-4, **model)
    at_limit, beyond = (
        audit_exact(*lipschitz_pair(f * beta), epsilon=2.0, delta=1e-4, domain=LINE)
        for f in (1.0, 1.001)
    )
    assert at_limit.delta_at_epsilon == pytest.approx(1e-4, rel=1e-4)
    assert not at_limit.violated
    assert beyond.violated
    expected = gaussian_delta(2.0, posterior_mu(1.001 * beta, **model))
    assert beyond.delta_at_epsilon == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "printed", "needed"),
    [
        ("gibbs-paper-temperature", 1e-5, 1.68e-5),
        ("gibbs-paper-failure-rate", math.exp(-1.5), 0.3826),
    ],
)
def test_printed_corollary_needs_more_delta_than_it_claims(name, printed, needed):
    finding = catalogue()[name].run()
    assert isinstance(finding, ExactFinding)
    assert finding.delta == pytest.approx(printed, rel=1e-12)
    assert finding.delta_at_epsilon == pytest.approx(needed, rel=2e-3)
    assert finding.violated


def test_the_corrected_failure_rate_is_the_supremum():
    """As β approaches the corollary's limit, so does what it needs."""
    limit = gaussian_delta(5.0, math.sqrt(10))
    needed = [
        audit_exact(
            *lipschitz_pair(share * math.sqrt(0.25 * 5 / 2)), epsilon=5.0, domain=LINE
        ).delta_at_epsilon
        for share in (0.9, 0.99, 0.9999)
    ]
    assert needed == sorted(needed)
    assert 0.999 * limit < needed[-1] < limit
