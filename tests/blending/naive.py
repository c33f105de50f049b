"""The hedged blend again, written to be read: loops over rows, releases and beliefs, no blocks.

An oracle for tests. All constants are written out as numbers.
"""

import math
from dataclasses import dataclass

import numpy as np

from sudare.releases import Contract, LearnerRelease, MomentsRelease, Release
from tests.blending.naive_fits import Alone, Array, fit, own_rows, theta_of, units
from tests.blending.naive_suggestions import learners_view, moments_view, suggestions


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
    own_losses: Array
    blend_losses: Array


def blend(contract: Contract, releases: list[Release], table: Array, y: Array) -> Blend:
    """Everything, from rows and releases as a user gives them."""
    full, bound = units(contract)
    own = own_rows(contract, table, y)
    alone = Alone(own)
    learners = [r for r in releases if isinstance(r, LearnerRelease)]
    moments = [r for r in releases if isinstance(r, MomentsRelease)]
    chance = 0.9 / (bool(learners) + bool(moments))
    made: list[Candidate] = []
    spent, beside, doubts = 0.0, -math.inf, dict[str, float]()
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
        views.append(("moments", moments_view(contract, moments, own, alone), chance))
    for kind, view, mine in views:
        named, strays = suggestions(view, contract, own, alone)
        doubts |= strays
        for name, belief, each, shares in named:
            theta, left_out, evidence = fit(own, belief)
            log = math.log(mine * each) + evidence
            made.append(Candidate(f"{kind} of {name}", theta, left_out, log, shares))
            spent += mine * each
        beside = max(beside, alone.beside(named[0][1].penalty))
    log = math.log(1 - spent) + beside
    made.insert(0, Candidate("own model", alone.theta, alone.left_out, log, {}))
    logs = np.array([each.log_weight for each in made])
    weights = 0.9 * np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    weights[0] += 0.1
    if contract.classes is not None and weights[0] > 0.45:
        weights = np.array([1.0] + [0.0] * (len(made) - 1))
    own_losses, blend_losses = [], []
    for i, label in enumerate(own.y):
        outs = [candidate.left_out[i] for candidate in made]
        if own.noise is None:
            right = [1 / (1 + math.exp(-label * out)) for out in outs]
            own_losses.append(-math.log(right[0]))
            blend_losses.append(-math.log(weights @ right))
        else:
            own_losses.append((bound * (label - outs[0])) ** 2)
            blend_losses.append((bound * (label - weights @ outs)) ** 2)
    for candidate in made:
        candidate.theta = candidate.theta * bound / full
    return Blend(made, weights, doubts, np.array(own_losses), np.array(blend_losses))
