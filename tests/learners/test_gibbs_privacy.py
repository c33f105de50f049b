"""Attacks on the Gibbs draws: tables that must not hang, warn or fail, and pairs that tell most.

An endless loop, a warning and an exception are outputs too: none may depend on the rows.
"""

import math
import warnings
from typing import Any

import numpy as np
import pytest

from sudare.foundations.curves import gaussian_delta
from sudare.foundations.randomness import seeded
from sudare.foundations.sampling import LogisticPosterior, centre, logconcave, settle
from sudare.learners import PrivateLogisticRegression, PrivateRidge
from sudare.learners import _gibbs as module
from sudare.learners._gibbs import logistic_gibbs, ridge_gibbs
from sudare.learners._recipe import NoiseTarget


@pytest.mark.parametrize(("strength", "radius"), [(1.0, 1.0), (100.0, 0.1)])
def test_a_strong_pull_settles(
    strength: float, radius: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that all push outward: near the mode is on either side of the edge, at every pull."""
    n, tried = 100_000, []
    recipe = logistic_gibbs(NoiseTarget(24.0, 1e-3, "gibbs", n, 1, 1.0), radius, strength)
    find = getattr(centre, "_mode")  # noqa: B009

    def counted(model: Any, pull: float) -> Any:
        tried.append(pull)
        assert len(tried) < 100, "no pull will do"
        return find(model, pull)

    monkeypatch.setattr(centre, "_mode", counted)
    target = LogisticPosterior(
        np.ones((n, 1)), recipe.temperature, recipe.curvature, radius, recipe.certificate.wall
    )
    where, pull = settle(target)
    assert abs(where[0]) <= radius
    assert pull / 2 * (radius**2 - where[0] ** 2) <= 2


def test_pieces_of_hardly_any_mass_are_never_drawn_and_say_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        race = getattr(logconcave, "_race")  # noqa: B009
        assert (race(np.array([5e-324, 1.0, 0.0]), 2_000, seeded(0)) == 1).all()


def tables(rng: Any, n: int, p: int, norm: float) -> Any:
    plain = rng.normal(size=(n, p))
    lone = np.zeros((n, p))
    lone[0] = 1e300
    yield from (plain, plain * 0, plain * 0 + norm, np.sign(plain) * norm, plain * 1e-300, lone)


@pytest.mark.parametrize("seed", range(3))
def test_no_table_warns_or_fails(seed: int) -> None:
    """Whatever the rows: a finite draw, without a word."""
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n, p in ((1, 1), (2, 12), (7, 1), (60, 3), (60, 20)):
            norm, epsilon = 10.0 ** rng.integers(-3, 4), float(rng.choice([0.01, 5.0, 24.0]))
            radius = 10.0 ** rng.uniform(-2, 1) / norm
            plain: dict[str, Any] = {
                "delta": 1e-5,
                "mechanism": "gibbs",
                "row_norm": norm,
                "fit_intercept": bool(rng.integers(2)),
                "rng": seed,
            }
            for table in tables(rng, n, p, norm):
                for labels in (np.arange(n) % 2, np.ones(n, dtype=int)):
                    drawn = [
                        PrivateLogisticRegression(
                            epsilon, radius=radius, classes=(0, 1), **plain
                        ).fit(table, labels),
                        PrivateRidge(epsilon, radius=radius, target_bound=1.0, **plain).fit(
                            table, 3.0 * labels
                        ),
                    ]
                    for model in drawn:
                        far = model.noise_.reach + 60 * model.noise_.seal.noise_std
                        assert np.linalg.norm(model.sealed_.values) <= far


def spent(logs: Any, limit: float, epsilon: float) -> float:
    """The larger δ(ε) of two densities on a line, by the trapezoidal rule."""
    grid = np.linspace(-limit, limit, 20_001)
    values = []
    for log in logs:
        heights = np.asarray(log(grid))
        heights = np.exp(heights - heights.max())
        values.append(heights / heights.sum())
    one, other = values
    scale = math.exp(epsilon)
    return float(max(np.maximum(a - scale * b, 0).sum() for a, b in ((one, other), (other, one))))


@pytest.mark.parametrize("loss", ["logistic", "ridge"])
def test_no_pair_of_tables_spends_more_than_its_share(loss: str) -> None:
    """Random and extreme neighbours, shallow and deep cuts; at 1.2 times β some pair does."""
    rng, worst, hotter = np.random.default_rng(7), 0.0, 0.0
    for _ in range(150):
        n, epsilon = int(rng.integers(1, 6)), float(rng.choice([0.3, 1.0, 4.0]))
        radius, strength = 10.0 ** rng.uniform(-1.5, 0.5), 10.0 ** rng.uniform(-1, 3)
        target = NoiseTarget(epsilon, 1e-3, "gibbs", n, 1, 1.0)
        recipe = (
            logistic_gibbs(target, radius, strength)
            if loss == "logistic"
            else ridge_gibbs(target, 1.0, radius, strength)
        )
        x = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=n)
        y = rng.choice([-1.0, 1.0], size=n)
        ends = [(float(rng.choice([1.0, -1.0])), s) for s in (1.0, -1.0)]

        def log(last: Any, factor: float, x: Any = x, y: Any = y, r: Any = recipe) -> Any:
            beta, m, edge = r.temperature * factor, r.curvature, r.certificate.radius
            xs, ys = np.append(x[1:], last[0]), np.append(y[1:], last[1])

            def at(t: Any) -> Any:
                scores = np.multiply.outer(t, xs)
                each = np.logaddexp(0, -ys * scores) if loss == "logistic" else (ys - scores) ** 2
                outside = np.maximum(np.abs(t) - edge, 0)
                return -beta * each.sum(axis=-1) - m / 2 * t**2 - r.certificate.wall * outside

            return at

        limit = min(recipe.certificate.limit, radius + 1)
        left = epsilon
        nominal = spent([log(e, 1.0) for e in ends], limit, left)
        mu = recipe.temperature * recipe.gradient_diameter / math.sqrt(recipe.curvature)
        assert nominal <= gaussian_delta(left, mu) * (1 + 1e-3) + 1e-9
        worst = max(worst, nominal / 1e-3)
        hotter = max(hotter, spent([log(e, 1.2) for e in ends], limit, left) / 1e-3)
    assert 0.4 < worst < 1
    assert hotter > 1


def test_nothing_is_drawn_before_the_recipe_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And by default the coins are secure: two fits differ."""
    table, labels = seeded(0).normal(size=(40, 2)), np.arange(40) % 2
    model = PrivateLogisticRegression(1.0, delta=1e-5, mechanism="gibbs", row_norm=1.0)
    one, other = (model.fit(table, labels).sealed_ for _ in range(2))
    assert not one.simulated
    assert one.steps != other.steps
    coins = seeded(3)
    before = coins.bit_generator.state["state"]
    states = []
    draw = module.draw_logistic

    def watched(*given: Any) -> Any:
        states.append(given[-1].bit_generator.state["state"])
        return draw(*given)

    monkeypatch.setattr("sudare.learners._logistic.draw_logistic", watched)
    model.set_params(rng=coins).fit(table, labels)
    assert str(states) == str([before])
