"""The whole day of forty clinics: study, budgets, keys, releases, and one of them that blends."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sudare import site
from sudare.demo._patients import patients, study, study_text, write_patients
from sudare.exchange import Keyring, SigningKey, new_key
from sudare.foundations.checks import SudareError
from sudare.foundations.randomness import Generator
from sudare.ledger import Ledger
from sudare.study import raw_content

Progress = Callable[[str, int, int], None]
CLINICS, PATIENTS, EPSILON, DELTA = 40, 40, 2.0, 1e-6


@dataclass(frozen=True)
class Day:
    """What came of it."""

    model: site.Model
    accepted: int
    forged: str
    """Why the forged release was refused."""
    overdrawn: str
    """Why a second, larger release was refused."""
    model_path: Path
    report_path: Path


def run_day(folder: Path, rng: Generator, tick: Progress) -> Day:
    """Forty clinics publish into one folder; the first blends what it finds there.

    The patients are made up from `rng`; keys and noise are real, and differ each time.
    """
    agreed = study(EPSILON, DELTA)
    (folder / "study.toml").write_text(study_text(EPSILON, DELTA), encoding="utf-8")
    for part in ("data", "ledgers"):
        (folder / part).mkdir(exist_ok=True)
    releases, ring, overdrawn = folder / "releases", Keyring(), ""
    for number in range(CLINICS):
        name = f"Clinic {number + 1}"
        path = folder / "data" / f"clinic-{number + 1}.csv"
        write_patients(path, *patients(PATIENTS, rng))
        key = new_key()
        ring = ring.with_key(name, key.public)
        with Ledger(folder / "ledgers" / f"clinic-{number + 1}.db") as ledger:
            ledger.open(name, ledger.fingerprint(raw_content(path)), EPSILON, DELTA)
            site.publish(path, agreed, ledger, key, party=name, place=str(releases))
            if number == 0:
                overdrawn = _overdraw(path, ledger, key, folder)
        tick("clinics release", number + 1, CLINICS)
    (folder / "trust.toml").write_text(ring.to_toml(), encoding="utf-8")
    _forge(releases)
    checked = site.collect([str(releases)], ring, agreed)
    forged = next(each.problem or "" for each in checked if "forged" in each.address)
    own = folder / "data" / "clinic-1.csv"
    model = site.blend(own, agreed, checked, party="Clinic 1", progress=tick)
    model_path, report_path = folder / "model.json", folder / "report.html"
    model_path.write_bytes(model.to_bytes())
    report_path.write_text(site.render(model), encoding="utf-8")
    accepted = sum(each.problem is None for each in checked)
    return Day(model, accepted, forged, overdrawn, model_path, report_path)


def _overdraw(path: Path, ledger: Ledger, key: SigningKey, folder: Path) -> str:
    """Ask for a second release of the same patients, beyond the cap."""
    try:
        site.publish(
            path, study(EPSILON / 2, DELTA), ledger, key, party="Clinic 1", place=str(folder)
        )
    except SudareError as refusal:
        return str(refusal)
    raise AssertionError("the ledger let a clinic overdraw")


def _forge(releases: Path) -> None:
    """A release whose numbers were changed on the way."""
    honest = next(iter(sorted(releases.iterdir()))).read_bytes()
    head, payload, signature = honest.split(b".")
    middle = len(payload) // 2
    letter = b"A" if payload[middle : middle + 1] != b"A" else b"B"
    forged = b".".join([head, payload[:middle] + letter + payload[middle + 1 :], signature])
    (releases / "forged.release").write_bytes(forged)
