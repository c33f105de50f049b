"""Hedging: gains where releases help, keeps to the own model where they do not."""

from typing import Any

import numpy as np
import pytest

from sudare.blending._hedged import HedgedBlend
from sudare.foundations.privacy import PureEvent
from sudare.foundations.randomness import Generator, seeded
from sudare.learners._moments import moments_seal
from sudare.releases import Contract, MomentsRelease

FEATURES = 5
CONTRACT = Contract(features=FEATURES, row_norm=1.0, constant=0.25, classes=(0, 1))


def draw(theta: Any, n: int, rng: Generator) -> tuple[Any, Any]:
    rows = rng.normal(size=(n, FEATURES))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, (rng.random(n) < 1 / (1 + np.exp(-rows @ theta))).astype(int)


def release(party: str, theta: Any, epsilon: float, rng: Generator, n: int = 50) -> MomentsRelease:
    table, y = draw(theta, n, rng)
    rows = CONTRACT.rows(table) / CONTRACT.full_norm
    p = CONTRACT.dimension
    std = moments_seal(n, p, epsilon, 1e-5).noise_std
    upper = np.triu_indices(p)
    diagonal = np.where(upper[0] == upper[1], np.sqrt(2), 1.0)
    return MomentsRelease(
        party=party,
        contract=CONTRACT,
        n=n,
        event=PureEvent(1.0),
        noise_std=std,
        cross=tuple((2 * y - 1) @ rows + std * rng.normal(size=p)),
        gram=tuple((rows.T @ rows)[upper] + std * diagonal * rng.normal(size=len(diagonal))),
    )


def gains(turn: float, epsilon: float, seeds: int = 6) -> tuple[Any, Any]:
    """Points gained over the own model, and its weight, when the others' truth is `turn` × own."""
    points, weights = [], []
    for seed in range(seeds):
        rng = seeded(seed)
        theta = rng.normal(size=FEATURES)
        theta *= 5 / np.linalg.norm(theta)
        table, y = draw(theta, 50, rng)
        new, truth = draw(theta, 4000, rng)
        pile = [release(f"{k}", turn * theta, epsilon, rng) for k in range(60)]
        own = HedgedBlend([], contract=CONTRACT).fit(table, y)
        blend = HedgedBlend(pile).fit(table, y)
        points.append(100 * (blend.score(new, truth) - own.score(new, truth)))
        weights.append(blend.explain().own_weight)
    return np.array(points), np.array(weights)


def test_releases_of_the_same_law_help() -> None:
    points, weights = gains(1.0, 2.0)
    assert points.mean() > 1.5
    assert points.min() > -0.5
    assert weights.mean() < 0.3


def test_noise_alone_does_nothing() -> None:
    """At ε = 0.01 the releases say nothing, and the blend is the own model but for a hair."""
    points, weights = gains(1.0, 0.01)
    assert np.abs(points).max() < 1.0
    assert weights.min() > 0.2


def test_releases_of_the_opposite_law_do_not_hurt() -> None:
    """And a blend that took them at their word would: the reject arm."""
    points, _ = gains(-1.0, 2.0)
    assert points.min() > -1.0
    assert _at_its_word() < -20


def test_direction_turns_the_opposite_law_into_a_gain() -> None:
    points, _ = gains(-1.0, 10.0, seeds=8)
    assert points.mean() > 0.3


def _at_its_word() -> float:
    """Points lost by the candidate that believes the opposite releases."""
    rng = seeded(0)
    theta = rng.normal(size=FEATURES)
    theta *= 5 / np.linalg.norm(theta)
    table, y = draw(theta, 50, rng)
    new, truth = draw(theta, 4000, rng)
    pile = [release(f"{k}", -theta, 2.0, rng) for k in range(60)]
    blend = HedgedBlend(pile).fit(table, y)
    believer = blend.components_[blend.candidates_.index("moments of all, alike")]
    own = HedgedBlend([], contract=CONTRACT).fit(table, y).score(new, truth)
    right = float(np.mean((CONTRACT.rows(new) @ believer > 0) == truth))
    return 100 * (right - own)


@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_it_says_whether_releases_helped(turn: float) -> None:
    rng = seeded(3)
    theta = rng.normal(size=FEATURES)
    theta *= 5 / np.linalg.norm(theta)
    table, y = draw(theta, 200, rng)
    pile = [release(f"{k}", turn * theta, 5.0, rng, n=200) for k in range(4)]
    said = HedgedBlend(pile).fit(table, y).explain()
    if turn > 0:
        assert said.helped
        assert said.verdict.startswith(("The releases helped", "The releases most likely help"))
    else:
        believed = [c for c in said.candidates[1:] if "direction" not in c.name]
        assert sum(c.weight for c in believed if "any length" not in c.name) < 0.01
