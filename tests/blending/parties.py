"""Releases to blend, made by hand, and data to blend them with."""

from typing import Any

import numpy as np

from sudare.blending._received import Received, receive
from sudare.blending._records import Records
from sudare.foundations.privacy import PureEvent
from sudare.foundations.randomness import seeded
from sudare.releases import Contract, LearnerRelease, MomentsRelease

CLASSES = Contract(features=3, row_norm=1.0, constant=0.25, classes=("no", "yes"))
NUMBERS = Contract(features=3, row_norm=1.0, constant=0.25, target_bound=2.0)


def learner(party: str, theta: Any, contract: Contract = CLASSES, **changes: Any) -> LearnerRelease:
    given: dict[str, Any] = {
        "party": party,
        "contract": contract,
        "n": 50,
        "event": PureEvent(1.0),
        "noise_std": 0.5,
        "coefficients": tuple(float(t) for t in theta),
        "radius": 8.0,
        "slack": 0.1,
    }
    return LearnerRelease(**(given | changes))


def moments(
    party: str, contract: Contract = CLASSES, *, seed: int = 0, n: int = 60, **changes: Any
) -> MomentsRelease:
    """Moments of random unit rows with noise of the stated size."""
    noise_std = float(changes.get("noise_std", 3.0))
    rng = seeded(seed)
    table, _, y = rows_and_targets(contract, n, seed)
    x = contract.rows(table) / contract.full_norm
    p = contract.dimension
    noise = rng.normal(size=(p, p)) * noise_std
    noise = np.triu(noise, 1) + np.diag(np.diag(noise)) * np.sqrt(2)
    given: dict[str, Any] = {
        "party": party,
        "contract": contract,
        "n": n,
        "event": PureEvent(1.0),
        "noise_std": noise_std,
        "cross": tuple(x.T @ (y / (contract.target_bound or 1.0)) + noise_std * rng.normal(size=p)),
        "gram": tuple((x.T @ x + noise)[np.triu_indices(p)]),
    }
    return MomentsRelease(**(given | changes))


def rows_and_targets(contract: Contract, n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Rows, targets as a user gives them, and targets as numbers; the truth is (3, −2, 1 | 1)."""
    rng = seeded(1_000 + seed)
    table = rng.normal(size=(n, contract.features))
    table /= np.maximum(1.0, np.linalg.norm(table, axis=1))[:, None]
    scores = contract.rows(table) @ truth(contract)
    if contract.target_bound is not None:
        y = np.clip(scores / 3 + 0.2 * rng.normal(size=n), -2.0, 2.0)
        return table, y, y
    assert contract.classes is not None
    second = rng.random(n) < 1 / (1 + np.exp(-2 * scores))
    return table, np.array(contract.classes)[second.astype(int)], np.where(second, 1.0, -1.0)


def truth(contract: Contract) -> Any:
    theta = np.resize([3.0, -2.0, 1.0], contract.dimension)
    theta[-1] = 1.0
    return theta


def some_learners(contract: Contract, number: int = 5, seed: int = 0) -> list[LearnerRelease]:
    """From good to bad: the truth with more and more noise."""
    rng = seeded(seed)
    scale = 2.0 if contract.target_bound is None else 1 / 3
    theta = scale * truth(contract)
    return [
        learner(
            f"party {m}",
            theta + m * scale * rng.normal(size=contract.dimension),
            contract,
            radius=90,
        )
        for m in range(number)
    ]


def own_records(contract: Contract, n: int = 40, seed: int = 50) -> Records:
    """Own rows in units of the contract."""
    table, _, numbers = rows_and_targets(contract, n, seed)
    rows = contract.rows(table) / contract.full_norm
    constant = contract.constant / contract.full_norm
    if contract.target_bound is None:
        return Records(rows, numbers, constant=constant)
    return Records(rows, numbers / contract.target_bound, 0.04, constant)


def many_moments(contract: Contract, many: int = 12, **changes: Any) -> Received:
    return receive([moments(f"{k}", contract, seed=k, **changes) for k in range(many)])
