"""The hedged blend again, written to be read: loops over rows, releases and laws, no blocks.

An oracle for tests. All constants are written out as numbers.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from sudare.releases import Contract, LearnerRelease, MomentsRelease, Release
from tests.blending.naive_fits import Alone, Array, Own, fit, own_rows, theta_of, units
from tests.blending.naive_suggestions import (
    learners_view,
    moments_view,
    released_law,
    row_law,
    suggestions,
)


@dataclass
class Candidate:
    name: str
    theta: Array
    left_out: Array
    log_weight: float
    shares: dict[str, float]


@dataclass
class Blend:
    """What a hedged blend should have found."""

    candidates: list[Candidate]
    weights: Array
    doubts: dict[str, float]
    own_loss: float
    gain: float
    error: float


def blend(contract: Contract, releases: list[Release], table: Array, y: Array) -> Blend:
    """Everything, from rows and releases as a user gives them."""
    full, bound = units(contract)
    own = own_rows(contract, table, y)
    alone = Alone(own)
    learners = [r for r in releases if isinstance(r, LearnerRelease)]
    moments = [r for r in releases if isinstance(r, MomentsRelease)]
    chance = 0.9 / (bool(learners) + bool(moments))
    made: list[Candidate] = []
    spent, beside = 0.0, alone.evidence
    doubts = {release.party: 0.0 for release in releases}
    for release in learners:
        theta = theta_of(release) * full / bound
        scores = np.array([x @ theta for x in own.rows])
        log = math.log(chance * 0.1 / len(learners))
        log -= sum(own.loss(i, s) for i, s in enumerate(scores))
        name = f"learner of {release.party} as received"
        made.append(Candidate(name, theta, scores, log, {release.party: 1.0}))
        spent += chance * 0.1 / len(learners)
    views = []
    if learners:
        views.append(("learners", learners_view(contract, learners, own), 0.9 * chance))
    if moments:
        for kind, rows in (
            ("moments", row_law(contract, moments, own)),
            ("moments, rows as released,", released_law(contract, moments, own)),
        ):
            views.append((kind, moments_view(moments, own, rows), chance / 2))
    for kind, view, mine in views:
        named, strays, about = suggestions(view, own)
        for party, doubt in strays.items():
            doubts[party] = max(doubts[party], doubt)
        for each in named:
            theta, left_out, evidence = fit(own, each.mean, each.precision)
            log = math.log(max(mine * each.chance, 1e-300)) + evidence
            made.append(Candidate(f"{kind} of {each.name}", theta, left_out, log, each.shares))
            spent += mine * each.chance
        beside = max(beside, fit(own, np.zeros(len(about)), about)[2])
    log = math.log(1 - spent) + beside
    made.insert(0, Candidate("own model", alone.theta, alone.left_out, log, {}))
    logs = np.array([each.log_weight for each in made])
    weights = 0.9 * np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    weights[0] += 0.1
    if contract.classes is not None and weights[0] > 0.6:
        weights = np.array([1.0] + [0.0] * (len(made) - 1))
    own_loss, gain, error = _gain(own, made, weights, bound)
    for candidate in made:
        candidate.theta = candidate.theta * bound / full
    return Blend(made, weights, doubts, own_loss, gain, error)


def _gain(
    own: Own, made: list[Candidate], weights: Array, bound: float
) -> tuple[float, float, float]:
    """Own loss, gain and half its interval, from own rows left out."""
    losses, gains, expected, spread = [], [], [], []
    for i, label in enumerate(own.y):
        outs = [candidate.left_out[i] for candidate in made]
        if own.noise is None:
            chances = [1 / (1 + math.exp(-out)) for out in outs]
            mixed = float(weights @ chances)
            ratios = {1.0: math.log(mixed / chances[0])}
            ratios[-1.0] = math.log((1 - mixed) / (1 - chances[0]))
            losses.append(-math.log(chances[0] if label > 0 else 1 - chances[0]))
            gains.append(ratios[float(label)])
            expected.append(mixed * ratios[1.0] + (1 - mixed) * ratios[-1.0])
            spread.append(
                mixed * ratios[1.0] ** 2 + (1 - mixed) * ratios[-1.0] ** 2 - expected[-1] ** 2
            )
        else:
            mixed = float(weights @ outs)
            losses.append((bound * (label - outs[0])) ** 2)
            gains.append(losses[-1] - (bound * (label - mixed)) ** 2)
            expected.append((bound * (mixed - outs[0])) ** 2)
            spread.append(4 * own.noise * bound**2 * expected[-1])
    n, foretold = len(own.y), float(np.mean(expected))
    variance = max(float(np.var(gains, ddof=1)), float(np.mean(spread) + np.var(expected)))
    error = math.sqrt(student.ppf(0.975, n - 1) ** 2 * 1.5 * variance / n + foretold**2)
    return float(np.mean(losses)), (float(np.mean(gains)) + 1.5 * foretold) / 2, error
