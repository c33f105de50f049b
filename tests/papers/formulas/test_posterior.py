"""Printed formulas: what they say, where they warn, and how far the ones in use are ahead."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from papers.formulas.posterior import (
    PrivacyWarning,
    paper_corollary10_delta,
    paper_corollary10_inverse_temperature,
    paper_corollary10_limit,
    paper_logistic_inverse_temperature,
    paper_normal_mean_discriminant,
    paper_normal_mean_inverse_temperature,
    paper_theorem9_divergence,
    posterior_divergence,
)
from sudare.calibration._posterior import inverse_temperature, normal_mean_inverse_temperature
from sudare.foundations.checks import InvalidInput

UNIT: dict[str, Any] = {"lipschitz": 1.0, "prior_curvature": 1.0}


def warns(call: Callable[[], object]) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(issubclass(one.category, PrivacyWarning) for one in caught)
    # The warning points at the caller, so that it is shown once a place.
    assert all(one.filename == __file__ for one in caught)
    return bool(caught)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 8.0, 10.0, 30.0])
def test_corollary_10_warns_exactly_where_it_exceeds_what_is_proved(
    epsilon: float, delta: float
) -> None:
    printed: list[float] = []
    warned = warns(
        lambda: printed.append(paper_corollary10_inverse_temperature(epsilon, delta, **UNIT))
    )
    proved = inverse_temperature(epsilon, delta, gradient_diameter=2.0, prior_curvature=1.0)
    assert warned == (printed[0] > proved) == (epsilon >= 10)


@pytest.mark.parametrize(("epsilon", "warned"), [(0.1, False), (3.10, False), (3.11, True)])
def test_corollary_10_first_part_warns_beyond_3_105(epsilon: float, warned: bool) -> None:
    assert warns(lambda: paper_corollary10_delta(epsilon)) is warned


def test_equation_27_forgets_the_intercept() -> None:
    model: dict[str, Any] = {"n": 1000, "regularization": 0.01}
    assert warns(lambda: paper_logistic_inverse_temperature(1.0, 1e-5, row_norm=1.0, **model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = paper_logistic_inverse_temperature(1.0, 1e-5, row_norm=2.0, **model)
    # At R = 2 the gain of the Gaussian guarantee (1.31) outweighs the missing √5/2 = 1.118.
    proved = inverse_temperature(
        1.0, 1e-5, gradient_diameter=2 * math.sqrt(5.0), prior_curvature=10.0
    )
    assert proved / wide == pytest.approx(0.13403 / 0.10201 * 2 / math.sqrt(5), rel=1e-4)


def test_theorem_9_without_its_constant() -> None:
    model: dict[str, Any] = {"prior_curvature": 2.0, "loss_curvature": 0.5, "n": 40}
    for alpha in (1.01, 2.0, 50.0):
        widening = 1 + math.log(alpha**2 / (alpha**2 - 1))
        printed = paper_theorem9_divergence(0.3, lipschitz=1.5, alpha=alpha, constant=1.0, **model)
        ours = posterior_divergence(0.3, gradient_diameter=3.0, **model)
        assert printed / ours == pytest.approx(widening, rel=1e-9)
    assert ours == pytest.approx(2 * 1.5**2 * 0.3**2 / (40 * 0.5 * 0.3 + 2), rel=1e-12)


def test_equation_32_is_small_where_it_is_a_number() -> None:
    printed = paper_normal_mean_inverse_temperature(1, 1e-5, n=1000, bound=1, radius=3)
    proved = normal_mean_inverse_temperature(1, 1e-5, n=1000, bound=1, noise_std=1, prior_std=1)
    assert 10 < proved / printed < 40
    assert paper_normal_mean_discriminant(0.1, 1e-5, n=10, bound=1, radius=3) < 0
    with pytest.raises(InvalidInput, match="equation 32"):
        paper_normal_mean_inverse_temperature(0.1, 1e-5, n=10, bound=1, radius=3)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: paper_corollary10_delta(math.inf), "epsilon"),
        (lambda: paper_corollary10_limit(0), "delta"),
        (lambda: paper_corollary10_inverse_temperature(1, 1, **UNIT), "delta"),
        (
            lambda: paper_corollary10_inverse_temperature(1, 0.1, lipschitz=0, prior_curvature=1),
            "lipschitz",
        ),
        (
            lambda: paper_logistic_inverse_temperature(1, 0.1, n=5, row_norm=1, regularization=0),
            "regularization",
        ),
        (
            lambda: paper_theorem9_divergence(
                1, n=5, **UNIT, loss_curvature=1, alpha=1.0, constant=1
            ),
            "alpha",
        ),
        (
            lambda: paper_theorem9_divergence(
                1, n=5, **UNIT, loss_curvature=0, alpha=2.0, constant=1
            ),
            "loss_curvature",
        ),
        (lambda: paper_normal_mean_discriminant(1, 0.1, n=1, bound=1, radius=-1), "radius"),
        (lambda: paper_normal_mean_inverse_temperature(1, 0.1, n=0, bound=1, radius=1), "n=0"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        call()
