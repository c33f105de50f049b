"""Pools on disk: a folder for each clinic, and one that all share."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sudare import site
from sudare.exchange import Keyring, SigningKey, load_key, new_key
from sudare.ledger import Ledger
from sudare.pooling import PoolPlan
from sudare.site import Pool, PoolStatus
from sudare.study import Study, raw_content
from tests.site.clinics import classes, write_falls, write_patients, write_stays


@dataclass(frozen=True)
class Desk:
    """One clinic: its folder has rows, a key, a ledger, and what all agreed on."""

    name: str
    folder: Path
    pool: Pool

    @property
    def data(self) -> Path:
        return self.folder / "people.csv"

    @property
    def key(self) -> SigningKey:
        return load_key(self.folder / "key.json")

    @property
    def secret(self) -> Path:
        (found,) = self.folder.glob("*.secret")
        return found

    def run(self, **changed: Any) -> PoolStatus:
        settings: dict[str, Any] = {"pool": self.pool, "source": self.data, "home": self.folder}
        settings |= changed
        with Ledger(settings.pop("ledger", self.folder / "ledger.db")) as ledger:
            return site.take_part(ledger=ledger, key=self.key, **settings)

    def spent(self) -> int:
        with Ledger(self.folder / "ledger.db") as ledger:
            return len(ledger.account("people").entries)

    def copy(self, folder: Path) -> "Desk":
        """The same clinic on another machine."""
        shutil.copytree(self.folder, folder)
        return Desk(self.name, folder, self.pool)


def desks(
    folder: Path,
    many: int = 3,
    *,
    study: Study | None = None,
    cap: float = 4.0,
    rows: int = 40,
    place: str | None = None,
    **terms: Any,
) -> list[Desk]:
    """Clinics that have agreed on a plan, in the order of their names; nobody has joined yet."""
    study = study or classes(epsilon=1.0)
    keys = [new_key() for _ in range(many)]
    names = [f"Clinic {chr(65 + n)}" if n < 26 else f"Clinic {n}" for n in range(many)]
    ring = Keyring({name: key.public for name, key in zip(names, keys, strict=True)})
    plan = site.new_plan(study, ring, **terms)
    pool = Pool(study, plan, ring, place or str(folder / "shared"))
    made = []
    for n, (name, key) in enumerate(zip(names, keys, strict=True)):
        home = folder / name.replace(" ", "-")
        home.mkdir(parents=True)
        write = write_patients if study.task == "classification" else write_stays
        write = write_falls if study.target.counts else write
        data = write(home / "people.csv", rows + n, seed=n)
        key.save(home / "key.json")
        (home / "trust.toml").write_text(ring.to_toml())
        (home / "pool.toml").write_text(plan.to_toml())
        with Ledger(home / "ledger.db") as ledger:
            ledger.open("people", ledger.fingerprint(raw_content(data)), cap, 1e-6)
        made.append(Desk(name, home, pool))
    return made


def next_attempt(made: list[Desk], **terms: Any) -> list[Desk]:
    """The same clinics under another plan."""
    pool = made[0].pool
    plan = site.new_plan(pool.study, pool.keyring, **terms)
    assert isinstance(plan, PoolPlan)
    other = Pool(pool.study, plan, pool.keyring, pool.place)
    return [Desk(each.name, each.folder, other) for each in made]


def finish(made: list[Desk]) -> list[PoolStatus]:
    """Everybody runs until it is done; what the last run of each said."""
    for _ in range(5 + len(made[0].pool.terms.sessions)):
        found = [desk.run() for desk in made]
        if all(status.state == "done" for status in found):
            return found
    raise AssertionError(found)
