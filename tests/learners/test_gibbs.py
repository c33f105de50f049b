"""Draws from Gibbs posteriors: the contract, the law end to end, audits, and the budget's parts.

Each distribution test refuses a right law with probability at most 1e-12 (tests/statistical.py);
coins are seeded. The laws are written down here from the recipe's public numbers alone.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from sudare.audit import audit_exact
from sudare.calibration import gaussian_mu, posterior_mu, total_variation_slack
from sudare.foundations.checks import InvalidInput
from sudare.foundations.curves import gaussian_delta
from sudare.foundations.privacy import ApproximateEvent, NearGaussianEvent, account
from sudare.foundations.randomness import seeded
from sudare.foundations.sampling import certified
from sudare.learners import PrivateLogisticRegression, PrivateRidge
from sudare.learners import _gibbs as gibbs
from sudare.learners._gibbs import GibbsRecipe, logistic_gibbs, ridge_gibbs
from sudare.learners._recipe import NoiseTarget
from tests.learners.contract import CHECKS, check_scikit_learn, unchecked
from tests.statistical import fits

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(60, 3))
LABELS = (TABLE[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)
TARGETS = TABLE @ [1.0, 0.5, -0.2]


def logistic(**changes: Any) -> PrivateLogisticRegression:
    plain: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "mechanism": "gibbs", "row_norm": 4.0}
    return PrivateLogisticRegression(**(plain | {"rng": 0} | changes))


def ridge(**changes: Any) -> PrivateRidge:
    plain: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "mechanism": "gibbs", "row_norm": 4.0}
    return PrivateRidge(**(plain | {"target_bound": 3.0, "radius": 2.0, "rng": 0} | changes))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Any) -> None:
    check(logistic, TABLE, LABELS)
    check(ridge, TABLE, TARGETS)


def test_scikit_learns_own_checks() -> None:
    check_scikit_learn(logistic(epsilon=1e9, row_norm=20.0))


def log_density(table: Any, target: Any, recipe: GibbsRecipe, loss: Any, factor: float) -> Any:
    """Of the draw on a line, not normalised: from public numbers, at `factor` times β."""
    x, beta, edge = table[:, 0], recipe.temperature * factor, recipe.certificate

    def at(theta: Any) -> Any:
        total = loss(np.multiply.outer(theta, x), target).sum(axis=-1)
        wall = edge.wall * np.maximum(np.abs(theta) - edge.radius, 0)
        inside = np.abs(theta) <= edge.radius * (1 + 2**-10)
        return np.where(inside, -beta * total - recipe.curvature / 2 * theta**2 - wall, -np.inf)

    return at


def label_loss(scores: Any, signs: Any) -> Any:
    return np.logaddexp(0, -signs * scores)


def squared_loss(scores: Any, heights: Any) -> Any:
    return (scores - heights) ** 2


def distribution(log_value: Any, limit: float) -> Any:
    grid = np.linspace(-limit, limit, 200_001)
    logs = log_value(grid)
    values = np.exp(logs - logs.max())
    reached = np.concatenate([[0.0], np.cumsum(values[1:] + values[:-1])])
    return lambda t: np.interp(t, grid, reached / reached[-1])


LINE = np.repeat([[0.9], [1.0], [-0.3], [0.7]], 20, axis=0)
SIGNS = np.tile([1.0, 1.0, -1.0, 1.0], 20)
HEIGHTS = 0.9 * np.sign(LINE[:, 0])


def cached(patch: pytest.MonkeyPatch) -> None:
    """The centre and envelope of the one table that is fitted again and again."""
    unchecked(patch)
    kept: dict[str, Any] = {}
    for name in ("settle", "radial_envelope"):
        made = getattr(certified, name)
        patch.setattr(
            certified,
            name,
            lambda *a, n=name, f=made: kept.setdefault(n, f(*a) if n not in kept else 0),
        )
    solve = getattr(gibbs, "logistic_in_ball")  # noqa: B009
    patch.setattr(
        gibbs,
        "logistic_in_ball",
        lambda *a: kept.setdefault("s", solve(*a) if "s" not in kept else 0),
    )


def refused(sample: Any, target: Any, recipe: Any, loss: Any, factors: Any) -> list[bool]:
    assert isinstance(recipe, GibbsRecipe)
    laws = (log_density(LINE, target, recipe, loss, factor) for factor in factors)
    return [not fits(sample, distribution(law, recipe.certificate.limit)) for law in laws]


@pytest.mark.parametrize(
    ("epsilon", "radius", "off", "fits_made"),
    [(5.0, 8.0, 1.1, 800), (24.0, 0.5, 1.8, 300)],
    ids=["inside", "deep cut"],
)
def test_logistic_fits_follow_their_law(
    epsilon: float, radius: float, off: float, fits_made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A temperature ten percent off is refused; where the ball cuts deep, one twice as far off."""
    cached(monkeypatch)
    model = PrivateLogisticRegression(
        epsilon,
        delta=1e-3,
        mechanism="gibbs",
        row_norm=1.0,
        radius=radius,
        regularization=100 / 80,
        fit_intercept=False,
        rng=seeded(1),
    )
    sample = np.array([model.fit(LINE, SIGNS).coef_[0, 0] for _ in range(fits_made)])
    factors = (1 / off, 1.0, off)
    assert refused(sample, SIGNS, model.noise_, label_loss, factors) == [True, False, True]


@pytest.mark.parametrize(
    ("epsilon", "radius", "off"), [(5.0, 0.9, 1.1), (24.0, 0.2, 1.8)], ids=["inside", "deep cut"]
)
def test_ridge_fits_follow_their_law(
    epsilon: float, radius: float, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    unchecked(monkeypatch)
    model = PrivateRidge(
        epsilon,
        delta=1e-3,
        mechanism="gibbs",
        row_norm=1.5,
        target_bound=1.0,
        radius=radius,
        regularization=400 / 160,
        fit_intercept=False,
        rng=seeded(1),
    )
    sample = np.array([model.fit(LINE, HEIGHTS).coef_[0] for _ in range(600)])
    factors = (1 / off, 1.0, off)
    assert refused(sample, HEIGHTS, model.noise_, squared_loss, factors) == [True, False, True]


@pytest.mark.parametrize(
    ("epsilon", "delta", "radius", "weight"),
    [(1.0, 1e-5, 0.05, 1e4), (0.3, 1e-3, 0.05, 1e4), (5.0, 1e-6, 0.1, 1e4)],
)
def test_exact_audit_of_the_logistic_draw(
    epsilon: float, delta: float, radius: float, weight: float
) -> None:
    """A row against its opposite, in a small ball, where the loss is nearly linear."""
    recipe = logistic_gibbs(NoiseTarget(epsilon, delta, "gibbs", 2, 1, 1.0), radius, weight)
    assert 1 / math.sqrt(recipe.curvature) < radius / 5

    def found(factor: float) -> Any:
        logs = [
            log_density(np.array([[1.0], [last]]), np.ones(2), recipe, label_loss, factor)
            for last in (1.0, -1.0)
        ]
        return audit(logs, recipe, epsilon, delta)

    nominal = found(1.0)
    assert not nominal.violated
    assert nominal.delta_at_epsilon > 0.5 * delta
    assert found(1.2).violated


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (4.0, 1e-3)])
def test_exact_audit_of_the_ridge_draw(epsilon: float, delta: float) -> None:
    """(1, 1.5) against (1, −1.5): the whole diameter where θ is small."""
    recipe = ridge_gibbs(NoiseTarget(epsilon, delta, "gibbs", 2, 1, 1.5), 1.0, 0.05, 1e5)

    def found(factor: float) -> Any:
        logs = [
            log_density(
                np.array([[0.1], [1.5]]), np.array([1.0, last]), recipe, squared_loss, factor
            )
            for last in (1.0, -1.0)
        ]
        return audit(logs, recipe, epsilon, delta)

    nominal = found(1.0)
    assert not nominal.violated
    assert nominal.delta_at_epsilon > 0.4 * delta
    assert found(1.2).violated


def audit(logs: Any, recipe: GibbsRecipe, epsilon: float, delta: float) -> Any:
    """Both densities normalised here, on twelve deviations around zero."""
    side = min(recipe.certificate.radius, 14 / math.sqrt(recipe.curvature))
    grid = np.linspace(-side, side, 400_001)
    normed = []
    for log in logs:
        top = float(log(grid).max())
        mass = float(np.exp(log(grid) - top).sum() * (grid[1] - grid[0]))
        constant = top + math.log(mass)
        normed.append(lambda t, f=log, c=constant: f(t) - c)
    return audit_exact(*normed, epsilon=epsilon, delta=delta, domain=((-side, side),))


class TestRecipe:
    def recipes(self) -> Any:
        for epsilon, delta in ((0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-9)):
            for n, p in ((20, 2), (400, 31), (100_000, 31)):
                target = NoiseTarget(epsilon, delta, "gibbs", n, p, 1.04)
                for radius in ("auto", None, 3.0):
                    yield logistic_gibbs(target, radius, None)
                yield ridge_gibbs(target, 1.0, 2.0, None)

    def test_the_parts_add_up_to_the_budget(self) -> None:
        """The draw's own curve, the seal, the rounding and the fallback, together."""
        kinds = set()
        for recipe in self.recipes():
            epsilon, delta = recipe.target.epsilon, recipe.target.delta
            certificate = recipe.certificate
            kinds.add(certificate.sampler.split(",")[0] + str(certificate.tries > 0))
            mu = posterior_mu(
                recipe.temperature,
                gradient_diameter=recipe.gradient_diameter,
                prior_curvature=recipe.curvature,
            )
            sealed = recipe.seal.event
            assert isinstance(sealed, NearGaussianEvent)
            distance = certificate.log_ratio + sealed.log_ratio
            whole = math.hypot(mu, sealed.mu)
            own = gaussian_delta((epsilon - 2 * distance) * (1 - 1e-12), whole)
            own *= math.exp(distance)
            lost = (1 + math.exp(epsilon)) * certificate.total_variation
            assert own + lost + (1 + math.exp(epsilon)) * sealed.failure <= delta * (1 + 1e-9)
            # The event says the same, part by part.
            assert recipe.event.mu == pytest.approx(whole, rel=1e-9)
            assert recipe.event.log_ratio == pytest.approx(distance, rel=1e-9)
            assert recipe.event.failure >= certificate.total_variation + sealed.failure
            # And nothing is wasted.
            assert own > 0.85 * delta
            assert mu > 0.98 * gaussian_mu(epsilon, delta)
            assert lost <= 0.1 * delta
            assert certificate.log_ratio < 0.002 * epsilon
            assert recipe.seal.displacement >= certificate.displacement
            assert recipe.seal.noise_std < 1e-4 * recipe.coefficient_std
            if certificate.tries:
                assert certificate.total_variation <= total_variation_slack(epsilon, 0.1 * delta)
        assert kinds == {"exactFalse", "exactTrue"}

    def test_regularization_is_the_prior_s_strength(self) -> None:
        target = NoiseTarget(1.0, 1e-5, "gibbs", 500, 4, 1.0)
        assert logistic_gibbs(target, 5.0, 0.1).curvature == pytest.approx(50.0)
        assert ridge_gibbs(target, 1.0, 2.0, 0.1).curvature == pytest.approx(100.0)

    def test_automatic_strength(self) -> None:
        """Prior and coefficients alike when rows are few; stronger as they become plenty."""
        few = logistic_gibbs(NoiseTarget(1.0, 1e-5, "gibbs", 100, 16, 1.0), "auto", None)
        assert few.curvature == pytest.approx(16 / 4.0**2)
        many = [
            logistic_gibbs(NoiseTarget(1.0, 1e-5, "gibbs", n, 16, 1.0), 8.0, None).curvature
            for n in (10**5, 8 * 10**5)
        ]
        assert many[1] / many[0] == pytest.approx(4.0)
        assert ridge_gibbs(
            NoiseTarget(0.1, 1e-5, "gibbs", 10, 9, 1.0), 1.0, 6.0, None
        ).curvature == pytest.approx(1.0)

    def test_a_huge_ball_if_none_is_wanted(self) -> None:
        target = NoiseTarget(1.0, 1e-5, "gibbs", 500, 4, 1.0)
        free = logistic_gibbs(target, None, 0.01)
        assert free.gradient_diameter == 2.0
        farthest = math.sqrt(2 * 500 * free.temperature * math.log(2) / free.curvature)
        assert free.reach > farthest + 12 / math.sqrt(free.curvature)

    def test_epsilon_beyond_the_largest_counts_as_the_largest(self) -> None:
        one, other = (
            ridge_gibbs(NoiseTarget(e, 1e-5, "gibbs", 50, 2, 1.0), 1.0, 1.0, 0.1)
            for e in (24.0, 1e9)
        )
        assert replace(one, target=other.target) == other

    def test_what_rounding_could_eat_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"larger .*regularization"):
            logistic_gibbs(NoiseTarget(1.0, 1e-5, "gibbs", 10**6, 10, 1.0), "auto", 1e-12)
        with pytest.raises(InvalidInput, match=r"larger .*regularization"):
            ridge_gibbs(NoiseTarget(1e-3, 1e-5, "gibbs", 10**9, 10, 1.0), 1.0, 10.0, 1e-12)
        with pytest.raises(InvalidInput, match=r"could take hours|larger"):
            logistic_gibbs(NoiseTarget(1.0, 1e-5, "gibbs", 10**6, 300, 1.0), "auto", 1e-9)


class TestRefused:
    def test_without_delta(self) -> None:
        for learner, target in ((logistic, LABELS), (ridge, TARGETS)):
            with pytest.raises(InvalidInput, match=r"delta > 0 .*no pure guarantee"):
                learner(delta=0.0).fit(TABLE, target)

    def test_without_a_prior(self) -> None:
        for learner, target in ((logistic, LABELS), (ridge, TARGETS)):
            with pytest.raises(InvalidInput, match=r"regularization > 0 .*strength of the prior"):
                learner(regularization=0.0).fit(TABLE, target)
            with pytest.raises(InvalidInput, match="regularization"):
                learner(regularization=-1.0).fit(TABLE, target)

    def test_before_a_row_is_read(self) -> None:
        """What cannot be promised is refused by sizes alone."""
        hard = logistic(regularization=1e-12)
        for table in (TABLE, np.zeros_like(TABLE)):
            with pytest.raises(InvalidInput, match="larger regularization"):
                hard.fit(table, LABELS)


class TestFit:
    def test_event(self) -> None:
        fitted = logistic().fit(TABLE, LABELS)
        assert fitted.event_ == fitted.noise_.event
        assert fitted.guarantee_.epsilon() == pytest.approx(2.0, rel=1e-4)
        assert logistic().plan() == ApproximateEvent(2.0, 1e-5)

    def test_draws_add_up_like_gaussian_noise(self) -> None:
        """Twelve draws of (0.5, 1e-6) are not 6, nor what advanced composition makes of them."""
        event = logistic(epsilon=0.5, delta=1e-6).plan_for(500, 3)
        assert account([event] * 12, 1e-6).epsilon() == pytest.approx(1.9, abs=0.05)
        assert account([event] * 12, 12e-6).epsilon() == pytest.approx(1.67, abs=0.05)

    @pytest.mark.parametrize("epsilon", [0.1, 24.0])
    def test_every_kind_of_table_ends(self, epsilon: float) -> None:
        """Separable, constant, empty and single rows, outliers; small balls and none."""
        sparse = np.zeros((30, 3))
        sparse[0] = 1e300
        for table in (np.ones((2, 1)), np.zeros((5, 3)), np.vstack([np.eye(3)] * 9) * 1e6, sparse):
            labels = np.arange(len(table)) % 2
            for radius in ("auto", None, 0.01):
                fitted = logistic(epsilon=epsilon, radius=radius).fit(table, labels)
                norm = float(np.linalg.norm(fitted.sealed_.values))
                assert norm <= fitted.noise_.reach + 60 * fitted.noise_.seal.noise_std
            for radius in (0.01, 100.0):
                drawn = ridge(epsilon=epsilon, radius=radius).fit(table, labels * 7.0)
                assert np.isfinite(drawn.coef_).all()

    def test_more_budget_is_nearer_to_the_minimiser(self) -> None:
        rows = RNG.normal(size=(4000, 2)) / 2
        labels = (RNG.random(4000) < expit(3 * rows[:, 0])).astype(int)
        gaps = []
        for epsilon in (0.2, 20.0):
            thetas = [
                logistic(epsilon=epsilon, row_norm=1.0, fit_intercept=False, rng=seed)
                .fit(rows, labels)
                .coef_[0]
                for seed in range(20)
            ]
            gaps.append(np.mean(np.linalg.norm(np.array(thetas) - [3.0, 0.0], axis=1)))
        assert gaps[1] < gaps[0] / 2

    def test_nothing_tells_how_it_was_sampled(self) -> None:
        """The public part says what could be; which it was is nowhere."""
        fitted = logistic().fit(TABLE, LABELS)
        assert isinstance(fitted.noise_, GibbsRecipe)
        assert fitted.noise_.sampler == fitted.noise_.certificate.sampler
        told = {**vars(fitted), **vars(fitted.noise_)}
        assert not any(
            value in ("radial", "proximal") for value in told.values() if isinstance(value, str)
        )
