"""Exact draws from logistic Gibbs posteriors: how long they take, and how many proposals.

The posterior is calibrated for one draw at ε = 1 and δ = 1e-5: rows of norm at most 1 and a
constant feature of 0.25, prior curvature nλ, the largest inverse temperature of the Gaussian
guarantee. Ours and scikit-learn run on one core, numpyro on as many as it likes to use.

Aims: at 100,000 rows of thirty features and λ = 0.01, mode, envelope and one exact draw take at
most 30 times scikit-learn's fit (and so does the learner's whole fit), and less time than 1,000
draws of numpyro's NUTS, warm-up and compiling not counted. At 1,000 rows of ten features, 1,000
independent exact draws take less time than 1,000 NUTS draws, and the two agree: no mean of a
coordinate, its square or the potential differs by more than five standard errors.

Real tables have rows of high leverage. For breast cancer and, where the folder named by the
environment variable SUDARE_DATA holds heart/*.csv, for the heart patients of four hospitals, with
columns scaled by public ranges, the share of proposals kept is beside that for as many rows and
columns of normal numbers.
"""

import csv
import os
import time
from collections.abc import Iterator
from math import hypot, nan, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks import peers
from benchmarks.table import Row, against, best_of, compare
from sudare.calibration import inverse_temperature
from sudare.foundations.randomness import secure, seeded
from sudare.foundations.sampling import (
    LogisticPosterior,
    RadialEnvelope,
    draw_radial,
    radial_envelope,
    settle,
)
from sudare.foundations.sampling.logistic import propose
from sudare.learners import PrivateLogisticRegression

Array = NDArray[np.float64]
EPSILON, DELTA = 1.0, 1e-5
CONSTANT = 0.25
DRAWS = 1_000

# Low and high of the mean, the error and the worst of each measurement.
BREAST_CANCER = {
    "radius": ((5, 30), (0, 3), (5, 40)),
    "texture": ((5, 40), (0, 5), (10, 50)),
    "perimeter": ((40, 200), (0, 25), (50, 260)),
    "area": ((100, 2600), (0, 600), (150, 4500)),
    "smoothness": ((0.05, 0.2), (0, 0.04), (0.05, 0.25)),
    "compactness": ((0, 0.4), (0, 0.15), (0, 1.1)),
    "concavity": ((0, 0.5), (0, 0.4), (0, 1.3)),
    "concave points": ((0, 0.25), (0, 0.06), (0, 0.3)),
    "symmetry": ((0.1, 0.35), (0, 0.08), (0.15, 0.7)),
    "fractal dimension": ((0.04, 0.1), (0, 0.03), (0.05, 0.21)),
}
HEART = {
    "age": (20, 80),
    "sex": (0, 1),
    "cp": (1, 4),
    "trestbps": (80, 220),
    "chol": (0, 650),
    "fbs": (0, 1),
    "restecg": (0, 2),
    "thalach": (60, 210),
    "exang": (0, 1),
    "oldpeak": (-3, 7),
}


class Data(NamedTuple):
    """Rows of norm at most 1 and labels of ±1."""

    name: str
    rows: Array
    labels: Array


def run(quick: bool) -> list[Row]:
    """Sampler and peers on the same posterior, in the same run."""
    large, small = _synthetic(10**4 if quick else 10**5, 30), _synthetic(1_000, 10)
    with threadpool_limits(1):
        target = _posterior(large, 0.01)
        seconds, plain = compare(
            lambda: draw_radial(_envelope(target, 1), 1, secure()),
            lambda: _plain(large, 0.01),
            3 if quick else 10,
            0.0,
        )
        name = f"{large.name}, λ = 0.01: mode, envelope and one draw"
        rows = [against(name, 1e3 * seconds, "ms", *_fit(plain), "<= 30")]
        learner = best_of(lambda: _learner(large, 0.01), 3 if quick else 10, 0.0)
        text = f"{large.name}, λ = 0.01: the learner's fit"
        rows.append(against(text, 1e3 * learner, "ms", *_fit(plain), "<= 30"))
        many = _posterior(small, 0.01)
        thousand = best_of(
            lambda: draw_radial(_envelope(many, DRAWS), DRAWS, secure()), 3 if quick else 10, 0.0
        )
        rows += _beside_nuts((name, target, seconds), (small.name, many, thousand), quick)
        for data in _real():
            rows += _kept(data)
        if not any("heart" in row.name for row in rows):
            rows.append(
                Row(
                    name="not measured: heart (SUDARE_DATA names no such folder)",
                    value=nan,
                    unit="",
                )
            )
    return rows


def _beside_nuts(
    one: tuple[str, LogisticPosterior, float],
    many: tuple[str, LogisticPosterior, float],
    quick: bool,
) -> Iterator[Row]:
    try:
        with peers.numpyro() as peer:
            for (name, target, seconds), repeat in ((many, 3), (one, 1)):
                peer.give("target", rows=target.rows)
                answer = peer.ask(
                    data="target",
                    temperature=target.temperature,
                    curvature=target.curvature,
                    draws=DRAWS,
                    warmup=500,
                    repeat=repeat,
                )
                theirs = f"numpyro NUTS, {DRAWS:,} draws"
                if name == many[0]:
                    gap = _gap(target, np.array(answer["draws"]))
                    text = f"{name}, λ = 0.01: mode, envelope and {DRAWS:,} draws"
                    yield against(text, 1e3 * seconds, "ms", theirs, 1e3 * answer["seconds"], "< 1")
                    yield Row(
                        name=f"{name}: largest difference from NUTS",
                        value=gap,
                        unit="standard errors",
                        aim="< 5",
                        ok=gap < 5,
                    )
                else:
                    yield against(name, 1e3 * seconds, "ms", theirs, 1e3 * answer["seconds"], "< 1")
    except peers.Unavailable as problem:
        yield Row(name=f"not compared: {problem}", value=nan, unit="")


def _gap(target: LogisticPosterior, chain: Array) -> float:
    """The largest difference of means, in standard errors; the chain's from means of batches."""
    envelope = _envelope(target, 10 * DRAWS)
    ours = draw_radial(envelope, 10 * DRAWS, seeded(1)).values

    def features(thetas: Array) -> Array:
        moved = thetas - envelope.centre
        return np.column_stack([moved, moved**2, target.potential(thetas)])

    own, theirs = features(ours), features(chain)
    batches = theirs.reshape(25, -1, theirs.shape[1]).mean(axis=1)
    error = np.sqrt(own.var(axis=0) / len(own) + batches.var(axis=0, ddof=1) / len(batches))
    return float((np.abs(own.mean(axis=0) - theirs.mean(axis=0)) / error).max())


def _kept(data: Data) -> Iterator[Row]:
    """Shares of proposals kept at three prior strengths, and the time of one draw."""
    normal = _synthetic(*data.rows.shape)
    for strength in (0.1, 0.01, 0.001):
        targets = [_posterior(one, strength) for one in (data, normal)]
        shares = [_share(_envelope(target, 10**6)) for target in targets]
        name = f"{data.name}, λ = {strength:g}"
        yield Row(
            name=f"{name}: proposals kept",
            value=100 * shares[0],
            unit="%",
            baseline="normal rows",
            baseline_value=100 * shares[1],
            ratio=shares[0] / shares[1],
        )
        seconds = _mean_seconds(targets[0], 20)
        yield Row(name=f"{name}: mode, envelope and one draw", value=1e3 * seconds, unit="ms")


def _mean_seconds(target: LogisticPosterior, runs: int) -> float:
    """The mean, not the best: what a draw takes is a matter of luck."""
    start = time.perf_counter()
    for _ in range(runs):
        draw_radial(_envelope(target, 1), 1, secure())
    return (time.perf_counter() - start) / runs


def _share(envelope: RadialEnvelope) -> float:
    kept = proposals = 0
    rng = seeded(2)
    while kept < 1000 and proposals < 5 * 10**6:
        kept += len(propose(envelope, 2_000, rng))
        proposals += 2_000
    return kept / proposals


def _posterior(data: Data, regularization: float) -> LogisticPosterior:
    rows = np.column_stack([data.rows, np.full(len(data.rows), CONSTANT)])
    strength = len(rows) * regularization
    temperature = inverse_temperature(
        EPSILON, DELTA, gradient_diameter=2 * hypot(1.0, CONSTANT), prior_curvature=strength
    )
    return LogisticPosterior(rows * data.labels[:, None], temperature, strength)


def _envelope(target: LogisticPosterior, draws: int) -> RadialEnvelope:
    return radial_envelope(target, settle(target).centre, draws)


def _plain(data: Data, regularization: float) -> None:
    LogisticRegression(C=1 / (len(data.rows) * regularization)).fit(data.rows, data.labels)


def _learner(data: Data, regularization: float) -> None:
    """The same draw on a ball, with all that floating point can do to it, and sealed."""
    PrivateLogisticRegression(
        EPSILON, delta=DELTA, row_norm=1.0, mechanism="gibbs", regularization=regularization
    ).fit(data.rows, data.labels)


def _fit(seconds: float) -> tuple[str, float]:
    return "scikit-learn LogisticRegression", 1e3 * seconds


def _synthetic(n: int, features: int) -> Data:
    """Normal rows, and labels drawn from a logistic model on them."""
    rng = seeded(0)
    rows = rng.standard_normal((n, features)) / sqrt(features)
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    direction = rng.standard_normal(features)
    scores = rows @ (8 * direction / np.linalg.norm(direction))
    labels = np.where(rng.random(n) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
    return Data(f"({n:,} × {features})", rows, labels)


def _real() -> Iterator[Data]:
    X, y = load_breast_cancer(return_X_y=True)
    ranges = [measure[kind] for kind in range(3) for measure in BREAST_CANCER.values()]
    yield _scaled("breast cancer", X, ranges, y > 0)
    folder = Path(os.environ.get("SUDARE_DATA", "")) / "heart"
    if files := sorted(folder.glob("*.csv")):
        records = [record for file in files for record in csv.DictReader(file.open())]
        middle = {name: str((low + high) / 2) for name, (low, high) in HEART.items()}
        X = np.array([[float(one[k] or middle[k]) for k in HEART] for one in records])
        ill = np.array([float(one["num"]) > 0 for one in records])
        yield _scaled("heart", X, list(HEART.values()), ill)


def _scaled(
    name: str, X: Array, ranges: list[tuple[float, float]], positive: NDArray[np.bool_]
) -> Data:
    low, high = np.array(ranges, dtype=float).T
    rows = np.clip((2 * X - low - high) / (high - low), -1.0, 1.0) / sqrt(X.shape[1])
    n, features = rows.shape
    return Data(f"{name} ({n:,} × {features})", rows, np.where(positive, 1.0, -1.0))
