"""What releases suggest, written to be read: the middle part of the naive hedged blend."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sudare.releases import Contract, LearnerRelease, MomentsRelease
from tests.blending.naive_fits import GRID, Alone, Array, Belief, Own, lowest, theta_of, units


@dataclass
class View:
    """Releases along axes: values z, variances v."""

    parties: list[str]
    z: Array
    v: Array
    unit: Array
    anything: Array
    axes: Array
    second: Array
    own_variance: Array
    mean: Array
    spread: Array
    second_error: float
    mean_error: float
    any_intercept: float
    about: str


def learners_view(contract: Contract, held: list[LearnerRelease], own: Own) -> View:
    full, bound = units(contract)
    second, axes = np.linalg.eigh(own.rows.T @ own.rows / len(own.y))
    thetas = [theta_of(release) * full / bound for release in held]
    size = np.mean([theta @ theta / len(theta) for theta in thetas])
    v = [
        1 / (own.curvature * r.n * second + 1 / size) + (r.noise_std * full / bound) ** 2
        for r in held
    ]
    p = len(second)
    return View(
        [r.party for r in held],
        np.array([axes.T @ theta for theta in thetas]),
        np.array(v),
        np.ones(p),
        np.full(p, 4 * size),
        axes,
        second,
        1 / (own.curvature * len(own.y) * second + 1 / size),
        np.zeros(p),
        np.eye(p),
        0.0,
        0.0,
        4 * size,
        "coefficients",
    )


def row_law(contract: Contract, held: list[MomentsRelease], own: Own) -> tuple[Any, ...]:
    """Mean, spread, and the variances of their errors."""
    d, p, n0 = contract.features, contract.dimension, len(own.y)
    table = own.rows[:, :d]
    own_second: Array = sum(np.outer(x, x) for x in table) / n0
    one_row = (np.mean([(x @ x) ** 2 for x in table]) - (own_second**2).sum()) / d**2
    errors = [one_row / r.n + (r.noise_std / r.n) ** 2 * (1 + 1 / d) for r in held]
    share = [1 / e / sum(1 / f for f in errors) for e in errors]
    released = sum(s * r.gram_matrix / r.n for s, r in zip(share, held, strict=True))
    own_error, released_error = one_row / n0, 1 / sum(1 / e for e in errors)
    apart = _beyond(released[:d, :d] - own_second, own_error + released_error)
    to_released = (own_error + apart) / (own_error + apart + released_error)
    second = to_released * released[:d, :d] + (1 - to_released) * own_second
    level = max(np.trace(second) / d, 0.1 * np.trace(own_second) / d)
    error = to_released**2 * released_error + (1 - to_released) ** 2 * own_error
    shrink = min(1.0, d * d * error / ((second - level * np.eye(d)) ** 2).sum())
    second = (1 - shrink) * second + shrink * level * np.eye(d)
    mean, mean_error = np.zeros(p), 0.0
    if contract.constant > 0:
        constant = own.rows[0, -1]
        noise = sum(
            s**2 * (level / r.n + (r.noise_std / r.n / constant) ** 2)
            for s, r in zip(share, held, strict=True)
        )
        theirs, mine = released[:d, -1] / constant, table.mean(axis=0)
        spare = level / n0 + _beyond(theirs - mine, level / n0 + noise)
        between = (spare * theirs + noise * mine) / (spare + noise)
        mean_error = spare * noise / (spare + noise)
        kept = max(0.0, 1 - d * mean_error / (between @ between))
        mean[:d], mean[-1], mean_error = kept * between, constant, kept * mean_error
    values, vectors = np.linalg.eigh(second - np.outer(mean[:d], mean[:d]))
    spread = np.zeros((p, p))
    for value, vector in zip(values, vectors.T, strict=True):
        spread[:d, :d] += max(value, 0.01 * level) * np.outer(vector, vector)
    # Of the released part only what noise did to it.
    sampled = sum(s**2 * one_row / r.n for s, r in zip(share, held, strict=True))
    second_error = (1 - shrink) * (error - to_released**2 * sampled)
    return mean, spread, second_error, mean_error


def _beyond(differences: Array, error: float) -> float:
    return max(float((differences**2).mean()) - error * (1 + math.sqrt(8 / differences.size)), 0.0)


def moments_view(contract: Contract, held: list[MomentsRelease], own: Own, alone: Alone) -> View:
    full, _ = units(contract)
    mean, spread, second_error, mean_error = row_law(contract, held, own)
    second, axes = np.linalg.eigh(spread + np.outer(mean, mean))
    p, many = len(second), len(held)
    size = 1.0 if own.noise is None else float((own.y**2).mean())
    z = np.array([axes.T @ r.cross_vector / r.n for r in held])
    v = np.array([size * second / r.n + (r.noise_std / r.n) ** 2 for r in held])
    # What rows of another kind did to Σyx.
    noise = [(r.noise_std / r.n) ** 2 * (1 + 1 / p) for r in held]
    grams = [axes.T @ r.gram_matrix @ axes / r.n for r in held]
    middle = sum(g / e for g, e in zip(grams, noise, strict=True)) / sum(1 / e for e in noise)
    beyond = [
        ((g - middle) ** 2).mean() - e * (1 + 4 / (p * math.sqrt(many)))
        for g, e in zip(grams, noise, strict=True)
    ]
    varies = max(float(np.median(beyond)), 0.0)
    precision = sum(1 / each for each in v)
    pooled = sum(a / b for a, b in zip(z, v, strict=True)) / precision
    length = max(float(((pooled**2 - 1 / precision) / second**2).mean()), 0.0)
    w = pooled * second * length / (second**2 * length + 1 / precision)
    for j in range(many):
        counts = varies / (varies + noise[j])
        z[j] -= counts * (grams[j] - middle) @ w
        v[j] += counts * noise[j] * (w @ w)
    theta_square = p / alone.likeliest() * (0.1 if own.noise is None else 1.0)
    constant = contract.constant / full
    return View(
        [r.party for r in held],
        z,
        v,
        second**2 / np.mean(second**2),
        np.full(p, size / (p + 2)),
        axes,
        second,
        size * second / len(own.y),
        mean,
        spread,
        theta_square * second_error,
        theta_square * mean_error * constant**2,
        constant**2,
        "labels" if own.noise is None else "targets",
    )


def _log_normal(residual: Array, variance: Array) -> float:
    pairs = zip(residual, variance, strict=True)
    return sum(-(r * r / v + math.log(2 * math.pi * v)) / 2 for r, v in pairs)


@dataclass
class Groups:
    members: Array
    between: float
    shares: Array
    score: float


def groups(view: View, k: int) -> Groups:
    return max((_climb(view, start) for start in _starts(view, k)), key=lambda g: g.score)


def _starts(view: View, k: int) -> Iterator[Array]:
    many = len(view.z)
    if k == 1:
        yield np.ones((many, 1))
        return
    middle = view.z - np.median(view.z, axis=0)
    along = middle @ np.linalg.svd(middle)[2][0]
    ranks = [sum(other < mine for other in along) for mine in along]
    yield np.eye(k)[[rank * k // many for rank in ranks]]
    far = [max(range(many), key=lambda j: middle[j] @ middle[j])]

    def nearest(j: int) -> list[float]:
        return [float(((view.z[j] - view.z[f]) ** 2).sum()) for f in far]

    while len(far) < k:
        far.append(max(range(many), key=lambda j: min(nearest(j))))
    yield np.eye(k)[[int(np.argmin(nearest(j))) for j in range(many)]]


def _climb(view: View, members: Array) -> Groups:
    (many, p), k, u = view.z.shape, members.shape[1], view.unit
    loose, between, last, shares = 0.005, 0.0, -math.inf, members.mean(axis=0)
    for _ in range(50):
        pull = taken = certainty = 0.0
        centres = []
        for g in range(k):
            s = [view.v[j] + between * u for j in range(many)]
            precision = sum(members[j, g] / s[j] for j in range(many)) + 1 / view.anything
            centre = sum(members[j, g] * view.z[j] / s[j] for j in range(many)) / precision
            centres.append(centre)
            for j in range(many):
                m = members[j, g]
                pull += m * (u * ((view.z[j] - centre) ** 2 / s[j] - 1) / s[j]).sum()
                taken += m * (u / s[j] ** 2 / precision).sum()
                certainty += m * ((u / s[j]) ** 2).sum()
        between = max(0.0, between + (pull + taken) / certainty)
        likelihood, inside = 0.0, np.zeros((many, k))
        for j in range(many):
            parts = [
                (1 - loose)
                * shares[g]
                * math.exp(_log_normal(view.z[j] - centres[g], view.v[j] + between * u))
                for g in range(k)
            ]
            stray = loose * math.exp(_log_normal(view.z[j], view.v[j] + view.anything))
            likelihood += math.log(sum(parts) + stray)
            inside[j] = np.array(parts) / (sum(parts) + stray)
        members = inside
        loose = min(0.5, max(0.005, 1 - members.sum() / many))
        shares = members.sum(axis=0) / members.sum()
        if abs(likelihood - last) < 1e-3:
            break
        last = likelihood
    return Groups(members, between, shares, likelihood - math.log(many) / 2 * (k * p + k + 1))


def _centre(view: View, weights: Array, t: float) -> tuple[Array, Array, Array]:
    precision = np.array([w / (v + t * view.unit) for w, v in zip(weights, view.v, strict=True)])
    total = precision.sum(axis=0) + 1 / view.anything
    contributed = precision.mean(axis=1)
    return (precision * view.z).sum(axis=0) / total, 1 / total, contributed / contributed.sum()


def _betweens(view: View, found: Groups) -> list[tuple[float, float]]:
    """Variances between organisations, with their chances."""
    if found.members.shape[1] > 1:
        return [(found.between, 1.0)]
    first = 0.1 * float(view.own_variance.mean())
    largest = float(view.anything.mean()) / 4
    count = int(min(12, max(3, math.log(largest / first) / math.log(4.5) + 1)))
    values = [0.0] + [first * 4.5**k for k in range(count)]
    chances = []
    for t in values:
        centre, variance, _ = _centre(view, found.members[:, 0], t)
        log = sum(
            w * _log_normal(z - centre, v + t * view.unit)
            for w, z, v in zip(found.members[:, 0], view.z, view.v, strict=True)
        )
        prior = 0.5 if t == 0 else 0.5 / count
        chances.append(math.log(prior) + log + sum(map(math.log, variance)) / 2)
    weights = np.exp(np.array(chances) - max(chances))
    return list(zip(values, weights / weights.sum(), strict=True))


def suggestions(
    view: View, contract: Contract, own: Own, alone: Alone
) -> tuple[list[tuple[str, Belief, float, dict[str, float]]], dict[str, float]]:
    """Named beliefs with their chances and whom they come from; doubts by party."""
    many = len(view.parties)
    tried = [groups(view, k) for k in (1, 2, 3) if k == 1 or many >= 5 * k]
    prior = [0.6] + [0.2] * (len(tried) - 1)
    prior = [each / sum(prior) for each in prior]
    scores = np.array([math.log(c) + g.score for c, g in zip(prior, tried, strict=True)])
    likely = np.exp(scores - scores.max())
    chances = 0.85 * likely / likely.sum() + 0.15 * np.array(prior)
    scale = float(view.own_variance.mean())
    centres = []
    for found, chance in zip(tried, chances, strict=True):
        kinds = found.members.shape[1]
        for g in range(kinds):
            for t, weight in _betweens(view, found):
                target, variance, contributed = _centre(view, found.members[:, g], t)
                variance = variance + 4 * t * view.unit + view.second_error
                apart = f"apart by {math.sqrt(t / scale):.2g} own errors" if t else "alike"
                name = f"all, {apart}" if kinds == 1 else f"group {g + 1} of {kinds}"
                centres.append(
                    (name, target, variance, chance * found.shares[g] * weight, contributed)
                )
    covariances = []
    for _, _, variance, _, _ in centres:
        covariance = view.axes @ np.diag(variance) @ view.axes.T
        if contract.constant > 0:
            covariance[-1, -1] += view.mean_error
        covariances.append(covariance)
    targets = [view.axes @ target for _, target, _, _, _ in centres]
    first = np.linalg.inv(covariances[0])
    penalty = max(
        range(len(GRID)),
        key=lambda k: (
            _release_evidence(view, targets[0], first, alone.penalties[k]) + alone.plausible(k)
        ),
    )
    named = []
    informed = own.curvature * len(own.y) * view.second
    matters = informed / (informed + alone.penalties[penalty])
    for free in (False, True):
        for (name, _, variance, chance, contributed), covariance, target in zip(
            centres, covariances, targets, strict=True
        ):
            settled = view.own_variance / (view.own_variance + variance)
            worth = (settled * matters).sum() / matters.sum()
            wide = covariance.copy()
            if free:
                wide += np.outer(target, target)
                if contract.constant > 0:
                    wide[-1, -1] += view.any_intercept
            belief = Belief(
                np.zeros_like(target) if free else target,
                np.linalg.inv(wide),
                view.about,
                alone.penalties[penalty],
                view.mean,
                view.spread,
            )
            shares = dict(zip(view.parties, contributed, strict=True))
            title = f"{name}, direction" if free else name
            named.append((title, belief, (0.1 if free else 0.9) * chance * worth, shares))
    doubts = 1 - tried[0].members.sum(axis=1)
    return named, dict(zip(view.parties, doubts, strict=True))


def _release_evidence(view: View, target: Array, precision: Array, penalty: float) -> float:
    belief = Belief(target, precision, view.about, penalty, view.mean, view.spread)
    _, value, curvature = lowest(None, belief, np.zeros(len(target)))
    logs = len(target) * math.log(penalty) - math.log(np.linalg.det(curvature))
    return -value + logs / 2
