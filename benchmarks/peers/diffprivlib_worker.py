"""Runs inside diffprivlib's environment: one JSON request a line, one answer a line.

{"do": "time", "model": "logistic", "data": NAME, "seconds": 0.02}
{"do": "accuracy", "data": NAME, "epsilon": 1.0, "train": 398}
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from diffprivlib.models import (  # type: ignore[import-not-found]
    LinearRegression,
    LogisticRegression,
)

from benchmarks.table import best_of


def main(folder: Path) -> None:
    """Answer until nobody asks any more."""
    for line in sys.stdin:
        request = json.loads(line)
        data = np.load(folder / f"{request['data']}.npz")
        answer = {"time": _time, "accuracy": _accuracy}[request["do"]](request, data)
        print(json.dumps(answer), flush=True)


def _time(request: dict[str, Any], data: Any) -> float:
    """Seconds for one fit at ε = 1."""
    X, y = data["X"], data["y"]
    if request["model"] == "logistic":
        model = LogisticRegression(epsilon=1.0, data_norm=1.0, C=1.0)
    else:
        model = LinearRegression(epsilon=1.0, bounds_X=(-1, 1), bounds_y=(-2, 2))
    return best_of(lambda: model.fit(X, y), repeat=1, min_seconds=request["seconds"])


def _accuracy(request: dict[str, Any], data: Any) -> list[float]:
    """Share of correct predictions on the test rows of each split."""
    X, y, cut = data["X"], data["y"], request["train"]
    shares = []
    for seed, order in enumerate(data["orders"]):
        model = LogisticRegression(
            epsilon=request["epsilon"], data_norm=1.0, C=1.0, random_state=seed
        )
        train, test = order[:cut], order[cut:]
        shares.append(float(model.fit(X[train], y[train]).score(X[test], y[test])))
    return shares


if __name__ == "__main__":
    main(Path(sys.argv[1]))
