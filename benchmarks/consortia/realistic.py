"""Consortia as they are met in practice, with as many own rows as one asks for.

`drawn` makes them up: some columns hold two values, of which one may be rare, some are skewed; how
common a column's values are drifts from organisation to organisation; organisations are of unequal
size and read numbers in public units that fit only roughly.

alike        one law of labels for all
intercepts   how common the outcome is differs between organisations, effects do not
slopes       effects differ too, by three tenths of their size
strangers    effects differ by as much as they are large

`dealt` takes them from real tables (`real`, `sites`): the own organisation is one site, or as many
sites as it takes to have the rows that are asked for and rows to be judged on.
"""

from typing import Literal, get_args

import numpy as np
from scipy.special import expit

from benchmarks.consortia import Array, Consortium, Table, classification, regression
from benchmarks.consortia.real import hospital_tables, pima_table, studies
from benchmarks.consortia.sites import TABLES, site_studies, site_tables
from sudare.foundations.randomness import Generator, seeded

Kind = Literal["alike", "intercepts", "slopes", "strangers"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SETS = (*TABLES, "heart", "Pima")

TEST_ROWS = 2000
FEWEST_JUDGED = 40
"""Rows of the own organisation that are kept for judging, at least."""
_SLOPES: dict[str, float] = {"alike": 0.0, "intercepts": 0.0, "slopes": 0.3, "strangers": 1.0}


def here(name: str) -> bool:
    """Whether a real table can be read."""
    present = {study.name for study in (*studies(), *site_studies())}
    return name in present or any(each.startswith(f"{name} over") for each in present)


def drawn(kind: str, own_rows: int, seed: int) -> Consortium:
    """Labels from a logistic law, six to eighteen columns, ten to sixty organisations."""
    rng = seeded(seed)
    d, many = int(rng.integers(6, 19)), int(rng.integers(10, 61))
    binary = rng.random(d) < 0.6
    common = np.where(rng.random(d) < 0.3, rng.uniform(-3.5, -2.5, d), rng.uniform(-1.5, 1.5, d))
    skew = np.where(rng.random(d) < 0.5, rng.uniform(0.3, 0.9, d), 0.0)
    effects = rng.standard_normal(d) * np.where(rng.random(d) < 0.5, 0.8, 0.15)
    base = rng.uniform(-2.0, 0.5)
    # Public units: typical values that are about right.
    centre = np.where(binary, 0.0, rng.normal(0, 0.3, d))
    scale = np.where(binary, 1.0, rng.uniform(0.7, 1.5, d))
    sizes = np.exp(rng.normal(4.2, 0.8, many)).astype(int) + 15

    def rows(n: int, drift: Array) -> Array:
        numbers = rng.standard_normal((n, d)) + drift
        bent = np.where(skew > 0, (np.exp(skew * numbers) - 1) / np.maximum(skew, 1e-9), numbers)
        return np.where(binary, rng.random((n, d)) < expit(common + drift), bent)

    def organisation(n: int) -> tuple[Array, float]:
        """Its own law: effects, and how common the outcome is."""
        return (
            effects + _SLOPES[kind] * np.abs(effects).mean() * rng.standard_normal(d),
            base + (0.0 if kind == "alike" else 0.7 * float(rng.standard_normal())),
        )

    def table(n: int, law: tuple[Array, float], drift: Array) -> Table:
        x = rows(n, drift)
        labels = rng.random(n) < expit(x @ law[0] + law[1])
        z = np.clip((x - centre) / scale, -3, 3) / np.sqrt(d)
        z /= np.maximum(1.0, np.linalg.norm(z, axis=1, keepdims=True))
        return z, labels.astype(np.int64)

    law, drift = organisation(own_rows), 0.3 * rng.standard_normal(d)
    own, test = table(own_rows, law, drift), table(TEST_ROWS, law, drift)
    others = [table(int(n), organisation(int(n)), 0.3 * rng.standard_normal(d)) for n in sizes]
    return Consortium(kind, classification(d), *own, others, *test)


def dealt(name: str, own_rows: int, seed: int) -> Consortium | None:
    """A real table; None where no organisation has so many rows."""
    rng = seeded(seed)
    if name == "Pima":
        return _pima(own_rows, rng)
    tables = hospital_tables() if name == "heart" else site_tables(name)
    order = rng.permutation(len(tables))
    most = max(sum(len(y) for _, y in tables) // 3, 1)
    taken: list[Table] = []
    needed = own_rows + FEWEST_JUDGED
    for k in order:
        if name == "heart":  # four that are nothing alike: one at a time
            taken = [tables[k]]
        else:
            taken.append(tables[k])
        if sum(len(y) for _, y in taken) >= needed:
            break
    X, y = (np.concatenate(part) for part in zip(*taken, strict=True))
    if len(y) < needed or (name != "heart" and needed > most):
        return None
    chosen = {id(table) for table in taken}
    others = [table for table in tables if id(table) not in chosen]
    return _split(name, (X, y), others, own_rows, rng)


def _pima(own_rows: int, rng: Generator) -> Consortium | None:
    X, y = pima_table()
    order = rng.permutation(len(y))
    if own_rows > len(y) // 4:
        return None
    own, rest = order[: own_rows + len(y) // 4], order[own_rows + len(y) // 4 :]
    others = [(X[part], y[part]) for part in np.array_split(rest, 8)]
    return _split("Pima", (X[own], y[own]), others, own_rows, rng)


def _split(name: str, own: Table, others: list[Table], own_rows: int, rng: Generator) -> Consortium:
    X, y = own
    d = X.shape[1]
    known = name in TABLES and not TABLES[name].target.classes
    contract = regression(d, 1.0) if known else classification(d)
    order = rng.permutation(len(y))
    train, test = order[:own_rows], order[own_rows:]
    return Consortium(name, contract, X[train], y[train], others, X[test], y[test])
