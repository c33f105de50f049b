"""What releases suggest about own coefficients: beliefs, with chances given before own labels.

Moments speak about Σyx/n. The law of rows comes from own rows and the released Σxxᵀ, weighted by
their errors and shrunk; what an organisation's own kind of rows did to its Σyx is taken out as far
as its Σxxᵀ tells. The centre of a group of releases is then a target for own θ, with a
variance that adds up sampling, privacy noise, the error of the row law, and how far organisations
differ from each other. That last is a grid of values, weighed by how well they explain the spread
of the releases, and by what a pooled release says of it (`_pooled`); own truth may be twice as far
from the centre as theirs are (1.4 times with a pooled release). Received coefficients speak about θ
itself, in the same way.

Each belief comes twice: taken at its word, and for its *direction* only, when length, sign and
intercept are left to own rows. That is what survives where rows are not normal at all, or where
others code their labels the other way round.

Own labels are used for the ridge penalty alone, so that own rows can judge fairly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sudare.blending._explain import Kind
from sudare.blending._groups import Groups, Spread, between_likelihood, find_groups
from sudare.blending._matching import About, Array, Beliefs, Records, RowLaw, release_evidence
from sudare.blending._own import OwnModel
from sudare.blending._pooled import Apart, apart_of
from sudare.blending._received import Moments, Received, coefficient_unit
from sudare.learners import inverse
from sudare.releases import Contract

ALIKE = 0.5
"""Chance that organisations do not differ at all, before the releases are seen."""
DIRECTION = 0.1
"""Chance that a belief holds for its direction only."""
UNUSUAL = 4.0
"""Own truth's variance about the centre, against that of the others."""
POOL_ALIKE, POOL_UNUSUAL = 0.1, 2.0
"""The same with a pooled release: a sum hides who differs, and tells how far all of them do."""
SINGLE_GROUP = 0.6
"""Chance that all organisations are of one kind, before the releases are seen."""
UNSURE = 0.15
"""Share of the chances of one, two or three kinds that the releases cannot move."""
_STEP = 4.5
"""From one variance between organisations to the next."""


@dataclass(frozen=True)
class Candidates:
    """Beliefs, their names and chances, and whom they come from.

    The chances add up to at most one. What is missing is the own model's: beliefs too vague to add
    much to own rows are not worth their risk.
    """

    beliefs: Beliefs
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    chances: Array
    parties: tuple[str, ...]
    contributions: Array
    """(K, M): share of each party's release in each belief."""
    doubts: Array
    """(M,): chance that a release fits no group."""

    @property
    def penalty(self) -> float:
        """The ridge penalty that all these beliefs share."""
        return float(self.beliefs.penalty[0])


class _View(NamedTuple):
    """Releases of one kind, beside own rows, along the axes of E[xxᵀ]."""

    spread: Spread
    axes: Array
    """(p, p): back to the contract's coordinates."""
    second: Array
    """(p,): E[xxᵀ] along the axes."""
    own_variance: Array
    """(p,): of what own rows say about the same thing as the releases."""
    law: RowLaw
    second_error: float
    """Variance that the error of E[xxᵀ] adds to each coordinate of the target."""
    mean_error: float
    """The same for the error of E[x] and the intercept's coordinate."""
    any_intercept: float
    """Variance of the intercept's coordinate where nothing is said about it."""
    apart: Mapping[int, Apart] = MappingProxyType({})
    """What pools say of how far organisations differ, by their place among the releases."""


class _Centre(NamedTuple):
    """One group's centre, along the axes."""

    name: str
    kind: Kind
    target: Array
    variance: Array
    chance: float
    contributions: Array


def moments_candidates(received: Received, own: Records, alone: OwnModel) -> Candidates:
    """Beliefs from moments releases."""
    held, contract = received.moments, received.contract
    n = held.n.astype(np.float64)
    law, second_error, mean_error = row_law(held, contract, own.rows)
    second, axes = np.linalg.eigh(law.second)
    second = np.maximum(second, 1e-9)
    # One record's yx varies by at most E[y²xxᵀ].
    size = 1.0 if own.noise_variance is None else max(float((own.targets**2).mean()), 1e-6)
    values = held.cross / n[:, None] @ axes
    variances = size * second / n[:, None] + ((held.noise_std / n) ** 2)[:, None]
    moved, doubt = _by_rows(held, axes, second, values, variances)
    spread = Spread(
        values - moved,
        variances + doubt[:, None],
        second**2 / (second**2).mean(),
        np.full(len(second), size / (len(second) + 2)),
        _scatter(held),
    )
    # An error e of E[xxᵀ] moves Σyx/n by e·θ, for labels times E[t'] of about 0.3; and θ is as long
    # as the likeliest penalty says.
    length = len(second) / alone.likeliest_penalty * (0.1 if own.noise_variance is None else 1.0)
    constant = contract.constant / contract.full_norm
    errors = length * second_error, length * mean_error * constant**2
    apart = {k: apart_of(held, k, values[k], spread.unit, size * second, own) for k in held.pools}
    view = _View(spread, axes, second, size * second / len(own), law, *errors, constant**2, apart)
    about: About = "labels" if own.noise_variance is None else "targets"
    return _candidates(view, about, held.parties, contract, own, alone)


def _scatter(held: Moments) -> Array:
    """Of what one organisation's truth varies by, the share that its release does."""
    shares = np.ones(len(held))
    for k, pool in held.pools.items():
        part = pool.sizes / pool.sizes.sum()
        shares[k] = part @ part
    return shares


def _by_rows(
    held: Moments, axes: Array, second: Array, values: Array, variances: Array
) -> tuple[Array, Array]:
    """How far its own kind of rows moved each Σyx/n, along the axes; the variance left in that.

    Σyx/n is about E[xxᵀ]w with one w for all, so what an organisation's E[xxᵀ] differs from the
    mean moves it by that difference times w. Both are known with errors: w is drawn towards zero,
    and a released difference counts as far as all of them vary beyond their noise.
    """
    many, p = values.shape
    n = held.n.astype(np.float64)
    noise = (held.noise_std / n) ** 2 * (1 + 1 / p)
    share = (1 / noise) / (1 / noise).sum()
    grams = axes.T @ (held.gram / n[:, None, None]) @ axes
    apart = grams - np.einsum("m,mij->ij", share, grams)
    # The median, so that a few hostile releases cannot say how far honest ones vary; and beyond
    # two standard deviations of what noise does to it.
    beyond = (apart**2).mean(axis=(1, 2)) - noise * (1 + 4 / (p * np.sqrt(many)))
    varies = max(float(np.median(beyond)), 0.0)
    counts = varies / (varies + noise)
    precision = (1 / variances).sum(axis=0)
    mean = (values / variances).sum(axis=0) / precision
    size = max(float(((mean**2 - 1 / precision) / second**2).mean()), 0.0)
    w = mean * second * size / np.maximum(second**2 * size + 1 / precision, 1e-300)
    return counts[:, None] * (apart @ w), counts * noise * float(w @ w)


def learner_candidates(received: Received, own: Records, alone: OwnModel) -> Candidates:
    """Beliefs from received coefficients."""
    held, contract = received.learners, received.contract
    n = held.n.astype(np.float64)
    unit = coefficient_unit(contract)
    theta = held.coefficients * unit
    second, axes = np.linalg.eigh(own.rows.T @ own.rows / len(own))
    second = np.maximum(second, 1e-9)
    # What n rows leave open, penalised as if coefficients were of the size of those received.
    size = float((theta**2).mean()) + 1e-9
    sampling = 1 / (own.curvature * n[:, None] * second + 1 / size)
    spread = Spread(
        theta @ axes,
        sampling + ((held.noise_std * unit) ** 2)[:, None],
        np.ones(len(second)),
        np.full(len(second), 4 * size),
    )
    own_variance = 1 / (own.curvature * len(own) * second + 1 / size)
    law = RowLaw(np.zeros(len(second)), np.eye(len(second)))
    view = _View(spread, axes, second, own_variance, law, 0.0, 0.0, 4 * size)
    return _candidates(view, "coefficients", held.parties, contract, own, alone)


def row_law(held: Moments, contract: Contract, rows: Array) -> tuple[RowLaw, float, float]:
    """Moments of rows from own rows and releases; variances of an entry of E[xxᵀ] and of E[x]."""
    d, p = contract.features, contract.dimension
    n0, n = len(rows), held.n.astype(np.float64)
    table = rows[:, :d]
    own_second = table.T @ table / n0
    squares = (table * table).sum(axis=1)
    one_row = max(float((squares**2).mean() - (own_second**2).sum()) / d**2, 1e-9)
    per_release = one_row / n + (held.noise_std / n) ** 2 * (1 + 1 / d)
    share = (1 / per_release) / (1 / per_release).sum()
    released = np.einsum("m,mij->ij", share / n, held.gram)
    own_error, released_error = one_row / n0, 1 / float((1 / per_release).sum())
    # What the two differ by beyond their errors is the organisation's own way to see rows; the
    # releases were made from theirs.
    spare = own_error + _beyond(released[:d, :d] - own_second, own_error + released_error)
    of_released = spare / (spare + released_error)
    second = of_released * released[:d, :d] + (1 - of_released) * own_second
    error = of_released**2 * released_error + (1 - of_released) ** 2 * own_error
    level = max(float(np.trace(second)) / d, 0.1 * float(np.trace(own_second)) / d, 1e-9)
    # Ledoit and Wolf (2004): towards a multiple of the identity, as far as the error asks for it.
    distance = float(((second - level * np.eye(d)) ** 2).sum())
    shrink = min(1.0, d * d * error / max(distance, 1e-300))
    second = (1 - shrink) * second + shrink * level * np.eye(d)
    mean, mean_error = np.zeros(p), 0.0
    if contract.constant > 0:
        constant = float(rows[0, -1])
        noise = level * float((share**2 / n).sum())
        noise += float(((share * held.noise_std / n) ** 2).sum()) / constant**2
        released_mean, own_mean = released[:d, -1] / constant, table.mean(axis=0)
        spare = level / n0 + _beyond(released_mean - own_mean, level / n0 + noise)
        between = (spare * released_mean + noise * own_mean) / (spare + noise)
        mean_error = spare * noise / (spare + noise)
        # James and Stein (1961): towards zero, in the same way.
        kept = max(0.0, 1 - d * mean_error / max(float(between @ between), 1e-300))
        mean[:d], mean[-1], mean_error = kept * between, constant, kept * mean_error
    values, vectors = np.linalg.eigh(second - np.outer(mean[:d], mean[:d]))
    spread = np.zeros((p, p))
    spread[:d, :d] = (vectors * np.maximum(values, 0.01 * level)) @ vectors.T
    # The rows' own sampling errors are those of Σyx too and largely cancel: noise counts.
    noise_share = 1 - one_row * float((share**2 / n).sum()) / released_error
    error -= of_released**2 * released_error * (1 - noise_share)
    return RowLaw(mean, spread), (1 - shrink) * error, mean_error


def _beyond(differences: Array, error: float) -> float:
    """Mean square of differences beyond two standard deviations of what this error explains."""
    explained = error * (1 + 2 * np.sqrt(2 / differences.size))
    return float(max((differences**2).mean() - explained, 0.0))


def _candidates(
    view: _View,
    about: About,
    parties: tuple[str, ...],
    contract: Contract,
    own: Records,
    alone: OwnModel,
) -> Candidates:
    """Every centre, at its word and for its direction."""
    counts = [1] + [k for k in (2, 3) if len(parties) >= 5 * k]
    tried = [find_groups(view.spread, k) for k in counts]
    centres = list(_centres(view, tried))
    targets = np.array([view.axes @ centre.target for centre in centres])
    variances = np.array([(view.axes * centre.variance) @ view.axes.T for centre in centres])
    freedom = targets[:, :, None] * targets[:, None, :]
    if contract.constant > 0:
        freedom[:, -1, -1] += view.any_intercept
        variances[:, -1, -1] += view.mean_error
    precisions = inverse(np.concatenate([variances, variances + freedom]))
    penalty = _penalty(targets[0], precisions[0], about, view.law, alone)
    informed = own.curvature * len(own) * view.second
    settled = np.array([view.own_variance / (view.own_variance + c.variance) for c in centres])
    # Directions that the penalty holds fast anyway do not count.
    worth = settled @ (informed / (informed + penalty)) / (informed / (informed + penalty)).sum()
    chances = np.array([centre.chance for centre in centres]) * worth
    names = [centre.name for centre in centres]
    contributions = np.array([centre.contributions for centre in centres])
    return Candidates(
        Beliefs(
            np.concatenate([targets, np.zeros_like(targets)]),
            precisions,
            about,
            np.full(2 * len(names), penalty),
            view.law,
        ),
        (*names, *(f"{name}, direction" for name in names)),
        tuple(centre.kind for centre in centres) * 2,
        np.concatenate([(1 - DIRECTION) * chances, DIRECTION * chances]),
        parties,
        np.concatenate([contributions, contributions]),
        1 - tried[0].memberships.sum(axis=1),
    )


def _centres(view: _View, tried: list[Groups]) -> Iterator[_Centre]:
    """Centres of all groups, and chances that they and nothing else explain the releases."""
    prior = np.array([SINGLE_GROUP, *[(1 - SINGLE_GROUP) / 2] * (len(tried) - 1)])
    prior /= prior.sum()
    logs = np.log(prior) + np.array([groups.score for groups in tried])
    chances = (1 - UNSURE) * np.exp(logs - logsumexp(logs)) + UNSURE * prior
    scale = float(view.own_variance.mean())
    unusual = POOL_UNUSUAL if view.apart else UNUSUAL
    for groups, chance in zip(tried, chances, strict=True):
        many = len(groups.shares)
        for k, share in enumerate(groups.shares):
            for t, weight in _between(view, groups, k, scale):
                target, variance, contributions = groups.centre(view.spread, k, t)
                variance = variance + unusual * t * view.spread.unit + view.second_error
                apart = f"apart by {np.sqrt(t / scale):.2g} own errors" if t else "alike"
                yield _Centre(
                    f"all, {apart}" if many == 1 else f"group {k + 1} of {many}",
                    "together" if many == 1 else "group",
                    target,
                    variance,
                    float(chance * share * weight),
                    contributions,
                )


def _between(
    view: _View, groups: Groups, group: int, scale: float
) -> Iterator[tuple[float, float]]:
    """Variances between organisations, and their chances given the releases."""
    if len(groups.shares) > 1:
        yield groups.between, 1.0
        return
    first, largest = 0.1 * scale, float(view.spread.anything.mean()) / 4
    count = int(np.clip(np.log(largest / first) / np.log(_STEP) + 1, 3, 12))
    between = np.append(0.0, first * _STEP ** np.arange(count))
    alike = POOL_ALIKE if view.apart else ALIKE
    prior = np.append(alike, np.full(count, (1 - alike) / count))
    memberships = groups.memberships[:, group]
    logs = np.log(prior) + between_likelihood(view.spread, memberships, between)
    for k, apart in view.apart.items():
        logs = logs + memberships[k] * apart.likelihood(between)
    yield from zip(between.tolist(), np.exp(logs - logsumexp(logs)).tolist(), strict=True)


def _penalty(target: Array, precision: Array, about: About, law: RowLaw, alone: OwnModel) -> float:
    """The ridge penalty that releases and own rows together find likeliest."""
    grid = alone.penalties
    k, p = len(grid), len(target)
    each = Beliefs(
        np.broadcast_to(target, (k, p)), np.broadcast_to(precision, (k, p, p)), about, grid, law
    )
    return float(grid[np.argmax(release_evidence(each) + alone.plausible)])
