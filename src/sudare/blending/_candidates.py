"""What releases suggest about own coefficients: normal laws of θ, with chances given before own
labels are seen.

Moments speak about Σyx/n. The law of rows comes from own rows and the released Σxxᵀ, weighted by
their errors and shrunk; what an organisation's own kind of rows did to its Σyx is taken out as far
as its Σxxᵀ tells. The centre of a group of releases is then matched by coefficients (`_matching`);
received coefficients are their own match. Either way that is a normal law of the consortium's θ.

Own θ lies about it as the others' do. Effects of standardised columns vary by t between
organisations: a grid of values, weighed by how well they explain the spread of the releases, and by
what a pooled release says of it (`_pooled`). How common the outcome is, or how high the targets are
(the *level*: the score of an average row) varies by itself, for that often differs where effects
do not; how far is told by the one direction of Σyx/n in which levels move it.

Each law comes twice: taken at its word, and for its *direction* only, when length, sign and
level are left to own rows. That is what survives where rows are not normal at all, or where
others code their labels the other way round.

Own labels are not used, so that own rows can judge fairly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from sudare.blending._explain import Kind
from sudare.blending._groups import Groups, Spread, between_likelihood, find_groups, pooled
from sudare.blending._matching import RowLaw, matched
from sudare.blending._own import PENALTIES, USUAL, WIDTH, Shape, shape_of, spreads
from sudare.blending._pooled import Apart, apart_of
from sudare.blending._received import Moments, Received, coefficient_unit
from sudare.blending._records import Array, Laws, Records
from sudare.blending._rowlaws import Rows, released_law, row_law
from sudare.learners import inverse

ALIKE = 0.5
"""Chance that effects do not differ at all, before the releases are seen."""
DIRECTION = 0.1
"""Chance that a law holds for its direction only."""
FREE = 0.25
"""Of the laws at their word, the share that leaves their length to own rows."""
UNUSUAL = 1.0
"""Own truth's variance about the centre, against that of the others."""
POOL_ALIKE, POOL_UNUSUAL = 0.2, 2.0
"""The same with a pooled release: a sum hides who differs, and tells how far all of them do."""
SINGLE_GROUP = 0.6
"""Chance that all organisations are of one kind, before the releases are seen."""
UNSURE = 0.15
"""Share of the chances of one, two or three kinds that the releases cannot move."""
BETWEEN = np.array([0.05, 0.1, 0.2, 0.4, 0.8]) ** 2
"""t: variances of the effects of standardised columns, in log-odds or deviations of the targets."""
LEVELS, LEVELS_KNOWN = 0.5, 2.0
"""Variance of levels before the releases are seen, in the same units, and how many organisations
that guess is worth."""
VAGUE, FEW = 0.5, 50.0
"""What a law could settle counts to this power: vague laws are worth little, and risk little. With
fewer own rows than `FEW` to less, in proportion: the own model has little to lose then."""
LENGTH = 0.25
"""Variance of own length, against the consortium's, where it is left to own rows."""
ANY_LEVEL = 4.0
"""Variance of own level where it is left to own rows."""


@dataclass(frozen=True)
class Candidates:
    """Laws of own θ, their names and chances, and whom they come from.

    The chances add up to at most one. What is missing is the own model's: laws too vague to add
    much to own rows are not worth their risk.
    """

    laws: Laws
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    chances: Array
    parties: tuple[str, ...]
    contributions: Array
    """(K, M): share of each party's release in each law."""
    doubts: Array
    """(M,): chance that a release fits no group."""
    prior: Array
    """(p, p): precision of θ about zero, had there been no release."""


class _View(NamedTuple):
    """Releases of one kind along axes in which their errors are diagonal."""

    spread: Spread
    axes: Array
    """(p, p): back to the contract's coordinates."""
    level_axis: int | None
    """The axis along which levels vary."""
    level_move: float
    """How far the released thing moves along it if the level moves by one of the scale's units."""
    target_error: Array
    """(p, p): variance of every target by the error of the law of rows."""
    law: RowLaw | None
    """Of rows, for moments; coefficients need none."""
    apart: Mapping[int, Apart] = MappingProxyType({})
    """What pools say of how far organisations differ, by their place among the releases."""


class _Scale(NamedTuple):
    """In which units own θ differs from the consortium's."""

    shape: Shape
    slopes: Array
    """(p, p): covariance of θ if effects of standardised columns vary by one."""
    level: Array
    """(p, p): the same for levels."""
    size: float
    """Of effects and levels: 1 for labels, the variance of own targets otherwise."""


class _Centre(NamedTuple):
    """One group's centre, along the axes."""

    name: str
    kind: Kind
    target: Array
    variance: Array
    between: float
    level: float
    chance: float
    contributions: Array


def moments_candidates(received: Received, own: Records) -> tuple[Candidates, Candidates]:
    """Laws from moments releases, under either law of rows: `row_law` and `released_law`."""
    held, contract = received.moments, received.contract
    return (
        _from_moments(held, row_law(held, contract, own.rows), own),
        _from_moments(held, released_law(held, own), own),
    )


def _from_moments(held: Moments, rows: Rows, own: Records) -> Candidates:
    law, second_error, mean_error = rows
    n = held.n.astype(np.float64)
    size = 1.0 if own.noise_variance is None else max(float((own.targets**2).mean()), 1e-6)
    noise = (held.noise_std / n) ** 2
    moved, doubt = _by_rows(held, law.second, size)
    scale = _scale(own, np.diag(law.spread), law.mean)
    axes = _axes(law.second, scale.slopes, law.mean if own.constant > 0 else None)
    second = np.maximum(np.einsum("ia,ij,ja->a", axes, law.second, axes), 1e-9)
    values = (held.cross / n[:, None] - moved) @ axes
    # One record's yx varies by E[y²xxᵀ] less its mean's square, but for what that errs by itself.
    within = size * second
    sampled = within / n[:, None] + (noise + doubt)[:, None]
    middle = (values / sampled).sum(axis=0) / (1 / sampled).sum(axis=0)
    within = np.clip(within - middle**2 + 1 / (1 / sampled).sum(axis=0), within / 2, within)
    variances = within / n[:, None] + (noise + doubt)[:, None]
    anything = np.full(len(second), size / (len(second) + 2))
    spread = Spread(values, variances, np.zeros(len(second)), anything, _scatter(held))
    labels = own.noise_variance is None
    moves, length = _first_match(spread, axes, law, scale, labels)
    spread = _with_unit(spread, axes, moves, scale)
    # An error e of E[xxᵀ] moves Σyx/n by e·θ, for labels times E[t'] of about 0.3.
    length *= 0.1 if labels else 1.0
    target_error = length * second_error * np.eye(len(second))
    level_axis, level_move = None, 0.0
    if own.constant > 0:
        target_error[-1, -1] += length * mean_error * own.constant**2
        level_axis = len(second) - 1
        level_move = float(axes[:, -1] @ moves[:, -1]) / own.constant * scale.size**0.5
    apart = {k: apart_of(held, k, values[k], spread.unit, size * second, own) for k in held.pools}
    view = _View(spread, axes, level_axis, level_move, target_error, law, apart)
    return _candidates(view, held.parties, own, scale)


def _axes(second: Array, slopes: Array, mean: Array | None) -> Array:
    """Eigenvectors of E[xxᵀ]; with an intercept those across E[x], along which levels move Σyx/n,
    and that direction last.

    Where rows vary alike in several directions, those in which effects that differ move Σyx/n:
    otherwise rounding would choose.
    """
    moved = second @ slopes @ second
    whole = second / np.trace(second) + 1e-3 * moved / np.trace(moved)
    if mean is None:
        vectors: Array = np.linalg.eigh(whole)[1]
        return vectors
    along = mean / np.linalg.norm(mean)
    across = np.linalg.svd(along[None])[2][1:].T
    turned = across @ np.linalg.eigh(across.T @ whole @ across)[1]
    return np.column_stack([turned, along])


def _scale(own: Records, variances: Array, middle: Array) -> _Scale:
    """From the variances of columns and the average row."""
    d = len(middle) - (own.constant > 0)
    spread = np.maximum(variances[:d], 1e-9)
    # Between standardised columns and columns as they are: which one it is nobody knows.
    spread = np.sqrt(spread * spread.mean())
    slopes, level = np.zeros((len(middle),) * 2), np.zeros((len(middle),) * 2)
    keeps = np.eye(len(middle))[:, :d]
    if own.constant > 0:
        keeps[-1] = -middle[:d] / own.constant
        level[-1, -1] = 1 / own.constant**2
    slopes = (keeps / spread) @ keeps.T
    size = 1.0 if own.noise_variance is None else max(float(own.targets.var()), 1e-6)
    return _Scale(shape_of(own, spread, middle), slopes, level, size)


def _first_match(
    spread: Spread, axes: Array, law: RowLaw, scale: _Scale, labels: bool
) -> tuple[Array, float]:
    """How Σyx/n moves with θ, and ‖θ‖², where all releases together are if they are alike."""
    centre, variance, _ = pooled(spread, np.ones(len(spread.values)), 0.0)
    precision = (axes / variance) @ axes.T
    prior = scale.shape.precision(np.array([USUAL / scale.size]))
    found = matched((axes @ centre)[None], precision[None], prior, law, labels)
    return found.slopes[0], float((found.laws.mean[0] ** 2).sum())


def _with_unit(spread: Spread, axes: Array, moves: Array, scale: _Scale) -> Spread:
    """Effects that vary by one move the released thing by this variance."""
    turned = axes.T @ moves
    unit = np.maximum(np.einsum("ai,ij,aj->a", turned, scale.slopes, turned), 0.0) * scale.size
    return Spread(spread.values, spread.variances, unit, spread.anything, spread.scatter)


def _scatter(held: Moments) -> Array:
    """Of what one organisation's truth varies by, the share that its release does."""
    shares = np.ones(len(held))
    for k, pool in held.pools.items():
        part = pool.sizes / pool.sizes.sum()
        shares[k] = part @ part
    return shares


def _by_rows(held: Moments, second: Array, size: float) -> tuple[Array, Array]:
    """How far its own kind of rows moved each Σyx/n; the variance left in that, of every entry.

    Σyx/n is about E[xxᵀ]w with one w for all, so what an organisation's E[xxᵀ] differs from the
    mean moves it by that difference times w. Both are known with errors: w is drawn towards zero,
    and a released difference counts as far as all of them vary beyond their noise.
    """
    many, p = len(held), len(second)
    n = held.n.astype(np.float64)
    noise = (held.noise_std / n) ** 2
    values, axes = np.linalg.eigh(second)
    values = np.maximum(values, 1e-9)
    precision = 1 / (size * values / n[:, None] + noise[:, None])
    total = precision.sum(axis=0)
    mean = (precision * (held.cross / n[:, None] @ axes)).sum(axis=0) / total
    # E[mean²] = length·values² + 1/total along each axis; a ratio of sums, for along axes in which
    # rows hardly vary a ratio is noise over next to nothing.
    length = float((mean**2 - 1 / total).sum() / (values**2).sum())
    w = axes @ (mean * values * max(length, 0.0) / (values**2 * max(length, 0.0) + 1 / total))
    noise = noise * (1 + 1 / p)
    share = (1 / noise) / (1 / noise).sum()
    grams = held.gram / n[:, None, None]
    apart = grams - np.einsum("m,mij->ij", share, grams)
    # The median, so that a few hostile releases cannot say how far honest ones vary; and beyond
    # two standard deviations of what noise does to it.
    beyond = (apart**2).mean(axis=(1, 2)) - noise * (1 + 4 / (p * np.sqrt(many)))
    varies = max(float(np.median(beyond)), 0.0)
    counts = varies / (varies + noise)
    return counts[:, None] * (apart @ w), counts * noise * float(w @ w)


def learner_candidates(received: Received, own: Records) -> Candidates:
    """Laws from received coefficients."""
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
        np.zeros(len(second)),
        np.full(len(second), 4 * size),
    )
    scale = _scale(own, spreads(own), own.rows.mean(axis=0))
    p = len(second)
    spread = _with_unit(spread, axes, np.eye(p), scale)
    view = _View(spread, axes, None, 0.0, np.zeros((p, p)), None)
    return _candidates(view, held.parties, own, scale)


def _candidates(view: _View, parties: tuple[str, ...], own: Records, scale: _Scale) -> Candidates:
    """Every centre, at its word, with its length left open, and for its direction."""
    level = _levels(view)
    counts = [1] + [k for k in (2, 3) if len(parties) >= 5 * k]
    tried = [find_groups(_at_level(view, level), k) for k in counts]
    centres = list(_centres(view, tried, level))
    behind, prior = _behind(view, centres, own, scale)
    covariance = inverse(behind.precision)
    apart = np.array([[c.between, c.level] for c in centres]) * scale.size
    around = covariance + apart[:, 0, None, None] * scale.slopes
    around += apart[:, 1, None, None] * scale.level
    mean = behind.mean
    lengths = mean[:, :, None] * mean[:, None, :]
    any_level = ANY_LEVEL * scale.size * scale.level
    laws = Laws(
        np.concatenate([mean, mean, np.zeros_like(mean)]),
        inverse(
            np.concatenate(
                [around, around + LENGTH * lengths + any_level, around + lengths + any_level]
            )
        ),
    )
    chances = np.array([centre.chance for centre in centres])
    shares = ((1 - DIRECTION) * (1 - FREE), (1 - DIRECTION) * FREE, DIRECTION)
    chances = np.concatenate([share * chances for share in shares])
    names = [centre.name for centre in centres]
    contributions = np.array([centre.contributions for centre in centres])
    return Candidates(
        laws,
        (*names, *(f"{n}, any length" for n in names), *(f"{n}, direction" for n in names)),
        tuple(centre.kind for centre in centres) * 3,
        chances * _worth(laws, prior, own) ** (VAGUE * min(1.0, len(own) / FEW)),
        parties,
        np.concatenate([contributions] * 3),
        1 - tried[0].memberships.sum(axis=1),
        prior,
    )


def _worth(laws: Laws, prior: Array, own: Records) -> Array:
    """Of the loss that own rows leave open, the share that each law would settle if it is true."""
    second = own.rows.T @ own.rows / len(own)
    told = own.curvature * len(own) * second
    alone = float((inverse(told + prior) * second).sum())
    with_law = (inverse(told + laws.precision) * second).sum(axis=(1, 2))
    worth: Array = np.clip(1 - with_law / max(alone, 1e-300), 0.0, 1.0)
    return worth


def _behind(view: _View, centres: list[_Centre], own: Records, scale: _Scale) -> tuple[Laws, Array]:
    """The consortium's θ behind each centre, under the penalty that releases find likeliest."""
    targets = np.array([view.axes @ centre.target for centre in centres])
    variances = np.array([(view.axes * c.variance) @ view.axes.T for c in centres])
    precisions = inverse(variances + view.target_error)
    grid = PENALTIES / scale.size
    priors = scale.shape.precision(grid)
    likeliest = int(np.argmax([centre.chance for centre in centres]))
    if view.law is None:
        penalty = USUAL / scale.size
        prior = scale.shape.precision(np.array([penalty]))[0]
        total = precisions + prior
        pulled = np.einsum("kij,kj->ki", precisions, targets)
        return Laws(np.einsum("kij,kj->ki", inverse(total), pulled), total), prior
    labels = own.noise_variance is None
    each = matched(
        np.broadcast_to(targets[likeliest], (len(grid), len(view.axes))),
        np.broadcast_to(precisions[likeliest], priors.shape),
        priors,
        view.law,
        labels,
    )
    usual = -((np.log(PENALTIES / USUAL) / WIDTH) ** 2) / 2
    prior = priors[int(np.argmax(each.evidence + usual))]
    found = matched(targets, precisions, np.broadcast_to(prior, precisions.shape), view.law, labels)
    return found.laws, prior


def _levels(view: _View) -> float:
    """Variance of levels between organisations, in units of the scale's size."""
    if view.level_axis is None:
        return LEVELS
    per_one = view.level_move**2
    axis = view.level_axis
    values, variances = view.spread.values[:, axis], view.spread.variances[:, axis]
    alone = np.ones(len(values)) if len(view.spread.scatter) == 1 else view.spread.scatter
    if not (alone == 1).all() or len(values) < 2 or per_one <= 0:
        return LEVELS
    share = (1 / variances) / (1 / variances).sum()
    middle = float(share @ values)
    # Medians, for a few hostile releases.
    beyond = float(np.median((values - middle) ** 2) / 0.455 - np.median(variances)) / per_one
    known = len(values) - 1
    found = (LEVELS_KNOWN * LEVELS + known * max(beyond, 0.0)) / (LEVELS_KNOWN + known)
    return float(np.clip(found, 0.0, 10 * LEVELS))


def _at_level(view: _View, level: float) -> Spread:
    """The spread of the releases if levels vary so."""
    spread = view.spread
    if view.level_axis is None:
        return spread
    variances = spread.variances.copy()
    variances[:, view.level_axis] += level * view.level_move**2
    return Spread(spread.values, variances, spread.unit, spread.anything, spread.scatter)


def _centres(view: _View, tried: list[Groups], level: float) -> Iterator[_Centre]:
    """Centres of all groups, and chances that they and nothing else explain the releases."""
    prior = np.array([SINGLE_GROUP, *[(1 - SINGLE_GROUP) / 2] * (len(tried) - 1)])
    prior /= prior.sum()
    logs = np.log(prior) + np.array([groups.score for groups in tried])
    chances = (1 - UNSURE) * softmax(logs) + UNSURE * prior
    unusual = POOL_UNUSUAL if view.apart else UNUSUAL
    for groups, chance in zip(tried, chances, strict=True):
        many = len(groups.shares)
        for k, share in enumerate(groups.shares):
            for t, at_level, weight in _between(view, groups, k, level):
                target, variance, contributions = groups.centre(_at_level(view, at_level), k, t)
                yield _Centre(
                    f"all, {_apart(t, at_level)}" if many == 1 else f"group {k + 1} of {many}",
                    "together" if many == 1 else "group",
                    target,
                    variance,
                    unusual * t,
                    unusual * at_level,
                    float(chance * share * weight),
                    contributions,
                )


def _apart(between: float, level: float) -> str:
    if between:
        return f"effects apart by {np.sqrt(between):.2g}"
    return "levels apart" if level else "alike"


def _between(
    view: _View, groups: Groups, group: int, level: float
) -> Iterator[tuple[float, float, float]]:
    """Variances of effects and of levels between organisations, and their chances."""
    if len(groups.shares) > 1:
        yield groups.between, level, 1.0
        return
    alike = POOL_ALIKE if view.apart else ALIKE
    between = np.concatenate([[0.0, 0.0], BETWEEN])
    levels = np.array([0.0] + [level] * (len(between) - 1))
    prior = np.array([alike / 2] * 2 + [(1 - alike) / len(BETWEEN)] * len(BETWEEN))
    memberships = groups.memberships[:, group]
    logs = np.log(prior)
    logs[:1] += between_likelihood(_at_level(view, 0.0), memberships, between[:1])
    logs[1:] += between_likelihood(_at_level(view, level), memberships, between[1:])
    for k, apart in view.apart.items():
        logs = logs + memberships[k] * apart.likelihood(between)
    chances = softmax(logs)
    yield from zip(between.tolist(), levels.tolist(), chances.tolist(), strict=True)
