"""Groups of releases: found where there are any, not made of noise."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sudare.blending._groups import Spread, between_likelihood, find_groups, pooled
from sudare.blending._records import Array
from sudare.foundations.randomness import seeded


def spread(
    centres: Array, between: float = 0.0, noise: float = 0.05, many: int = 60, seed: int = 0
) -> Spread:
    """Releases whose truths lie about the centres in turn."""
    rng = seeded(seed)
    p = centres.shape[1]
    truths = (
        np.resize(centres, (many, p))
        if len(centres) == 1
        else centres[np.arange(many) % len(centres)]
    )
    truths = truths + np.sqrt(between) * rng.normal(size=(many, p))
    return Spread(
        truths + noise * rng.normal(size=(many, p)),
        np.full((many, p), noise**2),
        np.ones(p),
        np.full(p, 1.0),
    )


ONE = np.array([[0.5, -0.3, 0.0, 0.2]])
TWO = np.array([[0.5, -0.3, 0.0, 0.2], [-0.4, 0.3, 0.3, 0.0]])


def test_noise_makes_no_groups() -> None:
    for seed in range(10):
        held = spread(ONE, seed=seed)
        assert find_groups(held, 1).score > max(find_groups(held, k).score for k in (2, 3))


def test_two_groups_are_found() -> None:
    held = spread(TWO)
    one, two, three = (find_groups(held, k) for k in (1, 2, 3))
    assert two.score > max(one.score, three.score)
    order = np.argsort(two.centres[:, 0])[::-1]
    np.testing.assert_allclose(two.centres[order], TWO, atol=0.03)
    right = two.memberships[:, order][np.arange(60), np.arange(60) % 2]
    assert right.min() > 0.99
    np.testing.assert_allclose(two.shares, 0.5, atol=0.01)


def test_groups_too_close_for_the_noise_are_one() -> None:
    held = spread(TWO, noise=2.0)
    assert find_groups(held, 1).score > find_groups(held, 2).score


@pytest.mark.parametrize("between", [0.0, 0.01, 0.1])
def test_variance_between_organisations(between: float) -> None:
    found = [find_groups(spread(ONE, between, many=200, seed=s), 1).between for s in range(5)]
    assert np.mean(found) == pytest.approx(between, rel=0.15, abs=5e-4)


def test_between_likelihood_is_an_integral_over_the_centre() -> None:
    """One dimension, by quadrature, up to a constant that is the same for all values."""
    rng = seeded(3)
    held = Spread(
        rng.normal(size=(6, 1)), rng.uniform(0.2, 1, (6, 1)), np.ones(1), np.full(1, 50.0)
    )
    values = np.array([0.0, 0.3, 2.0])
    found = between_likelihood(held, np.ones(6), values)

    def likelihood(t: float) -> float:
        def density(c: float) -> float:
            return float(np.prod(norm.pdf(held.values, c, np.sqrt(held.variances + t))))

        return float(np.log(quad(density, -20, 20, points=[0])[0]))

    exact = np.array([likelihood(float(t)) for t in values])
    np.testing.assert_allclose(found - found[0], exact - exact[0], atol=0.01)


def test_pooling_weighs_by_precision() -> None:
    held = Spread(np.array([[1.0], [3.0]]), np.array([[0.1], [0.4]]), np.ones(1), np.full(1, 1e12))
    centre, variance, shares = pooled(held, np.ones(2), 0.0)
    assert centre == pytest.approx([1.4])
    assert variance == pytest.approx([0.08])
    np.testing.assert_allclose(shares, [0.8, 0.2])
    centre, _, shares = pooled(held, np.ones(2), 1e6)
    assert centre == pytest.approx([2.0], rel=1e-5)
    np.testing.assert_allclose(shares, 0.5, rtol=1e-5)


def test_a_stray_release_belongs_nowhere() -> None:
    held = spread(ONE)
    stray = held.values.copy()
    stray[7] = [-0.9, 0.9, -0.9, 0.9]
    found = find_groups(Spread(stray, held.variances, held.unit, held.anything), 1)
    assert found.memberships[7].sum() < 1e-6
    assert np.delete(found.memberships, 7, axis=0).min() > 0.9
    np.testing.assert_allclose(found.centres, ONE, atol=0.03)


def test_the_order_of_releases_does_not_matter() -> None:
    held = spread(TWO, between=0.005)
    turned = seeded(1).permutation(60)
    other = Spread(held.values[turned], held.variances[turned], held.unit, held.anything)
    for k in (1, 2, 3):
        one, two = find_groups(held, k), find_groups(other, k)
        assert two.score == pytest.approx(one.score, abs=1e-6)
        order = [int(np.argmin(((two.centres - c) ** 2).sum(axis=1))) for c in one.centres]
        np.testing.assert_allclose(two.memberships[:, order], one.memberships[turned], atol=1e-6)
