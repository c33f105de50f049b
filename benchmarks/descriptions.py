"""How often the intervals of a table 1 hold the number they are about.

Five organisations with 5,000 rows in all pool their moments (δ = 1e-6, all of them honest), and a
table 1 is read from the sum. Each cell has 1,000 simulations, each with fresh rows and fresh noise:
every number that is told is compared with the same number of the same rows without any privacy.
*Value* is the coverage of 95 % intervals among what was told, *baseline value* the share that was
told; the rest was hidden by the noise. With *sampling*, the number is that of the law the rows come
from, and intervals count that rows are a sample.

- *normal*: 5 or 20 columns of numbers, normal, correlated by .3, with bounds 3.6 deviations away;
  the target is a number.
- *mixed*: numbers with a long tail, columns of two categories (a half to a twentieth of the rows)
  and of three; the target has two classes. 5 or 20 features.

Aim: between .93 and .98 wherever a number is told in at least a quarter of the simulations. What is
told more rarely is told because its noise happened to look like a signal; those rows have no aim.
*Least* is the coverage of the single number, of all of them at all ε, that is held least often, and
how often it is told; of some hundreds with coverage .95 it would be about .93.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.table import Row
from sudare import site
from sudare.estimation import NoisySums, Summaries
from sudare.exchange import Keyring, new_key
from sudare.foundations.randomness import Generator, seeded
from sudare.pooling import PoolTerms
from sudare.study import Number, Study, parse_study, read_table

Array = NDArray[np.float64]
EPSILONS = (0.3, 0.5, 1.0, 2.0, 5.0)
ROWS, PARTIES, FIRST_SEED = 5000, 5, 9000
TOLD, FEWEST = 0.25, 500
LARGE = 400_000
"""Rows that stand for the law itself."""


def run(quick: bool) -> list[Row]:
    """Both laws, few and many features, every ε."""
    simulations = 40 if quick else 1000
    rows: list[Row] = []
    for law in ("normal", "mixed"):
        for features in (5, 20):
            rows += _rows(law, features, simulations)
    return rows


def _rows(law: str, features: int, simulations: int) -> Iterator[Row]:
    study, rng = _study(law, features), seeded(FIRST_SEED + features)
    kept = [_counted(law, study, _people(law, study, ROWS, rng)) for _ in range(simulations)]
    numbers = _Numbers(law, study)
    truths = {key: np.array([each.truth[key] for each in kept]) for key in numbers.keys}
    whole = _counted(law, study, _people(law, study, LARGE, rng)).truth
    least = (1.0, 1.0, "nothing")
    for epsilon in EPSILONS:
        sums = _noisy(study, kept, _noise_std(study, epsilon), rng)
        for sampling in (False, True):
            read = Summaries(sums, study, sampling=sampling)
            held: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
            for key in numbers.keys:
                kind = key[0]
                if sampling and kind not in ("mean", "share", "two-way share"):
                    continue
                found = numbers.ask(read, key)
                told = np.broadcast_to(found.told, (simulations,))
                number = np.full(simulations, whole[key]) if sampling else truths[key]
                inside = (found.low <= number) & (number <= found.high)
                held[kind][0] += float((told & inside).sum())
                held[kind][1] += float(told.sum())
                held[kind][2] += simulations
                if told.mean() >= TOLD:
                    single = float(inside[told].mean()), float(told.mean())
                    least = min(least, (*single, f"{' '.join(key)} at ε = {epsilon:g}"))
            for kind, (good, told_often, asked) in held.items():
                title = f"{law}, {features} features, ε = {epsilon:g}: {kind}"
                title += ", sampling" if sampling else ""
                yield _row(title, good, told_often, asked, simulations >= FEWEST)
    coverage, told_share, which = least
    name = f"{law}, {features} features: least of a single number ({which})"
    yield Row(name=name, value=coverage, unit="held", baseline="told", baseline_value=told_share)


def _row(name: str, good: float, told: float, asked: float, enough: bool) -> Row:
    coverage, share = good / max(told, 1.0), told / asked
    judged = enough and share >= TOLD
    return Row(
        name=name,
        value=coverage if told else float("nan"),
        unit="held",
        baseline="told",
        baseline_value=share,
        aim="0.93 to 0.98" if judged else "",
        ok=0.93 <= coverage <= 0.98 if judged else None,
    )


class _Counted(NamedTuple):
    """One simulated consortium: exact sums, and every number of its rows."""

    cross: Array
    gram: Array
    squares: float
    truth: dict[tuple[str, ...], float]


class _Numbers:
    """What is asked of a table, by kind."""

    def __init__(self, law: str, study: Study) -> None:
        plain = [name for name, each in study.columns.items() if isinstance(each, Number)]
        coded = {
            name: [str(label) for label in each.categories]
            for name, each in study.columns.items()
            if not isinstance(each, Number)
        }
        self.keys: list[tuple[str, ...]] = [("outcome",)]
        if law == "normal":
            self.keys.append(("outcome deviation",))
        for kind in ("mean", "deviation"):
            self.keys += [(kind, name) for name in plain]
        self.keys += [("correlation", a, b) for a, b in pairwise(plain)]
        for kind in ("share", "outcome by group"):
            self.keys += [(kind, name, level) for name in coded for level in coded[name]]
        for one, other in pairwise(coded):
            for level in coded[one]:
                self.keys += [("two-way share", one, level, other, last) for last in coded[other]]

    def ask(self, read: Summaries, key: tuple[str, ...]) -> Any:
        kind, *names = key
        asked = {
            "outcome": read.outcome,
            "outcome deviation": read.outcome_deviation,
            "mean": read.mean,
            "deviation": read.deviation,
            "correlation": read.correlation,
            "share": read.share,
            "outcome by group": read.group,
            "two-way share": read.cell,
        }
        function: Any = asked[kind]
        return function(*names)


def _study(law: str, features: int) -> Study:
    text = 'name = "x"\n'
    if law == "normal":
        for k in range(features):
            text += f"[columns.x{k}]\nlow = 0\nhigh = 10\n"
        text += '[target]\ncolumn = "y"\nlow = 0\nhigh = 10\n'
    else:
        for k in range(features // 5):
            text += f"[columns.tail{k}]\nlow = 0\nhigh = 10\ncentre = 2\n"
            text += f'[columns.half{k}]\ncategories = ["no", "yes"]\n'
            text += f'[columns.few{k}]\ncategories = ["no", "yes"]\n'
            text += f'[columns.three{k}]\ncategories = ["a", "b", "c"]\n'
        text += '[target]\ncolumn = "y"\nclasses = ["no", "yes"]\n'
    return parse_study(text + "[privacy]\nepsilon = 1.0\ndelta = 1e-6\n")


def _people(law: str, study: Study, n: int, rng: Generator) -> dict[str, Any]:
    names = list(study.columns)
    common = rng.standard_normal(n)
    if law == "normal":
        found = {
            name: np.clip(
                5 + 1.4 * (np.sqrt(0.3) * common + np.sqrt(0.7) * rng.standard_normal(n)), 0, 10
            )
            for name in names
        }
        found["y"] = np.clip(5 + 0.8 * common + rng.standard_normal(n), 0, 10)
        return found
    found = {}
    score = 0.7 * common
    for k in range(len(names) // 4):
        pulls = 0.5 * common + rng.standard_normal((4, n))
        found[f"tail{k}"] = np.clip(np.exp(0.3 + 0.6 * pulls[0]), 0, 10)
        found[f"half{k}"] = np.where(pulls[1] > 0.2 * k, "yes", "no")
        rare = pulls[2] > 1.1 + 0.25 * k
        found[f"few{k}"] = np.where(rare, "yes", "no")
        found[f"three{k}"] = np.where(pulls[3] > 1.3, "c", np.where(pulls[3] > 0.3, "b", "a"))
        score = score + 0.5 * rare
    found["y"] = np.where(score + rng.logistic(0, 1, n) > 0.8, "yes", "no")
    return found


def _counted(law: str, study: Study, people: dict[str, Any]) -> _Counted:
    block, contract = read_table(pa.table(people), study), study.contract
    assert block.targets is not None
    rows = contract.rows(block.rows) / contract.full_norm
    y = block.targets
    outcome = people["y"] if law == "normal" else (people["y"] == "yes") * 1.0
    truth: dict[tuple[str, ...], float] = {}
    for key in _Numbers(law, study).keys:
        match key:
            case ("outcome",):
                truth[key] = float(outcome.mean())
            case ("outcome deviation",):
                truth[key] = float(outcome.std())
            case ("mean", name):
                truth[key] = float(people[name].mean())
            case ("deviation", name):
                truth[key] = float(people[name].std())
            case ("correlation", one, other):
                truth[key] = float(np.corrcoef(people[one], people[other])[0, 1])
            case ("share", name, level):
                truth[key] = float((people[name] == level).mean())
            case ("outcome by group", name, level):
                truth[key] = float(outcome[people[name] == level].mean())
            case (_, one, level, other, last):
                truth[key] = float(((people[one] == level) & (people[other] == last)).mean())
    return _Counted(y @ rows, rows.T @ rows, float(y @ y), truth)


def _noisy(study: Study, kept: list[_Counted], noise_std: float, rng: Generator) -> NoisySums:
    """All simulations at once."""
    p, many = study.contract.dimension, len(kept)
    noise = noise_std * rng.standard_normal((many, p, p))
    upper = np.triu(noise, 1)
    gram = upper + np.swapaxes(upper, 1, 2) + np.sqrt(2) * noise * np.eye(p)
    squares = np.array([each.squares for each in kept])
    squares += np.sqrt(2) * noise_std * rng.standard_normal(many)
    return NoisySums(
        contract=study.contract,
        n=ROWS,
        cross=np.array([e.cross for e in kept]) + noise_std * rng.standard_normal((many, p)),
        gram=np.array([each.gram for each in kept]) + gram,
        squares=squares if study.task == "regression" else None,
        noise_std=noise_std,
    )


def _noise_std(study: Study, epsilon: float) -> float:
    """That of a pool of five at this ε, all of them honest."""
    ring = Keyring({f"Clinic {k}": new_key().public for k in range(PARTIES)})
    plan = site.new_plan(study, ring, colluders=0)
    return PoolTerms.of(msgspec.structs.replace(plan, epsilon=epsilon)).noise_std
