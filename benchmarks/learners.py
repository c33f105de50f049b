"""Time and memory of a private fit on one core, beside scikit-learn's fit and diffprivlib's.

Same data for all: rows of norm at most 1, thirty features, secure randomness for ours.
Aims: at most twice scikit-learn's time (at 569 rows, within 5 ms of it), no slower than diffprivlib
0.6.6, 100 organisations with 50 rows each in three times scikit-learn's time, and at most half a
table of extra memory. A first fit also plans its noise; later fits of the same size do not.
"""

import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count, product
from math import inf, nan, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks import peers
from benchmarks.table import Row, against, best_of, compare
from sudare.foundations.randomness import seeded
from sudare.learners import PrivateLogisticRegression, PrivateRidge

FEATURES = 30
DELTAS = (0.0, 1e-5)
Kind = Literal["logistic", "ridge"]
KINDS: tuple[Kind, ...] = ("logistic", "ridge")
RIVALS = {"logistic": "LogisticRegression", "ridge": "LinearRegression"}


class Data(NamedTuple):
    """Rows with the targets of both kinds of regression."""

    name: str
    rows: NDArray[np.float64]
    labels: NDArray[np.int64]
    numbers: NDArray[np.float64]

    def targets(self, kind: Kind) -> NDArray[Any]:
        return self.labels if kind == "logistic" else self.numbers


def run(quick: bool) -> list[Row]:
    """Fits taking turns with the peers' fits."""
    sizes = (10**4,) if quick else (10**4, 10**5)
    tables = [_breast_cancer(), *(_synthetic(n) for n in sizes)]
    repeat = 3 if quick else 25
    with threadpool_limits(1):
        rows = [
            row
            for data, kind, delta in product(tables, KINDS, DELTAS)
            for row in _beside_sklearn(data, kind, delta, repeat)
        ]
        for delta in DELTAS:
            rows.append(_organisations(5 if quick else 100, delta, 3 if quick else 10))
            rows.append(_first_fit(tables[0], delta, 3 if quick else 20))
        rows += _beside_diffprivlib(tables, repeat)
        rows += [_memory(tables[-1], kind) for kind in KINDS]
    return rows


def _beside_sklearn(data: Data, kind: Kind, delta: float, repeat: int) -> Iterator[Row]:
    y = data.targets(kind)
    seconds, plain = compare(
        lambda: _ours(kind, delta).fit(data.rows, y),
        lambda: _plain(kind).fit(data.rows, y),
        repeat,
        0.02,
    )
    name = f"{kind} {data.name}, δ = {delta:g}"
    yield _times(name, seconds, f"scikit-learn {type(_plain(kind)).__name__}", plain, "<= 2")
    if kind == "logistic" and len(y) < 1000:
        yield Row(
            name=f"{name}: beyond scikit-learn",
            value=1e3 * (seconds - plain),
            unit="ms",
            aim="<= 5 ms",
            ok=seconds - plain <= 0.005,
        )


def _organisations(number: int, delta: float, repeat: int) -> Row:
    parts = [_synthetic(50, seed) for seed in range(number)]

    def each(model: Callable[[], Any]) -> None:
        for part in parts:
            model().fit(part.rows, part.labels)

    seconds, plain = compare(
        lambda: each(lambda: _ours("logistic", delta)),
        lambda: each(lambda: _plain("logistic")),
        repeat,
    )
    name = f"logistic, {number} organisations × 50 rows, δ = {delta:g}"
    return _times(name, seconds, "scikit-learn LogisticRegression", plain, "<= 3")


def _first_fit(data: Data, delta: float, repeat: int) -> Row:
    """Each time with one row less, so that nothing was planned before."""
    fewer = count(1)

    def fit() -> None:
        n = len(data.rows) - next(fewer)
        _ours("logistic", delta).fit(data.rows[:n], data.labels[:n])

    name = f"logistic {data.name}, δ = {delta:g}: first fit"
    return Row(name=name, value=1e3 * best_of(fit, repeat, 0.0), unit="ms")


def _beside_diffprivlib(tables: list[Data], repeat: int) -> Iterator[Row]:
    try:
        with peers.diffprivlib() as peer:
            for data in tables:
                for kind in KINDS:
                    name = f"{data.name} {kind}"
                    peer.give(name, X=data.rows, y=data.targets(kind))
                    seconds, theirs = _turns(data, kind, name, peer, repeat)
                    yield _times(
                        f"{kind} {data.name}, δ = 0",
                        seconds,
                        f"diffprivlib {RIVALS[kind]}",
                        theirs,
                        "<= 1",
                    )
    except peers.Unavailable as problem:
        yield Row(name=f"not compared: {problem}", value=nan, unit="")


def _turns(data: Data, kind: Kind, name: str, peer: peers.Peer, repeat: int) -> tuple[float, float]:
    """`compare`, with the peer timing its own half."""
    y = data.targets(kind)
    ours = theirs = inf
    for _ in range(repeat):
        ours = min(ours, best_of(lambda: _ours(kind, 0.0).fit(data.rows, y), 1, 0.02))
        theirs = min(theirs, peer.ask(do="time", model=kind, data=name, seconds=0.02))
    return ours, theirs


def _memory(data: Data, kind: Kind) -> Row:
    y = data.targets(kind)
    model = _ours(kind, 0.0).fit(data.rows, y)
    tracemalloc.start()
    model.fit(data.rows, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    table = data.rows.nbytes
    name = f"{kind} {data.name}: extra memory"
    return against(name, peak / 1e6, "MB", "the table itself", table / 1e6, "<= 0.5")


def _ours(kind: Kind, delta: float) -> Any:
    if kind == "logistic":
        return PrivateLogisticRegression(1.0, delta=delta, row_norm=1.0)
    return PrivateRidge(1.0, delta=delta, row_norm=1.0, target_bound=2.0, radius=2.0)


def _plain(kind: Kind) -> Any:
    return LogisticRegression() if kind == "logistic" else Ridge()


def _times(name: str, seconds: float, baseline: str, other: float, aim: str) -> Row:
    return against(name, 1e3 * seconds, "ms", baseline, 1e3 * other, aim)


def _breast_cancer() -> Data:
    X, y = load_breast_cancer(return_X_y=True)
    return _with_numbers(_unit_rows((X - X.mean(0)) / X.std(0)), y)


def _synthetic(n: int, seed: int = 0) -> Data:
    """Normal rows, and labels drawn from a logistic model on them."""
    rng = seeded(seed)
    rows = _unit_rows(rng.standard_normal((n, FEATURES)))
    direction = rng.standard_normal(FEATURES)
    scores = rows @ (8 * direction / np.linalg.norm(direction))
    return _with_numbers(rows, (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(np.int64))


def _unit_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = rows / sqrt(rows.shape[1])
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float64] = rows / np.maximum(1.0, norms)
    return unit


def _with_numbers(rows: NDArray[np.float64], labels: NDArray[np.int64]) -> Data:
    noise = 0.1 * seeded(1).standard_normal(len(rows))
    name = f"({len(rows):,} × {rows.shape[1]})"
    return Data(name, rows, labels, rows.sum(axis=1) / sqrt(rows.shape[1]) + noise)
