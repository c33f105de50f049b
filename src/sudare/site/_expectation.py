"""What a study may gain its organisations, as a range: simulated, before anyone commits.

Many made-up consortia (`_scenarios`) with the study's columns, its terms and the parties' sizes;
in each one party, drawn at random, predicts new rows of its own site with its own model, with the
others' separate releases, with a pool, and with all rows in one place. Public facts only: the study
and numbers of rows, never data.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.blending import HedgedBlend
from sudare.foundations import checks
from sudare.foundations.randomness import Generator, seeded
from sudare.learners import MomentsClassifier, MomentsRegressor
from sudare.pooling import Member, PoolPlan, PoolTerms, session_steps, simulated_release
from sudare.releases import Contract, MomentsRelease, PooledRelease, Release, without
from sudare.site._plan import SIGNS, make_learner
from sudare.site._scenarios import draw_rows, draw_scenario, draw_site
from sudare.study import Block, Study

Array = NDArray[np.float64]
TEST_ROWS = 4000
FEWEST_ROWS, FEWEST_TO_POOL = 10, 3
_MOST_WORK = 2e8
_SECONDS, _SECONDS_PER_PARTY, _SECONDS_PER_CELL = 0.02, 6e-4, 6.5e-7
WAYS = ("separate", "pooled", "everything")
_PRIVATE = {"separate": "with separate releases", "pooled": "with a pool"}
_VISIBLE = 0.5


@dataclass(frozen=True)
class Gains:
    """Over the own model, in points, of one way to learn together: one number a consortium."""

    each: tuple[float, ...]

    def quantile(self, share: float) -> float:
        """So many of the consortia gain less."""
        return float(np.quantile(self.each, share))

    @property
    def low(self) -> float:
        """Nine of ten gain more."""
        return self.quantile(0.1)

    @property
    def half(self) -> float:
        """Half of them gain less."""
        return self.quantile(0.5)

    @property
    def high(self) -> float:
        """Nine of ten gain less."""
        return self.quantile(0.9)

    @property
    def mean(self) -> float:
        """Over all consortia."""
        return float(np.mean(self.each))


@dataclass(frozen=True)
class Expectation:
    """What may be gained, over the made-up consortia."""

    study: Study
    sizes: tuple[int, ...]
    runs: int
    seed: int
    own: tuple[float, ...]
    """Share correct, or share of the variance explained, of the own model alone."""
    gains: dict[str, Gains]
    """By way: separate releases, pooled (three parties or more), everything in one place."""

    @cached_property
    def best(self) -> str:
        """The way, of those that are private, that gains more in the middle, or else at best."""
        ways = [way for way in _PRIVATE if way in self.gains]
        return max(ways, key=lambda way: (round(self.gains[way].half, 1), self.gains[way].high))

    @property
    def unit(self) -> str:
        """What points are of."""
        return "share correct" if self.study.task == "classification" else "variance explained"

    @property
    def verdict(self) -> str:
        """Two sentences, and no more than they can bear."""
        gain, whole = self.gains[self.best], self.gains["everything"]
        if max(self.gains[way].high for way in _PRIVATE if way in self.gains) < _VISIBLE:
            ways = " or ".join(_PRIVATE[way] for way in _PRIVATE if way in self.gains)
            first = (
                f"Expect nothing that one can see: {ways}, nine of ten simulated consortia gain "
                f"less than half a point of {self.unit}."
            )
        else:
            how = _PRIVATE[self.best].capitalize()
            first = (
                f"{how}, eight of ten simulated consortia gain between {_points(gain.low)} and "
                f"{_points(gain.high)} points of {self.unit}; half of them gain less than "
                f"{_points(gain.half)}."
            )
        return (
            f"{first} All rows in one place would bring between {_points(whole.low)} and "
            f"{_points(whole.high)}."
        )


def seconds_needed(study: Study, sizes: Sequence[int], runs: int) -> float:
    """About how long a simulation takes on one core."""
    p = len(study.features) + 1
    cells = (sum(sizes) + TEST_ROWS) * p
    return runs * (_SECONDS + _SECONDS_PER_PARTY * len(sizes) + _SECONDS_PER_CELL * cells)


def expect(
    study: Study,
    sizes: Sequence[int],
    *,
    colluders: int | None = None,
    runs: int = 40,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Expectation:
    """Simulate consortia of parties with so many rows each, at the study's terms.

    Args:
        colluders: Of the pool; by default what `sudare pool new` writes.
    """
    sizes = tuple(sizes)
    checks.count(runs=runs)
    if len(sizes) < 2 or min(sizes) < FEWEST_ROWS:
        raise checks.InvalidInput(
            f"Expected the rows of two parties or more, each with {FEWEST_ROWS} or more: fewer "
            "cannot judge a blend"
        )
    if sum(sizes) * len(study.features) > _MOST_WORK:
        raise checks.InvalidInput("Expected a smaller plan: rows times features above 2e8")
    rng = seeded(seed)
    many = max(len(sizes) - 1, 0) // 2 if colluders is None else colluders
    world = _World(study, sizes, many)
    found: list[dict[str, float]] = []
    for run in range(runs):
        found.append(world.judge(rng))
        progress(run + 1, runs)
    own = [each.pop("own") for each in found]
    gains = {
        way: Gains(tuple(100 * (each[way] - o) for each, o in zip(found, own, strict=True)))
        for way in WAYS
        if way in found[0]
    }
    return Expectation(study, sizes, runs, seed, tuple(own), gains)


@dataclass(frozen=True)
class _World:
    """What all simulated consortia share."""

    study: Study
    sizes: tuple[int, ...]
    colluders: int

    @cached_property
    def contract(self) -> Contract:
        contract = self.study.contract
        if contract.classes is None:
            return contract
        return msgspec.structs.replace(contract, classes=SIGNS)

    @cached_property
    def terms(self) -> PoolTerms | None:
        """Of a pool of moments, if there are enough parties and a δ."""
        privacy = self.study.privacy
        if len(self.sizes) < FEWEST_TO_POOL or privacy.delta == 0:
            return None
        members = tuple(Member(name=str(i), key=f"{i:043d}") for i in range(len(self.sizes)))
        return PoolTerms.of(
            PoolPlan(
                study=self.study.digest(),
                contract=self.contract,
                epsilon=privacy.epsilon,
                delta=privacy.delta,
                colluders=self.colluders,
                members=members,
                unit=privacy.unit,
            )
        )

    def judge(self, rng: Generator) -> dict[str, float]:
        """One consortium, one party: how well it predicts in every way."""
        world = draw_scenario(self.study, rng)
        sites = [draw_site(world, rng) for _ in self.sizes]
        held = [draw_rows(world, *each, rng) for each in zip(sites, self.sizes, strict=True)]
        place = int(rng.integers(len(self.sizes)))
        own = held[place]
        test = draw_rows(world, sites[place], TEST_ROWS, rng)
        others = [block for number, block in enumerate(held) if number != place]
        releases: list[Release] = [
            self.release(block, f"party {number}", rng) for number, block in enumerate(others)
        ]
        found = {"own": self.score(self.fit([], own), test)}
        found["separate"] = self.score(self.fit(releases, own), test)
        if self.terms is not None:
            pooled = self.pooled(self.terms, held, place, rng)
            found["pooled"] = self.score(self.fit([pooled], own), test)
        whole = Block(np.concatenate([b.rows for b in held]), np.concatenate([_y(b) for b in held]))
        found["everything"] = self.score(self.fit([], whole), test)
        return found

    def fit(self, releases: Sequence[Release], own: Block) -> HedgedBlend:
        made = HedgedBlend(list(releases), contract=self.contract)
        made.fit(own.rows, _y(own))
        return made

    def score(self, made: HedgedBlend, test: Block) -> float:
        """Share correct, or share of the variance explained."""
        predicted, y = made.predict(test.rows), _y(test)
        if self.study.task == "classification":
            return float(np.mean(predicted == y))
        return 1 - float(np.mean((predicted - y) ** 2) / max(float(np.var(y)), 1e-12))

    def release(self, block: Block, party: str, rng: Generator) -> Release:
        """What this party would publish under the study, drawn with a seed."""
        learner = make_learner(self.study)
        if not isinstance(learner, MomentsClassifier | MomentsRegressor):
            learner.set_params(rng=int(rng.integers(2**31)))
            made: Release = learner.fit(block.rows, _y(block)).release(party)
            return made
        # In law what the learner releases, whose grid is too fine to tell, without a fit.
        contract, n = self.contract, len(block.rows)
        rows, y = contract.rows(block.rows) / contract.full_norm, _y(block)
        std = learner.public_noise(n, contract.features).noise_std
        upper = np.triu_indices(contract.dimension)
        wide = np.where(upper[0] == upper[1], math.sqrt(2), 1.0)
        return MomentsRelease(
            party=party,
            contract=contract,
            n=n,
            event=learner.plan(),
            noise_std=std,
            simulated=True,
            cross=tuple((y @ rows + std * rng.standard_normal(rows.shape[1])).tolist()),
            gram=tuple((rows.T @ rows)[upper] + std * wide * rng.standard_normal(len(wide))),
        )

    def pooled(
        self, terms: PoolTerms, held: Sequence[Block], place: int, rng: Generator
    ) -> PooledRelease:
        """The sum of all, less the own part."""
        (session,) = terms.sessions
        steps = [session_steps(session, self.contract, block.rows, _y(block)) for block in held]
        noise = session.shares().scale * math.sqrt(len(held)) * rng.standard_normal(len(steps[0]))
        total = np.sum(steps, axis=0) + np.rint(noise).astype(np.int64)
        release = simulated_release(terms, total, self.sizes)
        own = held[place]
        return without(release, terms.plan.members[place].key, own.rows, _y(own))


def _y(block: Block) -> Any:
    assert block.targets is not None
    return block.targets


def _points(value: float) -> str:
    """0.4, −0.2; never −0.0."""
    text = f"{value:.1f}"
    return "0.0" if text == "-0.0" else text.replace("-", "−")
