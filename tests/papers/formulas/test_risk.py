"""The risk of a blend, term by term: worked examples, fifty digits and simulation."""

from typing import Any

import mpmath
import pytest

from papers.formulas.risk import generalisation_gap, risk_bound, stability
from sudare.blending._losses import theory_temperature
from sudare.blending._theory import privacy_cost
from sudare.calibration import ridge_gradient_bound, ridge_gradient_diameter, ridge_objective
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded


def test_terms_of_the_worked_example() -> None:
    """ε = 1, 2,000 rows a party, ten parties, 200 own rows, three columns, λ = 0.01.

    Rows, targets and coefficients up to 1, compared with coefficients of length ½.
    """
    n, p, lam, bounds = 2_000, 3, 0.01, {"row_norm": 1.0, "target_bound": 1.0, "radius": 1.0}
    noise = ridge_objective(1.0, 0.0, n=n, dimension=p, regularization=lam, **bounds)
    gamma = stability(
        ridge_gradient_bound(**bounds),
        ridge_gradient_diameter(dimension=p, **bounds),
        noise.curvature,
    )
    cost = privacy_cost(
        law="gamma",
        scale=noise.scale,
        curvature=noise.curvature,
        extra_curvature=noise.extra_regularization,
        radius=1.0,
        dimension=p,
        n=n,
    )
    got = risk_bound(
        loss="squared",
        regularization=lam,
        comparison_norm=0.5,
        generalisation=gamma,
        privacy=cost,
        temperature=theory_temperature("squared", bound=1.0, learners=10, rows=200),
        learners=10,
        rows=200,
    )
    assert got.bias == pytest.approx(0.0025)
    assert got.generalisation == pytest.approx(0.52, abs=0.005)
    assert got.privacy == pytest.approx(0.0022, abs=0.00005)
    assert got.aggregation == pytest.approx(0.0916, abs=0.0001)
    assert got.total == pytest.approx(0.0025 + gamma + cost + got.aggregation)
    logistic = risk_bound(
        loss="logistic",
        regularization=lam,
        comparison_norm=0.5,
        generalisation=0.0,
        privacy=0.0,
        temperature=1.0,
        learners=1,
        rows=0,
    )
    assert logistic.total == pytest.approx(0.00125)


def test_stability_and_high_probability_term_with_fifty_digits() -> None:
    assert stability(2.0, 3.0, 60.0) == pytest.approx(0.1)
    with mpmath.workdps(50):
        n, gamma, bound, alpha = 300, mpmath.mpf("0.001"), mpmath.mpf(4), mpmath.mpf("0.05")
        exact = gamma + (2 * n * gamma + bound) * mpmath.sqrt(mpmath.log(1 / alpha) / (2 * n))
    assert generalisation_gap(0.001, 4.0, 300, 0.05) == pytest.approx(float(exact), rel=1e-14)


def test_stability_bounds_what_one_row_does() -> None:
    """Ridge on the line: replacing a row moves no record's loss by more than ζS/κ."""
    kappa, n, radius = 40.0, 8, 0.3
    rng = seeded(2)
    allowed = stability(
        ridge_gradient_bound(row_norm=1.0, target_bound=1.0, radius=radius),
        ridge_gradient_diameter(dimension=1, row_norm=1.0, target_bound=1.0, radius=radius),
        kappa,
    )
    worst = 0.0
    for _ in range(2_000):
        x, y = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)
        x[0], y[0] = 1.0, 1.0
        turned = y.copy()
        turned[0] = -1.0
        theta, other = (2 * float(x @ t) / (2 * float(x @ x) + kappa) for t in (y, turned))
        assert max(abs(theta), abs(other)) < radius
        moved = max(abs((sign - theta) ** 2 - (sign - other) ** 2) for sign in (-1, 1))
        worst = max(worst, moved)
    assert 0.6 * allowed < worst <= allowed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stability(1.0, 1.0, 0.0), "curvature=0.0 > 0"),
        (lambda: generalisation_gap(0.1, 1.0, 10, 1.0), r"alpha=1.0 in \(0, 1\)"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()
