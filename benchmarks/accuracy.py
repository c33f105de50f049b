"""Accuracy of the private learners with their defaults, beside diffprivlib and tuned references.

Means over 30 splits of 70/30. Breast cancer: share of correct predictions. *Unit rows* are z-scored
on the full data, divided by √d and clipped to norm 1 (a scaling that looks at the data: for
comparison only); *ranges* map every column from its range to [−1, 1]/√d. Diabetes: squared error
over the variance of the test targets. References: objective perturbation, pure and Gaussian, whose
λ was chosen on the test set; AdaSSP for regression. Aims: no worse than they are. Also draws
`docs/images/accuracy.svg`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import nan, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks import peers
from benchmarks.table import Row, against
from sudare.foundations.randomness import seeded
from sudare.learners import (
    MomentsClassifier,
    MomentsRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
)

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "accuracy.svg"
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
DELTA = 1e-5
PURE, SMALL_DELTA, MOMENTS = "pure", "δ = 1e-5", "moments, δ = 1e-5"
OUTPUT, OUTPUT_DELTA = "output, pure", "output, δ = 1e-5"
DIFFPRIVLIB = "diffprivlib, pure"
TUNED = {
    PURE: (0.558, 0.807, 0.892, 0.929, 0.948, 0.961),
    SMALL_DELTA: (0.634, 0.877, 0.922, 0.940, 0.953, 0.964),
}
ADASSP = {1.0: 0.752, 5.0: 0.590}

Array = NDArray[np.float64]
Learner = Callable[[float, int], Any]
"""From ε and a seed to something with `fit`."""
Measure = Callable[[Any, Array, NDArray[Any]], float]
"""From a fitted model and test data to a number."""
Curve = list[float]
"""One number for each of EPSILONS."""


class Data(NamedTuple):
    """A data set with the splits that everyone uses."""

    rows: Array
    targets: NDArray[Any]
    orders: list[NDArray[np.int64]]
    cut: int


class Study(NamedTuple):
    """Curves of all learners on one data set."""

    curves: dict[str, Curve]
    best: float
    """Without privacy."""
    constant: float
    """Without features."""


def run(quick: bool) -> list[Row]:
    """All means; the figure too, unless in a hurry."""
    seeds = 3 if quick else 30
    with threadpool_limits(1):
        unit_rows = _breast_cancer(_unit_rows, seeds)
        ranges = _breast_cancer(_ranges, seeds)
        diabetes = _diabetes(seeds)
    if not quick:
        FIGURE.parent.mkdir(exist_ok=True)
        _draw(unit_rows, diabetes)
    return [
        *_classification_rows("unit rows", unit_rows, TUNED),
        *_classification_rows("ranges", ranges, {}),
        *_regression_rows(diabetes),
    ]


def _breast_cancer(scale: Callable[[Array], Array], seeds: int) -> Study:
    X, y = load_breast_cancer(return_X_y=True)
    data = _data(scale(X), y, seeds)
    learners: dict[str, Learner] = {
        PURE: lambda e, s: PrivateLogisticRegression(e, row_norm=1.0, rng=s),
        SMALL_DELTA: lambda e, s: PrivateLogisticRegression(e, delta=DELTA, row_norm=1.0, rng=s),
        MOMENTS: lambda e, s: MomentsClassifier(e, delta=DELTA, row_norm=1.0, rng=s),
        OUTPUT: lambda e, s: PrivateLogisticRegression(e, mechanism="output", row_norm=1.0, rng=s),
        OUTPUT_DELTA: lambda e, s: PrivateLogisticRegression(
            e, mechanism="output", delta=DELTA, row_norm=1.0, rng=s
        ),
    }
    curves = {name: _curve(data, learner, _share_correct) for name, learner in learners.items()}
    try:
        with peers.diffprivlib() as peer:
            peer.give("data", X=data.rows, y=data.targets, orders=np.array(data.orders))
            curves[DIFFPRIVLIB] = [
                float(np.mean(peer.ask(do="accuracy", data="data", epsilon=e, train=data.cut)))
                for e in EPSILONS
            ]
    except peers.Unavailable:
        pass
    best = _mean(data, lambda seed: LogisticRegression(C=100.0), 0, _share_correct)
    return Study(curves, best, float(max(np.mean(y), 1 - np.mean(y))))


def _diabetes(seeds: int) -> Study:
    X, y = load_diabetes(return_X_y=True)
    data = _data(_unit_rows(X), (y - y.mean()) / y.std(), seeds)
    bounds: dict[str, Any] = {"row_norm": 1.0, "target_bound": 2.0}
    learners: dict[str, Learner] = {
        PURE: lambda e, s: PrivateRidge(e, radius=2.0, rng=s, **bounds),
        SMALL_DELTA: lambda e, s: PrivateRidge(e, delta=DELTA, radius=2.0, rng=s, **bounds),
        MOMENTS: lambda e, s: MomentsRegressor(e, delta=DELTA, rng=s, **bounds),
    }
    curves = {name: _curve(data, learner, _relative_error) for name, learner in learners.items()}
    return Study(curves, _mean(data, lambda seed: LinearRegression(), 0, _relative_error), 1.0)


def _data(rows: Array, targets: NDArray[Any], seeds: int) -> Data:
    orders = [seeded(seed).permutation(len(targets)) for seed in range(seeds)]
    return Data(rows, targets, orders, int(0.7 * len(targets)))


def _unit_rows(X: Array) -> Array:
    rows = (X - X.mean(axis=0)) / X.std(axis=0) / sqrt(X.shape[1])
    clipped: Array = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    return clipped


def _ranges(X: Array) -> Array:
    low, high = X.min(axis=0), X.max(axis=0)
    mapped: Array = (2 * (X - low) / (high - low) - 1) / sqrt(X.shape[1])
    return mapped


def _curve(data: Data, learner: Learner, measure: Measure) -> Curve:
    """Means at each ε, every fit with a seed of its own."""
    return [
        _mean(data, partial(learner, epsilon), 1000 * (i + 1), measure)
        for i, epsilon in enumerate(EPSILONS)
    ]


def _mean(data: Data, learner: Callable[[int], Any], first_seed: int, measure: Measure) -> float:
    found = []
    for seed, order in enumerate(data.orders, start=first_seed):
        train, test = order[: data.cut], order[data.cut :]
        model = learner(seed).fit(data.rows[train], data.targets[train])
        found.append(measure(model, data.rows[test], data.targets[test]))
    return float(np.mean(found))


def _share_correct(model: Any, rows: Array, targets: NDArray[Any]) -> float:
    return float(model.score(rows, targets))


def _relative_error(model: Any, rows: Array, targets: NDArray[Any]) -> float:
    return float(np.mean((model.predict(rows) - targets) ** 2) / np.var(targets))


def _classification_rows(
    scaling: str, study: Study, references: Mapping[str, tuple[float, ...]]
) -> Iterator[Row]:
    for i, epsilon in enumerate(EPSILONS):
        for name, curve in study.curves.items():
            title = f"breast cancer, {scaling}, ε = {epsilon:g}: {name}"
            if name in references:
                tuned = references[name][i]
                yield against(title, curve[i], "correct", "λ tuned on the test set", tuned, ">= 1")
            elif name == PURE and DIFFPRIVLIB in study.curves:
                yield _beside(title, curve[i], DIFFPRIVLIB, study.curves[DIFFPRIVLIB][i])
            else:
                yield Row(name=title, value=curve[i], unit="correct")
    if DIFFPRIVLIB not in study.curves:
        yield Row(name="not compared: diffprivlib could not be installed", value=nan, unit="")
    yield Row(name=f"breast cancer, {scaling}: not private", value=study.best, unit="correct")
    yield Row(name=f"breast cancer, {scaling}: majority", value=study.constant, unit="correct")


def _beside(title: str, share: float, baseline: str, other: float) -> Row:
    return Row(
        name=title,
        value=share,
        unit="correct",
        baseline=baseline,
        baseline_value=other,
        ratio=share / other,
    )


def _regression_rows(study: Study) -> Iterator[Row]:
    unit = "MSE/variance"
    for i, epsilon in enumerate(EPSILONS):
        for name, curve in study.curves.items():
            title = f"diabetes, ε = {epsilon:g}: {name}"
            if epsilon in ADASSP and name != PURE:
                yield against(title, curve[i], unit, "AdaSSP", ADASSP[epsilon], "< 1")
            else:
                yield Row(name=title, value=curve[i], unit=unit)
    yield Row(name="diabetes: not private", value=study.best, unit=unit)


STYLES: dict[str, dict[str, Any]] = {
    MOMENTS: {"color": "#8e44ad", "marker": "^"},
    SMALL_DELTA: {"color": "#0b6e4f", "marker": "o"},
    PURE: {"color": "#2a9df4", "marker": "s"},
    DIFFPRIVLIB: {"color": "#d35400", "marker": "x", "linestyle": "--"},
}


def _draw(classification: Study, regression: Study) -> None:
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "sudare",
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }
    with matplotlib.rc_context(settings):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
        figure = Figure(figsize=(9.2, 4.2), layout=layout, facecolor="white")
        left, right = figure.subplots(1, 2)
        left.set_ylim(0.45, 1.0)
        _panel(left, "Breast cancer: share of correct predictions", classification)
        _level(left, classification.best, "not private", EPSILONS[0], "bottom")
        _level(left, classification.constant, "always the larger class", EPSILONS[-1], "bottom")
        left.legend(loc="lower right")
        right.set_ylim(0.4, 1.2)
        _panel(right, "Diabetes: squared error / variance", regression)
        right.plot(
            *zip(*ADASSP.items(), strict=True), "D", color="#444444", label="AdaSSP, δ = 1e-5"
        )
        _level(right, regression.best, "not private", EPSILONS[0], "top")
        _level(right, regression.constant, "always the mean", EPSILONS[-1], "bottom")
        right.legend(loc="center right", bbox_to_anchor=(1.0, 0.6))
        figure.savefig(FIGURE, format="svg", metadata={"Date": None, "Creator": None})


def _panel(axes: Axes, title: str, study: Study) -> None:
    curves = dict(study.curves)
    same = np.allclose(curves[PURE], curves[SMALL_DELTA], rtol=1e-4)
    if same:  # δ may be allowed, and pure noise still be the better choice
        del curves[SMALL_DELTA]
    for name, style in STYLES.items():
        if name in curves:
            label = name if name == DIFFPRIVLIB else f"sudare, {name}"
            if name == PURE and same:
                label += f" and {SMALL_DELTA}"
            axes.plot(EPSILONS, curves[name], label=label, markersize=5, **style)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xscale("log")
    axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    axes.minorticks_off()
    axes.set_xlabel("privacy budget ε")
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)


def _level(axes: Axes, height: float, label: str, at: float, side: str) -> None:
    """A dotted line across the panel, its label on or under it at one end."""
    axes.axhline(height, color="#888888", linewidth=1, linestyle=":")
    axes.annotate(
        label,
        (at, height),
        xytext=(0, 3 if side == "bottom" else -3),
        textcoords="offset points",
        ha="left" if at == EPSILONS[0] else "right",
        va=side,
        color="#666666",
        fontsize=9,
    )
