"""Sites that differ: the mean over them, its interval, and what is told of it."""

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from sudare.estimation import estimate_sites
from sudare.estimation._sites import combine
from sudare.foundations import checks
from sudare.foundations.privacy import GaussianEvent
from sudare.foundations.randomness import Generator, seeded
from sudare.releases import MomentsRelease
from sudare.study import Study, parse_study
from tests.statistical import rate_at_least, rate_at_most

Array = NDArray[np.float64]
STUDY = """
name = "stays"
[columns.age]
low = 20
high = 90
centre = 48
[columns.sex]
categories = ["f", "m"]
[target]
column = "days"
low = -20
high = 60
[privacy]
epsilon = 1.0
delta = 1e-6
"""


def study() -> Study:
    return parse_study(STUDY)


def site(name: str, n: int, beta: Array, noise_std: float, rng: Generator) -> MomentsRelease:
    """A release of n rows with days = β₀·age + β₁·male + β₂."""
    agreed = study()
    age, male = rng.uniform(20, 90, n), (rng.random(n) < 0.5) * 1.0
    days = beta[0] * age + beta[1] * male + beta[2] + rng.normal(0, 5, n)
    y = (days - agreed.target_middle) / agreed.target_reach
    features = agreed.features
    table = np.column_stack(
        [(v - f.centre) / f.scale for v, f in zip((age, male), features, strict=True)]
    )
    rows = agreed.contract.rows(table) / agreed.contract.full_norm
    noise = noise_std * rng.standard_normal((3, 3))
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.sqrt(2) * np.diag(np.diag(noise))
    gram = rows.T @ rows + noise
    return MomentsRelease(
        party=name,
        contract=agreed.contract,
        n=n,
        event=GaussianEvent(0.5),
        noise_std=noise_std,
        cross=tuple((y @ rows + noise_std * rng.standard_normal(3)).tolist()),
        gram=tuple(gram[np.triu_indices(3)].tolist()),
        simulated=True,
    )


def test_the_spread_between_sites_is_restricted_maximum_likelihood() -> None:
    rng = seeded(1)
    for _ in range(20):
        variances = rng.uniform(0.01, 0.5, 7)
        values = rng.normal(3, np.sqrt(variances + 0.4))
        found = combine(values, variances)

        def loss(tau2: float, values: Array = values, variances: Array = variances) -> float:
            """The textbook form, with matrices."""
            design, inverse = np.ones((7, 1)), np.diag(1 / (variances + tau2))
            information = design.T @ inverse @ design
            projected = inverse - inverse @ design @ np.linalg.inv(information) @ design.T @ inverse
            log_det = np.log(variances + tau2).sum() + np.linalg.slogdet(information)[1]
            return float(log_det + values @ projected @ values)

        best = optimize.minimize_scalar(loss, bounds=(0, 20), method="bounded",
                                        options={"xatol": 1e-10})  # fmt: skip
        assert loss(found.between) <= min(best.fun, loss(0.0)) + 1e-7
        weights = 1 / (variances + found.between)
        mean = weights @ values / weights.sum()
        assert found.mean == pytest.approx(mean)
        spread = weights @ (values - mean) ** 2 / (6 * weights.sum())
        assert found.variance == pytest.approx(spread)
        assert found.weights.sum() == pytest.approx(1)


def test_sites_that_are_alike_have_nothing_between_them() -> None:
    values, variances = np.array([1.0, 1.1, 0.9, 1.02]), np.full(4, 0.3)
    assert combine(values, variances).between == 0.0


def test_the_mean_over_sites_is_held_and_a_fixed_effect_is_not() -> None:
    """2,000 draws of eight sites that differ by twice what each does not know."""
    rng, held, fixed = seeded(2), 0, 0
    quantile, normal = stats.t(7).ppf(0.975), stats.norm.ppf(0.975)
    for _ in range(2000):
        variances = rng.uniform(0.02, 0.2, 8)
        values = 2.0 + 0.6 * rng.standard_normal(8) + np.sqrt(variances) * rng.standard_normal(8)
        found = combine(values, variances)
        held += abs(found.mean - 2.0) <= quantile * np.sqrt(found.variance)
        weights = 1 / variances
        mean = weights @ values / weights.sum()
        fixed += abs(mean - 2.0) <= normal / np.sqrt(weights.sum())
    assert rate_at_least(held, 2000) < 0.95 < rate_at_most(held, 2000)
    assert held / 2000 > 0.93
    assert rate_at_most(fixed, 2000) < 0.7


def test_a_model_of_sites_is_in_the_studys_units() -> None:
    rng, truth = seeded(3), np.array([0.2, 6.0, 3.0])
    between = np.array([0.02, 1.0, 0.5])
    sites = [
        site(f"S{k}", 3000 + 200 * k, truth + between * rng.standard_normal(3), 2.0, rng)
        for k in range(12)
    ]
    model = estimate_sites(sites, study(), level=0.9)
    assert [each.term.name for each in model.coefficients] == ["age", "sex=m", "intercept"]
    assert model.n == sum(each.n for each in sites)
    assert model.sites is not None
    assert model.between_deviations is not None
    for place, found in enumerate(model.coefficients):
        value, _, high = found.numbers
        assert value == pytest.approx(truth[place], abs=4 * between[place])
        some = model.sites[place]
        values = np.array([each.coefficient.estimate for each in some], float)
        weights = np.array([each.weight for each in some])
        assert weights.sum() == pytest.approx(1)
        assert value == pytest.approx(weights @ values)
        std = np.sqrt(weights @ (values - value) ** 2 / 11)
        assert found.std_error == pytest.approx(std)
        assert high - value == pytest.approx(stats.t(11).ppf(0.95) * std)
        assert found.p == pytest.approx(2 * stats.t(11).sf(abs(value) / std))
    assert model.bounded
    assert any("squares of the target" in note for note in model.notes)


def test_a_site_that_tells_nothing_does_not_count_and_three_must() -> None:
    rng, truth = seeded(4), np.array([0.2, 6.0, 3.0])
    sites = [site(f"S{k}", 4000, truth, 2.0, rng) for k in range(3)]
    loud = site("loud", 4000, truth, 500.0, rng)
    model = estimate_sites([*sites, loud], study())
    assert model.sites is not None
    assert all(each.told for each in model.coefficients)
    for one in model.sites:
        last = one[-1]
        assert (last.name, last.coefficient.told, last.weight) == ("loud", False, 0.0)
    few = estimate_sites([*sites[:2], loud], study())
    assert not any(each.told for each in few.coefficients)
    assert "hides something in 1 of 3 sites" in few.coefficients[0].reason
    assert few.between_deviations == (None, None, None)


def test_two_sites_or_one_twice_are_refused() -> None:
    rng, truth = seeded(5), np.array([0.2, 6.0, 3.0])
    sites = [site(f"S{k}", 400, truth, 2.0, rng) for k in range(3)]
    with pytest.raises(checks.InvalidInput, match="at least 3"):
        estimate_sites(sites[:2], study())
    with pytest.raises(checks.InvalidInput, match="once"):
        estimate_sites([*sites, msgspec.structs.replace(sites[0], n=401)], study())
