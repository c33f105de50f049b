"""Made-up consortia under a study: what its columns could hold, at sites that are not alike.

Nothing is read but the study. Every draw is another scenario: how columns spread within their
bounds and lean to one side, how rare their rarest categories are, how columns go together, how much
they say about the target and by which of them, how far sites differ in who comes, how often, and
why. The ranges below are wide on purpose, since nobody knows which of them is theirs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from sudare.foundations.randomness import Generator
from sudare.study import Block, Categories, Column, Number, Study, label_text, read_every_row

Array = NDArray[np.float64]
STRENGTHS = (0.4, 2.2)
"""Standard deviation of the log-odds: from hardly any effect to an area under the curve of .9."""
EXPLAINED = (0.05, 0.6)
"""Of a number's variance, by the columns."""
BASE_RATES = (0.1, 0.6)
"""Of the second class."""
BASELINES = (0.0, 0.6)
"""Standard deviation between sites, in log-odds or in deviations of the target."""
SLOPES = (0.0, 0.5)
"""Standard deviation of a site's coefficients around those of all, in parts of their typical
size."""
VISITORS = (0.0, 0.6)
"""Standard deviation between sites of a column's middle, in its deviations."""
ALIKE = (0.0, 0.4)
"""Correlation of columns."""
CURVED = (0.0, 0.6)
"""Part of the effects that no straight line tells: curves, and pairs of columns."""
GAPS = 0.05
"""Values that are missing where the study allows it."""


@dataclass(frozen=True)
class Scenario:
    """One made-up world: the same for all its sites but for what each adds."""

    study: Study
    middles: Array
    """Of number columns, with `spreads`, in their own units."""
    spreads: Array
    skews: Array
    """Of each column: 0 for a normal law, its sign for the side of the long tail."""
    shares: dict[str, Array]
    """Of the categories."""
    effects: dict[str, Array]
    """Of the categories, with mean 0; a rare one says no more than a common one."""
    weights: Array
    """Of each column in the score."""
    curved: float
    pairs: NDArray[np.int64]
    alike: float
    strength: float
    explained: float
    level: float
    """Log-odds of the middle row; for numbers where it stands between the bounds."""
    baselines: float
    slopes: float
    visitors: float


def draw_scenario(study: Study, rng: Generator) -> Scenario:
    """Any of the worlds that could be."""
    columns = list(study.columns.values())
    many = len(columns)
    middles, spreads = np.zeros(many), np.ones(many)
    shares, effects = {}, {}
    for place, (name, column) in enumerate(study.columns.items()):
        if isinstance(column, Number):
            low, high = column.middle - column.low, column.high - column.middle
            middles[place] = column.middle + rng.uniform(-0.3, 0.3) * min(low, high)
            # A scale of its own says about how far values spread; bounds, how far at most.
            typical = column.reach / 2 if column.scale is None else column.scale
            spread = rng.uniform(0.4, 1.1) * typical
            spreads[place] = min(spread, (column.high - column.low) / 3)
            continue
        share = np.exp(1.2 * rng.standard_normal(len(column.categories)))
        share /= share.sum()
        effect = rng.standard_normal(len(share))
        shares[name], effects[name] = share, effect - share @ effect
    weights = rng.standard_normal(many) * np.exp(0.8 * rng.standard_normal(many))
    return Scenario(
        study=study,
        middles=middles,
        spreads=spreads,
        skews=rng.choice([-1.0, 0.0, 1.0, 1.0], many),
        shares=shares,
        effects=effects,
        weights=weights / np.linalg.norm(weights),
        curved=float(rng.uniform(*CURVED)),
        pairs=rng.integers(many, size=(many, 2)),
        alike=float(rng.uniform(*ALIKE)),
        strength=float(np.exp(rng.uniform(*np.log(STRENGTHS)))),
        explained=float(rng.uniform(*EXPLAINED)),
        level=float(rng.uniform(*BASE_RATES)),
        baselines=float(rng.uniform(*BASELINES)),
        slopes=float(rng.uniform(*SLOPES)),
        visitors=float(rng.uniform(*VISITORS)),
    )


@dataclass(frozen=True)
class Site:
    """What one site adds to its world."""

    baseline: float
    weights: Array
    visitors: Array


def draw_site(world: Scenario, rng: Generator) -> Site:
    """Any site of this world."""
    many = len(world.weights)
    typical = world.slopes / np.sqrt(many)
    return Site(
        world.baselines * float(rng.standard_normal()),
        world.weights + typical * rng.standard_normal(many),
        world.visitors * rng.standard_normal(many),
    )


def draw_rows(world: Scenario, site: Site, rows: int, rng: Generator) -> Block:
    """Rows of a site, read under the study as an organisation reads its own."""
    many = len(world.weights)
    common = np.sqrt(world.alike) * rng.standard_normal((rows, 1))
    latent = common + np.sqrt(1 - world.alike) * rng.standard_normal((rows, many)) + site.visitors
    table: dict[str, Any] = {}
    parts = np.empty((rows, many))
    for place, (name, column) in enumerate(world.study.columns.items()):
        values, parts[:, place] = _column(world, place, name, column, latent[:, place])
        if column.missing is not None:
            values = [None if gap else v for gap, v in zip(rng.random(rows) < GAPS, values)]  # noqa: B905
        table[name] = values
    straight = parts @ site.weights
    bends = (parts**2 - 1) / np.sqrt(2) + parts[:, world.pairs[:, 0]] * parts[:, world.pairs[:, 1]]
    score = np.sqrt(1 - world.curved) * straight
    score += np.sqrt(world.curved) / 1.5 * (bends @ np.abs(site.weights))
    table[world.study.target.column] = _targets(world, site, score, rng)
    return read_every_row(pa.table(table), world.study)


def _column(
    world: Scenario, place: int, name: str, column: Column, latent: Array
) -> tuple[list[Any], Array]:
    """Its values, and what they count in the score, about 1 in size."""
    if isinstance(column, Categories):
        ends = np.cumsum(world.shares[name])
        codes = np.minimum(np.searchsorted(ends, ndtr(latent)), len(ends) - 1)
        labels = [label_text(label) for label in column.categories]
        return [labels[code] for code in codes], world.effects[name][codes]
    skew = world.skews[place]
    counted = latent
    if skew:
        counted = skew * (np.exp(0.6 * skew * latent) - np.exp(0.18)) / 0.79
    values = np.clip(world.middles[place] + world.spreads[place] * counted, column.low, column.high)
    return values.tolist(), np.clip(counted, -3.0, 3.0)


def _targets(world: Scenario, site: Site, score: Array, rng: Generator) -> list[Any]:
    target, rows = world.study.target, len(score)
    if target.classes is not None:
        odds = np.log(world.level / (1 - world.level)) + site.baseline + world.strength * score
        second = rng.random(rows) < expit(odds)
        labels = [label_text(label) for label in target.classes]
        return [labels[int(each)] for each in second]
    reach = world.study.target_reach
    if target.counts:
        mean = 0.2 * world.level * 2 * reach
        rate = np.log(mean) + 0.5 * (site.baseline + world.strength * score)
        events: list[Any] = rng.poisson(np.exp(np.minimum(rate, 10.0))).astype(float).tolist()
        return events
    noise = np.sqrt(1 - world.explained) * rng.standard_normal(rows)
    deviation = 0.3 * reach
    middle = world.study.target_middle + (world.level - 0.35) * reach
    found = np.sqrt(world.explained) * score + noise + site.baseline
    whole: list[Any] = (middle + deviation * found).tolist()
    return whole
