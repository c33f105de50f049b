"""What releases suggest, written to be read: the middle part of the naive hedged blend."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sudare.releases import Contract, LearnerRelease, MomentsRelease
from tests.blending.naive_fits import GRID, Array, Own, behind, prior, theta_of, units


@dataclass
class View:
    """Releases along axes: values z, variances v."""

    parties: list[str]
    z: Array
    v: Array
    unit: Array
    anything: Array
    axes: Array
    law: tuple[Array, Array] | None
    error: Array
    columns: Array
    """Variances that effects are measured in."""
    middle: Array
    size: float
    moves_level: float = 0.0
    level: float = 0.5
    """Between organisations."""

    def variance(self, j: int, level: float | None = None) -> Array:
        """With the level's, which varies along the last axis."""
        found = self.v[j].copy()
        if self.law is not None and self.moves_level:
            found[-1] += (self.level if level is None else level) * self.moves_level**2
        return found


def _slopes(own: Own, columns: Array, middle: Array) -> Array:
    """Covariance of θ if effects vary by one and the average row keeps its score."""
    p = len(middle)
    found = np.zeros((p, p))
    for j, variance in enumerate(columns):
        moved = np.zeros(p)
        moved[j] = 1.0
        if own.constant:
            moved[-1] = -middle[j] / own.constant
        found += np.outer(moved, moved) / variance
    return found


def _half_standard(variances: Array) -> Array:
    return np.sqrt(variances * variances.mean())


def learners_view(contract: Contract, held: list[LearnerRelease], own: Own) -> View:
    full, bound = units(contract)
    second, axes = np.linalg.eigh(own.rows.T @ own.rows / len(own.y))
    thetas = [theta_of(release) * full / bound for release in held]
    length = np.mean([theta @ theta / len(theta) for theta in thetas])
    v = [
        1 / (own.curvature * r.n * second + 1 / length) + (r.noise_std * full / bound) ** 2
        for r in held
    ]
    p = len(second)
    columns, middle = _half_standard(own.variances), own.rows.mean(axis=0)
    size = 1.0 if own.noise is None else float(np.var(own.y))
    return View(
        [r.party for r in held],
        np.array([axes.T @ theta for theta in thetas]),
        np.array(v),
        np.diag(axes.T @ _slopes(own, columns, middle) @ axes) * size,
        np.full(p, 4 * length),
        axes,
        None,
        np.zeros((p, p)),
        columns,
        middle,
        size,
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
    return (mean, spread), second_error, mean_error


def _beyond(differences: Array, error: float) -> float:
    return max(float((differences**2).mean()) - error * (1 + math.sqrt(8 / differences.size)), 0.0)


def released_law(contract: Contract, held: list[MomentsRelease], own: Own) -> tuple[Any, ...]:
    """Of the rows that were summed up."""
    p, n = contract.dimension, sum(r.n for r in held)
    noise = math.sqrt(sum(r.noise_std**2 for r in held)) / n
    values, vectors = np.linalg.eigh(sum(r.gram_matrix for r in held) / n)
    floor = min(noise * math.sqrt(p), 1 / p)
    second: Array = sum(
        max(value, floor) * np.outer(x, x) for value, x in zip(values, vectors.T, strict=True)
    )
    d = p - bool(own.constant)
    mean, mean_error, room = np.zeros(p), 0.0, 1 - own.constant**2
    if own.constant:
        mean[-1], mean_error = own.constant, (noise / own.constant) ** 2
        mean[:d] = second[-1, :d] / own.constant
        mean[:d] *= min(1.0, math.sqrt(room) / math.sqrt(mean[:d] @ mean[:d]))
    values, vectors = np.linalg.eigh(second[:d, :d] - np.outer(mean[:d], mean[:d]))
    values = np.array([max(value, 0.0) for value in values])
    left = max(room - mean[:d] @ mean[:d], 0.0)
    spread = np.zeros((p, p))
    for value, x in zip(values, vectors.T, strict=True):
        spread[:d, :d] += value * min(1.0, left / sum(values)) * np.outer(x, x)
    return (mean, spread), noise**2, mean_error


def moments_view(held: list[MomentsRelease], own: Own, rows: tuple[Any, ...]) -> View:
    law, second_error, mean_error = rows
    mean, spread = law
    whole = spread + np.outer(mean, mean)
    p, labels = len(mean), own.noise is None
    d = p - bool(own.constant)
    size = 1.0 if labels else float((own.y**2).mean())
    columns = _half_standard(np.maximum(np.diag(spread)[:d], 1e-9))
    slopes = _slopes(own, columns, mean)
    moved, doubt = _by_rows(held, whole, size)
    tilted = whole @ slopes @ whole
    tilted = whole / np.trace(whole) + 1e-3 * tilted / np.trace(tilted)
    axes = np.linalg.eigh(tilted)[1]
    if own.constant:
        along = mean / np.sqrt(mean @ mean)
        across = np.linalg.qr(np.column_stack([along, np.eye(p)[:, :d]]))[0][:, 1:]
        axes = np.column_stack([across @ np.linalg.eigh(across.T @ tilted @ across)[1], along])
    second = np.maximum(np.diag(axes.T @ whole @ axes), 1e-9)
    z = np.array([axes.T @ (r.cross_vector / r.n - moved[j]) for j, r in enumerate(held)])
    errors = [(r.noise_std / r.n) ** 2 + doubt[j] for j, r in enumerate(held)]
    most = [size * second / r.n + e for r, e in zip(held, errors, strict=True)]
    total = sum(1 / each for each in most)
    squares = (sum(a / b for a, b in zip(z, most, strict=True)) / total) ** 2 - 1 / total
    within = np.minimum(np.maximum(size * second - squares, size * second / 2), size * second)
    v = np.array([within / r.n + e for r, e in zip(held, errors, strict=True)])
    anything = np.full(p, size / (p + 2))
    scale = 1.0 if labels else float(np.var(own.y))
    # All together, to see how Σyx moves with θ.
    total = sum(1 / each for each in v) + 1 / anything
    centre = axes @ (sum(a / b for a, b in zip(z, v, strict=True)) / total)
    usual = prior(own, columns, mean, 15 / scale)
    theta, _, _, slope = behind(centre, axes @ np.diag(total) @ axes.T, usual, law, labels)
    length = float(theta @ theta) * (0.1 if labels else 1.0)
    error = length * second_error * np.eye(p)
    found = View(
        [r.party for r in held],
        z,
        v,
        np.diag(axes.T @ slope @ slopes @ slope.T @ axes) * scale,
        anything,
        axes,
        law,
        error,
        columns,
        mean,
        scale,
    )
    if own.constant:
        error[-1, -1] += length * mean_error * own.constant**2
        found.moves_level = axes[:, -1] @ slope[:, -1] / own.constant * math.sqrt(scale)
        found.level = _level(found)
    return found


def _level(view: View) -> float:
    """Own guess of a half, worth two organisations; the releases' spread along the last axis."""
    many = len(view.z)
    if many < 2:
        return 0.5
    share = [1 / v[-1] for v in view.v]
    middle = sum(w * z[-1] for w, z in zip(share, view.z, strict=True)) / sum(share)
    squares = float(np.median([(z[-1] - middle) ** 2 for z in view.z])) / 0.455
    beyond = (squares - float(np.median([v[-1] for v in view.v]))) / view.moves_level**2
    return min(5.0, (2 * 0.5 + (many - 1) * max(beyond, 0.0)) / (2 + many - 1))


def _by_rows(
    held: list[MomentsRelease], whole: Array, size: float
) -> tuple[list[Array], list[float]]:
    """What rows of another kind did to Σyx."""
    p, many = len(whole), len(held)
    second, axes = np.linalg.eigh(whole)
    second = np.maximum(second, 1e-9)
    v = [size * second / r.n + (r.noise_std / r.n) ** 2 for r in held]
    precision = sum(1 / each for each in v)
    z = [axes.T @ r.cross_vector / r.n for r in held]
    pooled = sum(a / b for a, b in zip(z, v, strict=True)) / precision
    length = max(sum(pooled**2 - 1 / precision) / sum(second**2), 0.0)
    w = axes @ (pooled * second * length / (second**2 * length + 1 / precision))
    noise = [(r.noise_std / r.n) ** 2 * (1 + 1 / p) for r in held]
    grams = [r.gram_matrix / r.n for r in held]
    middle = sum(g / e for g, e in zip(grams, noise, strict=True)) / sum(1 / e for e in noise)
    beyond = [
        ((g - middle) ** 2).mean() - e * (1 + 4 / (p * math.sqrt(many)))
        for g, e in zip(grams, noise, strict=True)
    ]
    varies = max(float(np.median(beyond)), 0.0)
    counts = [varies / (varies + each) for each in noise]
    moved = [c * (g - middle) @ w for c, g in zip(counts, grams, strict=True)]
    return moved, [c * e * (w @ w) for c, e in zip(counts, noise, strict=True)]


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
            s = [view.variance(j) + between * u for j in range(many)]
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
                * math.exp(_log_normal(view.z[j] - centres[g], view.variance(j) + between * u))
                for g in range(k)
            ]
            stray = loose * math.exp(_log_normal(view.z[j], view.variance(j) + view.anything))
            likelihood += math.log(sum(parts) + stray)
            inside[j] = np.array(parts) / (sum(parts) + stray)
        members = inside
        loose = min(0.5, max(0.005, 1 - members.sum() / many))
        shares = members.sum(axis=0) / members.sum()
        if abs(likelihood - last) < 1e-3:
            break
        last = likelihood
    return Groups(members, between, shares, likelihood - math.log(many) / 2 * (k * p + k + 1))


def _centre(view: View, weights: Array, t: float, level: float) -> tuple[Array, Array, Array]:
    precision = np.array(
        [w / (view.variance(j, level) + t * view.unit) for j, w in enumerate(weights)]
    )
    total = precision.sum(axis=0) + 1 / view.anything
    contributed = precision.mean(axis=1)
    return (precision * view.z).sum(axis=0) / total, 1 / total, contributed / contributed.sum()


def _betweens(view: View, found: Groups) -> list[tuple[float, float, float]]:
    """Variances of effects and levels between organisations, with their chances."""
    if found.members.shape[1] > 1:
        return [(found.between, view.level, 1.0)]
    values = [(0.0, 0.0, 0.25), (0.0, view.level, 0.25)]
    values += [(sd**2, view.level, 0.1) for sd in (0.05, 0.1, 0.2, 0.4, 0.8)]
    chances = []
    for t, level, chance in values:
        centre, variance, _ = _centre(view, found.members[:, 0], t, level)
        log = sum(
            w * _log_normal(view.z[j] - centre, view.variance(j, level) + t * view.unit)
            for j, w in enumerate(found.members[:, 0])
        )
        chances.append(math.log(chance) + log + sum(map(math.log, variance)) / 2)
    weights = np.exp(np.array(chances) - max(chances))
    weights /= weights.sum()
    return [(t, level, w) for (t, level, _), w in zip(values, weights, strict=True)]


@dataclass
class Suggestion:
    """A named normal law of own θ, its chance and whom it comes from."""

    name: str
    mean: Array
    precision: Array
    chance: float
    shares: dict[str, float]


def suggestions(view: View, own: Own) -> tuple[list[Suggestion], dict[str, float], Array]:
    """All laws; doubts by party; the precision of θ had there been no release."""
    many = len(view.parties)
    tried = [groups(view, k) for k in (1, 2, 3) if k == 1 or many >= 5 * k]
    before = [0.6] + [0.2] * (len(tried) - 1)
    before = [each / sum(before) for each in before]
    scores = np.array([math.log(c) + g.score for c, g in zip(before, tried, strict=True)])
    likely = np.exp(scores - scores.max())
    chances = 0.85 * likely / likely.sum() + 0.15 * np.array(before)
    centres = []
    for found, chance in zip(tried, chances, strict=True):
        kinds = found.members.shape[1]
        for g in range(kinds):
            for t, level, weight in _betweens(view, found):
                target, variance, contributed = _centre(view, found.members[:, g], t, level)
                apart = "levels apart" if level else "alike"
                if t:
                    apart = f"effects apart by {math.sqrt(t):.2g}"
                name = f"all, {apart}" if kinds == 1 else f"group {g + 1} of {kinds}"
                covariance = view.axes @ np.diag(variance) @ view.axes.T + view.error
                shares = dict(zip(view.parties, contributed, strict=True))
                likely_here = chance * found.shares[g] * weight
                centres.append(
                    (name, view.axes @ target, covariance, t, level, likely_here, shares)
                )
    first = max(centres, key=lambda centre: centre[5])
    about = _likeliest_prior(view, own, first[1], np.linalg.inv(first[2]))
    named: dict[str, list[Suggestion]] = {"": [], ", any length": [], ", direction": []}
    for name, target, covariance, t, level, chance, shares in centres:
        sure = np.linalg.inv(covariance)
        if view.law is None:
            precision = sure + about
            theta = np.linalg.solve(precision, sure @ target)
        else:
            theta, precision, _, _ = behind(target, sure, about, view.law, own.noise is None)
        wide = np.linalg.inv(precision)
        wide += t * view.size * _slopes(own, view.columns, view.middle)
        corner = np.zeros_like(wide)
        if own.constant:
            corner[-1, -1] = view.size / own.constant**2
        wide += level * corner
        free = 4 * corner
        for kind, mean, law, part in (
            ("", theta, wide, 0.9 * 0.75),
            (", any length", theta, wide + 0.25 * np.outer(theta, theta) + free, 0.9 * 0.25),
            (", direction", 0 * theta, wide + np.outer(theta, theta) + free, 0.1),
        ):
            worth = _worth(own, about, np.linalg.inv(law)) ** (0.5 * min(1, len(own.y) / 50))
            named[kind].append(
                Suggestion(name + kind, mean, np.linalg.inv(law), part * chance * worth, shares)
            )
    doubts = 1 - tried[0].members.sum(axis=1)
    every = [each for kind in named.values() for each in kind]
    return every, dict(zip(view.parties, doubts, strict=True)), about


def _worth(own: Own, about: Array, law: Array) -> float:
    """Share of the loss left open by own rows that the law would settle."""
    second = own.rows.T @ own.rows / len(own.y)
    told = own.curvature * len(own.y) * second
    with_law = np.trace(np.linalg.inv(told + law) @ second)
    return max(0.0, 1 - float(with_law / np.trace(np.linalg.inv(told + about) @ second)))


def _likeliest_prior(view: View, own: Own, target: Array, sure: Array) -> Array:
    if view.law is None:
        return prior(own, view.columns, view.middle, 15 / view.size)

    def plausible(penalty: float) -> float:
        about = prior(own, view.columns, view.middle, penalty / view.size)
        assert view.law is not None
        evidence = behind(target, sure, about, view.law, own.noise is None)[2]
        return evidence - (math.log(penalty / 15) / 1.2) ** 2 / 2

    best = max(GRID, key=plausible)
    return prior(own, view.columns, view.middle, best / view.size)
