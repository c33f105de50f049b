"""A small consortium on disk: studies, data, keys and ledgers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sudare import site
from sudare.exchange import Keyring, SigningKey, new_key
from sudare.foundations.randomness import seeded
from sudare.ledger import Ledger
from sudare.study import Study, parse_study, raw_content

CLASSES = """
name = "hearts"
description = "Who falls <ill>?"
[columns.age]
low = 20
high = 90
[columns.sex]
categories = ["f", "m"]
[columns.pressure]
low = 80
high = 200
missing = 130
indicator = true
[target]
column = "ill"
classes = ["no", "yes"]
[privacy]
epsilon = {epsilon}
delta = 1e-6
unit = "patient"
model = "{model}"
"""
NUMBERS = """
name = "stays"
[columns.age]
low = 20
high = 90
[target]
column = "days"
low = 0
high = 30
[privacy]
epsilon = 2.0
delta = 1e-6
model = "{model}"
{more}
"""
COUNTS = """
name = "falls"
[columns.age]
low = 20
high = 90
[columns.sex]
categories = ["f", "m"]
[target]
column = "falls"
most = 12
[privacy]
epsilon = 2.0
delta = 1e-6
"""


def classes(model: str = "moments", epsilon: float = 4.0) -> Study:
    return parse_study(CLASSES.format(model=model, epsilon=epsilon))


def numbers(model: str = "moments", more: str = "") -> Study:
    return parse_study(NUMBERS.format(model=model, more=more))


def counts() -> Study:
    return parse_study(COUNTS)


def write_patients(path: Path, rows: int, seed: int) -> Path:
    """A CSV for the study of classes."""
    rng = seeded(seed)
    age, male = rng.uniform(20, 90, rows), rng.random(rows) < 0.5
    pressure = rng.normal(130, 15, rows)
    score = (age - 55) / 9 + 0.8 * male + (pressure - 130) / 25
    ill = rng.random(rows) < 1 / (1 + np.exp(-score))
    gaps = rng.random(rows) < 0.1
    lines = ["pressure,age,sex,ill,name"]
    lines += [
        f"{'' if gap else f'{p:.1f}'},{a:.1f},{'m' if m else 'f'},{'yes' if i else 'no'},x"
        for gap, p, a, m, i in zip(gaps, pressure, age, male, ill, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_stays(path: Path, rows: int, seed: int) -> Path:
    """A CSV for the study of numbers."""
    rng = seeded(seed)
    age = rng.uniform(20, 90, rows)
    days = np.clip(age / 5 + rng.normal(0, 3, rows), 0, 40)
    lines = ["age,days", *(f"{a:.1f},{d:.2f}" for a, d in zip(age, days, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_falls(path: Path, rows: int, seed: int) -> Path:
    """A CSV for the study of counts."""
    rng = seeded(seed)
    age, male = rng.uniform(20, 90, rows), rng.random(rows) < 0.5
    falls = rng.poisson(np.exp((age - 55) / 30 + 0.5 * male - 0.5))
    lines = ["age,sex,falls"]
    lines += [f"{a:.1f},{'m' if m else 'f'},{f}" for a, m, f in zip(age, male, falls, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


@dataclass
class Clinic:
    """One party with all it needs."""

    name: str
    data: Path
    ledger: Path
    key: SigningKey

    def publish(self, study: Study, place: Path, **changed: Any) -> site.Published:
        with Ledger(self.ledger) as ledger:
            settings = {"party": self.name, "place": str(place)} | changed
            return site.publish(self.data, study, ledger, self.key, **settings)


def clinic(folder: Path, name: str, *, seed: int, rows: int = 150, cap: float = 4.0) -> Clinic:
    """A clinic with patients and a budget."""
    data = write_patients(folder / f"{name}.csv", rows, seed)
    made = Clinic(name, data, folder / f"{name}.db", new_key())
    with Ledger(made.ledger) as ledger:
        ledger.open(f"{name} 2026", ledger.fingerprint(raw_content(data)), cap, 1e-6)
    return made


def keyring(*clinics: Clinic) -> Keyring:
    ring = Keyring()
    for each in clinics:
        ring = ring.with_key(each.name, each.key.public)
    return ring
