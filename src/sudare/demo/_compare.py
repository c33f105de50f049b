"""Own model, blends and all rows in one place side by side, on patients nobody has seen."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.blending import HedgedBlend, MirrorAveraging
from sudare.demo._pool import simulated_pool
from sudare.foundations.randomness import Generator
from sudare.learners import MomentsClassifier, PrivateLogisticRegression
from sudare.releases import Contract, without

Array = NDArray[np.float64]
METHODS = ("own", "uniform", "mirror", "hedged", "pooled sum", "one place")
_DELTA = 1e-6


class Holding(NamedTuple):
    """What one organisation holds: bounded rows and labels −1 or 1."""

    rows: Array
    labels: Array


def compare(
    parties: list[Holding],
    test: Holding,
    epsilons: tuple[float, ...],
    rng: Generator,
    tick: Callable[[], None],
) -> dict[float, dict[str, float]]:
    """Share of right predictions of the first party's models, for each ε.

    Uniform and mirror averaging are over private logistic regressions, as published. The hedged
    blend is over moments, each release with its own noise; the pooled sum is the same blend over
    one sum of all moments with one noise. One place is what all rows together would give.
    """
    own, others = parties[0], parties[1:]
    bounds: dict[str, Any] = {"row_norm": 1.0, "classes": (-1.0, 1.0), "delta": _DELTA}
    found = {}
    ceiling = None
    for epsilon in epsilons:
        seeds = rng.integers(0, 2**31, size=(len(others), 2)).tolist()
        fitted = [
            PrivateLogisticRegression(epsilon, rng=seed, **bounds).fit(*party)
            for party, (seed, _) in zip(others, seeds, strict=True)
        ]
        learners = [model.release(f"party {number}") for number, model in enumerate(fitted)]
        moments = [
            MomentsClassifier(epsilon, rng=seed, **bounds).fit(*party).release(f"party {number}")
            for number, (party, (_, seed)) in enumerate(zip(others, seeds, strict=True))
        ]
        contract: Contract = moments[0].contract
        pool = simulated_pool(parties, contract, epsilon, _DELTA, rng)
        rest = without(pool, pool.members[0], *own)  # own rows are at hand, and count once
        # Linear models: the average of their scores is the score of their average.
        scores = np.mean([model.decision_function(test.rows) for model in fitted], axis=0)
        predicted = {
            "own": HedgedBlend([], contract=contract).fit(*own).predict(test.rows),
            "uniform": np.where(scores > 0, 1.0, -1.0),
            "mirror": MirrorAveraging(learners).fit(*own).predict(test.rows),
            "hedged": HedgedBlend(moments).fit(*own).predict(test.rows),
            "pooled sum": HedgedBlend([rest]).fit(*own).predict(test.rows),
        }
        found[epsilon] = {
            name: float((labels == test.labels).mean()) for name, labels in predicted.items()
        }
        if ceiling is None:
            every = Holding(*(np.concatenate(part) for part in zip(*parties, strict=True)))
            together = HedgedBlend([], contract=contract).fit(*every)
            ceiling = float((together.predict(test.rows) == test.labels).mean())
        found[epsilon]["one place"] = ceiling
        tick()
    return found


def average(tables: list[dict[float, dict[str, float]]]) -> dict[float, dict[str, float]]:
    """The mean over several runs."""
    return {
        epsilon: {
            name: float(np.mean([table[epsilon][name] for table in tables])) for name in METHODS
        }
        for epsilon in tables[0]
    }
