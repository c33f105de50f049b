"""What one sum over all organisations gains over separate releases, and over gradients.

Everybody's moments are added up under masks, with one noise for all (consortia/pooled.py), at
(ε, 1e-5) if at least M − c of the M organisations keep their share of the noise to themselves. One
of the numbers says how far organisations differ; all that this costs is in the noise. Whether a
pooled release ever hurts is asked in pooling_harm.

- *In the blend*: the sum without own rows, as one release in the hedged blend with own rows.
- *Separate*: every other organisation's own release in the hedged blend.
- *Moments alone*: a model from the sum and nothing else.
- *Gradients*: thirty sessions of summed gradients at the same (ε, δ) on a schedule of public
  numbers (consortia/sessions.py); *gradients in the blend* takes the coefficients found so as
  what all others released. *Both*: half the budget on moments, then gradients from there, and both
  in the blend.
- *Own* is what the hedged blend makes of no release, *pooled* the same of all rows in one place.

*Gap closed* is (method − own)/(pooled − own), the ratio of means over runs with its standard error
(delta method), for each ε in turn. Where pooled is hardly better than own it means little; the gain
in points (hundredths) beside it does. Classes are judged by accuracy and by the area under the ROC
curve (AUC; of pairs at the same site), numbers by the share of the squares about everybody's mean
that is explained (R²).

Synthetic data: rows uniform on the unit sphere, logistic labels with ‖θ‖ = 5, 100 organisations of
50 rows; *wide*: 40 organisations, 50 or 100 features. Real tables: medical records dealt out over
organisations, heart patients of four hospitals, and tables from many sites (consortia/sites.py); at
hospitals and sites each run lets some of them in turn learn from seven tenths of their own rows and
all of the others', and judges them on the rest.

Seeds from 9000 on: nothing was tuned on these draws and splits.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from os import cpu_count
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.consortia import Array, Consortium, moments
from benchmarks.consortia.outcomes import Outcome
from benchmarks.consortia.pooled import pooled_sum
from benchmarks.consortia.real import Study, missing, studies
from benchmarks.consortia.sessions import as_release, gradient_sessions
from benchmarks.consortia.sites import missing_sites, site_studies
from benchmarks.consortia.synthetic import synthetic
from benchmarks.table import Row, markdown
from papers.blends import UniformAverage
from sudare.blending import HedgedBlend

EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0)
FIRST_SEED = 9000
AIMS = {
    "synthetic, d = 20": {0.1: 0.6, 0.3: 0.9, 1.0: 0.95},
    "synthetic, d = 5": {0.1: 0.75, 0.3: 0.85, 1.0: 0.9},
    "Pima over 10": {1.0: 0.45},
}
"""Gap in accuracy that the pooled sum shall close in the blend, c = 0."""
WIDE = 40
"""Organisations of wide synthetic data: 2,000 rows."""
TURNS = 12
"""Hospitals or sites that learn in each run."""

OWN, POOLED, SEPARATE = "own", "pooled", "separate"
BLEND, BLEND_HALF = "in the blend, c = 0", "in the blend, c = M/2"
ALONE, ALONE_HALF = "moments alone, c = 0", "moments alone, c = M/2"
GRADIENTS, GRADIENTS_BLEND, BOTH = "gradients", "gradients in the blend", "both"
METHODS = (
    BLEND,
    BLEND_HALF,
    SEPARATE,
    ALONE,
    ALONE_HALF,
    GRADIENTS,
    GRADIENTS_BLEND,
    BOTH,
)

Measure = Literal["accuracy", "AUC", "R²"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
Key = tuple[float, str, Measure]
"""ε, method and measure."""
Scores = dict[Key, float]


class Task(NamedTuple):
    """One run of one set."""

    name: str
    seed: int


class Tally(NamedTuple):
    """A score as a share, so that several test sets can be added up."""

    got: float
    total: float


def run(quick: bool) -> list[Row]:
    """All sets on fresh seeds, or one seed of each."""
    return report(judge_all(tasks(1 if quick else 24, FIRST_SEED), cpu_count() or 1))


def sets() -> dict[str, tuple[Study, int]]:
    """What can be run here, and how many organisations learn in turn in a run."""
    made = [Study(f"synthetic, d = {d}", partial(synthetic, "iid", d)) for d in (20, 5)]
    made += [Study(f"wide, d = {d}", partial(_wide, d)) for d in (50, 100)]
    found = {study.name: (study, 1) for study in made}
    for study in studies():
        found[study.name] = (study, 4 if study.name.startswith("heart") else 1)
    return found | {study.name: (study, TURNS) for study in site_studies()}


def tasks(seeds: int, first_seed: int) -> list[Task]:
    """Every set with every seed."""
    return [Task(name, first_seed + i) for name in sets() for i in range(seeds)]


def judge_all(chosen: Sequence[Task], processes: int) -> dict[Task, Scores]:
    """Scores of all tasks, over some processes."""
    if processes == 1:
        return {task: judge(task) for task in chosen}
    with get_context("spawn").Pool(processes) as pool:
        return dict(zip(chosen, pool.imap(judge, chosen, chunksize=1), strict=True))


def judge(task: Task) -> Scores:
    """All methods at all ε in one run."""
    study, turns = sets()[task.name]
    together: dict[Key, list[Tally]] = defaultdict(list)
    with threadpool_limits(1):
        for seed in range(turns * task.seed, turns * (task.seed + 1)):
            for key, tally in _tallies(study.deal(seed), seed):
                together[key].append(tally)
    return {
        key: sum(tally.got for tally in found) / max(sum(tally.total for tally in found), 1e-300)
        for key, found in together.items()
    }


def _wide(features: int, seed: int) -> Consortium:
    whole = synthetic("iid", features, seed)
    return replace(whole, others=whole.others[: WIDE - 1], tampering=None)


def _tallies(consortium: Consortium, seed: int) -> Iterator[tuple[Key, Tally]]:
    own = (consortium.own_X, consortium.own_y)
    alone = HedgedBlend([], contract=consortium.contract)
    same = {
        OWN: _scores(alone.fit(*own), consortium),
        POOLED: _scores(alone.fit(*consortium.pooled()), consortium),
    }
    for i, epsilon in enumerate(EPSILONS):
        found = same | _found(consortium, epsilon, 10 * seed + i)
        for method, scores in found.items():
            for measure, tally in measured(consortium, scores):
                yield (epsilon, method, measure), tally


def _found(consortium: Consortium, epsilon: float, seed: int) -> dict[str, Array]:
    """Scores of the test rows by every method."""
    own = (consortium.own_X, consortium.own_y)
    half = (1 + len(consortium.others)) // 2

    def blended(*releases: Any) -> Array:
        return _scores(HedgedBlend(releases).fit(*own), consortium)

    found = {SEPARATE: blended(*moments(consortium, epsilon, seed))}
    for colluders, in_blend, by_itself in ((0, BLEND, ALONE), (half, BLEND_HALF, ALONE_HALF)):
        total = pooled_sum(consortium, epsilon, seed, colluders=colluders)
        found[in_blend] = blended(total.without(own).release(epsilon))
        found[by_itself] = _scores(UniformAverage([total.release(epsilon)]).fit(*own), consortium)
    descent = gradient_sessions(consortium, epsilon, seed)
    rows = consortium.contract.rows(consortium.test_X)
    found[GRADIENTS] = rows @ descent.theta
    found[GRADIENTS_BLEND] = blended(as_release(consortium, descent, epsilon))
    found[BOTH] = blended(*_both(consortium, epsilon, seed))
    return found


def _both(consortium: Consortium, epsilon: float, seed: int) -> list[Any]:
    """Half of μ² on moments, the other half on gradients from where the moments lead."""
    own = (consortium.own_X, consortium.own_y)
    total = pooled_sum(consortium, epsilon, seed, share=0.5)
    model = UniformAverage([total.release(epsilon)]).fit(*own)
    start = model.weights_ @ model.components_
    descent = gradient_sessions(consortium, epsilon, seed, share=0.5, start=start)
    return [total.without(own).release(epsilon), as_release(consortium, descent, epsilon)]


def _scores(model: Any, consortium: Consortium) -> Array:
    classifies = consortium.contract.task == "classification"
    judge = model.decision_function if classifies else model.predict
    scores: Array = judge(consortium.test_X)
    return scores


def measured(consortium: Consortium, scores: Array) -> Iterator[tuple[Measure, Tally]]:
    truth: NDArray[Any] = consortium.test_y
    if consortium.contract.task == "regression":
        # Against the mean of everybody's targets: that of a small site's test rows says too much.
        total = float(((truth - consortium.pooled()[1].mean()) ** 2).sum())
        yield "R²", Tally(total - float(((truth - scores) ** 2).sum()), total)
        return
    yield "accuracy", Tally(float(((scores > 0) == truth).sum()), float(len(truth)))
    positive = int(truth.sum())
    ranks = rankdata(scores)[truth == 1].sum() - positive * (positive + 1) / 2
    yield "AUC", Tally(float(ranks), float(positive * (len(truth) - positive)))


def report(found: dict[Task, Scores]) -> list[Row]:
    """The aims, then every set: levels, and all methods at all ε."""
    groups: dict[str, list[Scores]] = defaultdict(list)
    for task, scores in found.items():
        groups[task.name].append(scores)
    rows = [row for name, group in groups.items() for row in _aim_rows(name, group)]
    for name, group in groups.items():
        for measure in MEASURES:
            if (EPSILONS[0], OWN, measure) in group[0]:
                rows += _set_rows(name, group, measure)
    left_out = [*missing(), *missing_sites()]
    return rows + [
        Row(name=f"left out, no data: {name}", value=np.nan, unit="") for name in left_out
    ]


def _aim_rows(name: str, group: list[Scores]) -> Iterator[Row]:
    for epsilon, aim in AIMS.get(name, {}).items():
        closed, half = _outcome(group, epsilon, BLEND, "accuracy").gap_closed()
        yield Row(
            name=f"gap closed, {name}, {BLEND}, ε = {epsilon:g}",
            value=closed,
            unit=f"± {half:.2f} (95 %)",
            aim=f">= {aim:g}",
            ok=closed >= aim,
        )


def _set_rows(name: str, group: list[Scores], measure: Measure) -> Iterator[Row]:
    levels = [
        100 * np.mean([s[EPSILONS[0], level, measure] for s in group]) for level in (OWN, POOLED)
    ]
    yield Row(
        name=f"{name}: {measure}, own and pooled",
        value=float(levels[0]),
        unit="%",
        baseline="pooled",
        baseline_value=float(levels[1]),
    )
    at = EPSILONS.index(1.0)
    for method in METHODS:
        each = [_outcome(group, epsilon, method, measure) for epsilon in EPSILONS]
        closed = [outcome.gap_closed() for outcome in each]
        yield Row(
            name=f"{name}: {measure} gap closed, {method}",
            value=closed[at][0],
            unit="at ε = 1",
            baseline=_listed(closed, 2),
        )
        if method in (BLEND, SEPARATE):
            gains = [outcome.mean_gain() for outcome in each]
            yield Row(
                name=f"{name}: {measure} gain, {method}",
                value=gains[at][0],
                unit="points at ε = 1",
                baseline=_listed(gains, 1),
            )


def _listed(values: Iterable[tuple[float, float]], digits: int) -> str:
    """Values at all ε with their standard errors."""
    return " / ".join(f"{value:.{digits}f} ({half / 1.96:.{digits}f})" for value, half in values)


def _outcome(group: list[Scores], epsilon: float, method: str, measure: Measure) -> Outcome:
    columns = (method, OWN, POOLED)
    return Outcome(*(100 * np.array([s[epsilon, one, measure] for s in group]) for one in columns))


def main(arguments: Iterable[str] | None = None) -> None:
    """A part of it, on other seeds: for development, saves nothing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pooling_accuracy")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--names", nargs="*", help="only these sets")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments if arguments is None else list(arguments))
    chosen = [
        task
        for task in tasks(options.seeds, options.first_seed)
        if not options.names or task.name in options.names
    ]
    sys.stdout.write(markdown(report(judge_all(chosen, options.processes))))


if __name__ == "__main__":
    main()
