"""Organisations that learn together: the comparison behind the classification figures.

As in the paper: rows are dealt out evenly over M + 1 organisations, each publishes an ε-DP logistic
regression by objective perturbation, and an organisation combines those of the M others by mirror
averaging, or by Pathak's logistic regression over their outputs, with its own rows. Beside these
stand its own model and the model of all rows in one place, neither of them private, and sudare's
default: moments released at (ε, 10⁻⁵) and the hedged blend. The hedged blend of the paper's own
releases shows what the blend alone is worth. A run's accuracy is the mean over several of its
organisations, as the paper averages over its nodes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papers import drawing
from papers.blends import RidgeStack
from papers.figure import Array, Estimate, Results, Sample, measured
from sudare.blending import HedgedBlend, MirrorAveraging
from sudare.foundations.randomness import seeded
from sudare.learners import MomentsClassifier, PrivateLogisticRegression

DELTA = 1e-5
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
CLASSES = (0, 1)
OWN, POOLED = "own rows only", "all rows in one place"
MIRROR, MIX = "mirror averaging", "logistic mix"
HEDGED_LEARNERS, HEDGED = "hedged, same releases", "hedged, moments (sudare)"
STYLE = {
    POOLED: drawing.Line(drawing.INK, "", "--", "all rows in one place (not private)"),
    OWN: drawing.Line(drawing.MUTED, "", ":", "own rows only (not private)"),
    MIRROR: drawing.Line(drawing.VERMILION, "s", label="mirror averaging (paper)"),
    MIX: drawing.Line(drawing.PINK, "D", label="logistic mix (Pathak et al.)"),
    HEDGED_LEARNERS: drawing.Line(drawing.SKY, "^", label="hedged, the same ε-DP releases"),
    HEDGED: drawing.Line(drawing.BLUE, "o", label="hedged, moments, δ = 10⁻⁵ (sudare)"),
}


class Party(NamedTuple):
    """What one organisation holds."""

    rows: Array
    labels: NDArray[Any]


class Consortium(NamedTuple):
    """Who holds which rows, and what everyone is judged on."""

    parties: Sequence[Party]
    test: Party


def deal_out(rows: Array, labels: NDArray[Any], organisations: int, seed: int) -> Consortium:
    """Seven tenths dealt out evenly, the rest for testing."""
    order = seeded(seed).permutation(len(labels))
    cut = int(0.7 * len(labels))
    hands = [Party(rows[h], labels[h]) for h in np.array_split(order[:cut], organisations)]
    return Consortium(hands, Party(rows[order[cut:]], labels[order[cut:]]))


def synthetic(features: int, organisations: int, each: int, test: int, seed: int) -> Consortium:
    """Rows uniform on the unit sphere, labels from a logistic model with coefficients of norm 5."""
    rng = seeded(seed)
    theta = rng.standard_normal(features)
    theta *= 5 / np.linalg.norm(theta)

    def party(n: int) -> Party:
        rows = rng.standard_normal((n, features))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return Party(rows, (rng.random(n) < 1 / (1 + np.exp(-rows @ theta))).astype(np.int64))

    return Consortium([party(each) for _ in range(organisations)], party(test))


def compare(
    panel: str,
    consortium: Consortium,
    epsilons: Sequence[float],
    seed: int,
    curves: Sequence[str] = tuple(STYLE),
    judges: int = 4,
) -> list[Sample]:
    """Shares of right predictions on the test rows, of each curve at each ε.

    The mean over the first `judges` organisations, each with all others' releases.
    """
    rng = seeded(seed)
    bounds: dict[str, Any] = {"row_norm": 1.0, "classes": CLASSES, "rng": rng}
    parties, test = consortium
    owners = range(min(judges, len(parties)))

    def right(model: Any) -> float:
        return float(np.mean(model.predict(test.rows) == test.labels))

    found = []
    fixed: dict[str, float] = {}
    for epsilon in epsilons:
        learners, moments = (
            [learner.fit(*party).release(f"party {k}") for k, party in enumerate(parties)]
            for learner in (
                PrivateLogisticRegression(epsilon, **bounds),
                MomentsClassifier(epsilon, delta=DELTA, **bounds),
            )
        )
        if not fixed:
            alone = HedgedBlend([], contract=learners[0].contract)
            every = [np.concatenate(part) for part in zip(*parties, strict=True)]
            fixed[POOLED] = right(alone.fit(*every))
            fixed[OWN] = float(np.mean([right(alone.fit(*parties[k])) for k in owners]))
        for curve in curves:
            value = fixed.get(curve)
            if value is None:
                blends = [
                    _blend(curve, _without(learners, k), _without(moments, k)) for k in owners
                ]
                fitted = [blend.fit(*parties[k]) for blend, k in zip(blends, owners, strict=True)]
                value = float(np.mean([right(model) for model in fitted]))
            found.append(measured(panel, curve, epsilon, value))
    return found


def _blend(curve: str, learners: list[Any], moments: list[Any]) -> Any:
    if curve == MIRROR:
        # As printed: averaged over t = 1, …, n.
        return MirrorAveraging(learners, include_prior=False)
    if curve == MIX:
        return RidgeStack(learners)
    return HedgedBlend(learners if curve == HEDGED_LEARNERS else moments)


def _without(releases: list[Any], k: int) -> list[Any]:
    return releases[:k] + releases[k + 1 :]


def gain(results: Results, panel: str, curve: str, epsilon: float) -> Estimate:
    """Points of accuracy over the own model, paired by run."""
    found = results.difference(panel, curve, OWN, epsilon)
    return Estimate(100 * found.value, 100 * found.low, 100 * found.high, found.runs)


def pays_from(results: Results, panel: str, curve: str) -> float | None:
    """The least ε from which on the whole 95 % interval of the gain is above zero."""
    least = None
    for epsilon in reversed(results.places(panel, curve)):
        if gain(results, panel, curve, epsilon).low <= 0:
            break
        least = epsilon
    return least


def told(found: Estimate) -> str:
    """A gain in words: points with half the width of the interval."""
    return f"{found.value:+.1f} ± {found.half_width:.1f} points"


def worst(results: Results, panels: Sequence[str], curve: str) -> Estimate:
    """The least mean gain over panels and ε."""
    return min(
        (gain(results, p, curve, e) for p in panels for e in results.places(p, curve)),
        key=lambda estimate: estimate.value,
    )
