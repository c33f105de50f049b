"""What is refused before anything is spent, and words that never hold a person's values."""

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from sudare.foundations.checks import PrivacyError
from sudare.foundations.privacy import PureEvent
from sudare.ledger import Ledger
from sudare.site import ReleasePlan
from sudare.study import raw_content, read_table
from tests.site.clinics import CLASSES, Clinic, classes, clinic, keyring, write_patients
from tests.support.commands import Done, command

CANARY = "canary-7731"


def desk(folder: Path) -> Clinic:
    """A clinic with all its files, and a study."""
    made = clinic(folder, "A", seed=1, rows=60)
    made.key.save(folder / "key.json")
    (folder / "study.toml").write_text(CLASSES.format(model="moments", epsilon=4.0))
    (folder / "trust.toml").write_text(keyring(made).to_toml())
    return made


def release(folder: Path, *words: str, data: str = "A.csv") -> Done:
    common = ("--party", "A", "--key", "key.json", "--ledger", "A.db")
    return command(folder, "release", data, *common, *words)


def spent(folder: Path) -> int:
    with sqlite3.connect(folder / "A.db") as file:
        ((count,),) = file.execute("SELECT count(*) FROM ledger_events").fetchall()
    return int(count)


def refused(folder: Path, done: Done, reason: str) -> None:
    assert done.code == 2, done
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1
    assert reason in done.err
    assert spent(folder) == 0
    assert not (folder / "releases").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--out", "A.csv"), "a file is in its place"),
        (("--out", "A.csv/releases"), "a file is in its place"),
        (("--party", "x\x1b[31m"), "printable name"),
        (("--party", "x" * 201), "at most 200 letters"),
        (("--key", "none.json"), "Cannot read none.json"),
        (("--key", "A.csv"), "not a signing key"),
        (("--study", "none.toml"), "Cannot read none.toml"),
    ],
)
def test_mistakes_cost_nothing(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    desk(tmp_path)
    refused(tmp_path, release(tmp_path, *words), reason)
    assert release(tmp_path).code == 0
    assert spent(tmp_path) == 1


def test_a_read_only_folder_costs_nothing(tmp_path: Path) -> None:
    desk(tmp_path)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    # Root may write everywhere but among the kernel's own settings.
    place = "/proc/sys/kernel" if os.geteuid() == 0 else str(closed)
    refused(tmp_path, release(tmp_path, "--out", place), place)


def test_a_release_too_large_to_be_read_costs_nothing(tmp_path: Path) -> None:
    names = [f"c{k}" for k in range(620)]
    desk(tmp_path)
    columns = "".join(f"[columns.{name}]\nlow = 0\nhigh = 1\n" for name in names)
    head, tail = CLASSES.format(model="moments", epsilon=4.0).split("[columns.age]")
    wide = head + columns + "[target]" + tail.split("[target]")[1]
    (tmp_path / "study.toml").write_text(wide)
    data = tmp_path / "wide.csv"
    rows = [",".join("1" * len(names)) + f",{label}" for label in ("no", "yes")]
    data.write_text("\n".join([",".join([*names, "ill"]), *rows]) + "\n")
    with Ledger(tmp_path / "A.db") as ledger:
        ledger.open("wide", ledger.fingerprint(raw_content(data)), 4.0, 1e-6)
    refused(tmp_path, release(tmp_path, data="wide.csv"), "too many for moments")


def test_data_or_a_study_that_changed_are_noticed(tmp_path: Path) -> None:
    desk(tmp_path)
    before = (tmp_path / "A.csv").read_text()
    write_patients(tmp_path / "A.csv", 60, seed=2)
    refused(tmp_path, release(tmp_path), "no budget yet")
    (tmp_path / "A.csv").write_text(before)
    assert release(tmp_path).code == 0
    (tmp_path / "study.toml").write_text(CLASSES.format(model="moments", epsilon=3.0))
    done = release(tmp_path, "--out", "more")
    assert done.code == 2
    assert "Nothing was spent" in done.err
    assert spent(tmp_path) == 1
    assert not (tmp_path / "more").exists()


def test_data_that_change_while_they_are_read_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = desk(tmp_path)

    def swapped(*given: object) -> object:
        write_patients(made.data, 60, seed=2)
        return read_table(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("sudare.site._releasing.read_table", swapped)
    refused(tmp_path, release(tmp_path), "changed while they were read")


def test_a_key_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    desk(tmp_path)
    assert "Warning" not in release(tmp_path).err
    (tmp_path / "key.json").chmod(0o644)
    done = release(tmp_path)
    assert done.code == 0
    assert "chmod 600 key.json" in done.err


def test_no_command_ever_shows_or_writes_a_persons_values(tmp_path: Path) -> None:
    made = desk(tmp_path)
    made.publish(classes(), tmp_path / "releases")
    good = (tmp_path / "A.csv").read_text().splitlines()
    said = ""
    for column in range(5):
        cells = good[1].split(",")
        cells[column] = CANARY
        data = tmp_path / f"bad{column}.csv"
        data.write_text("\n".join([good[0], ",".join(cells), *good[2:]]) + "\n")
        with Ledger(tmp_path / "A.db") as ledger:
            ledger.open(f"bad{column}", ledger.fingerprint(raw_content(data)), 4.0, 1e-6)
        file = data.name
        for words in (
            ("study", "check", "study.toml", file),
            ("study", "new", file, "--out", f"new{column}.toml"),
            ("blend", file, "--releases", "releases", "--party", "B"),
            ("predict", "model.json", file),
            ("report", "model.json"),
            ("ledger", "show", "--ledger", "A.db"),
            ("ledger", "export", f"ledger{column}.json", "--ledger", "A.db"),
            ("verify", "releases"),
        ):
            said += "".join(map(str, command(tmp_path, *words)))
        said += "".join(map(str, release(tmp_path, data=file)))
    assert "'age'" in said  # the column is named, the value is not
    assert (tmp_path / "predictions.csv").exists()
    assert CANARY not in said
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.name.startswith("bad"):
            assert CANARY.encode() not in path.read_bytes(), path


def test_a_spend_at_another_price_is_not_drawn_upon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Charged, then killed; and before the next try the calibrations changed."""
    ours, study = desk(tmp_path), classes()
    cheaper = replace(ReleasePlan.of(study, 60), event=PureEvent(0.1, unit="patient"))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ReleasePlan, "of", lambda *_: cheaper)
        patch.setattr("sudare.site._releasing._draw", killed)
        with pytest.raises(KeyboardInterrupt):
            ours.publish(study, tmp_path / "releases")
    assert spent(tmp_path) == 1
    with pytest.raises(PrivacyError, match="at another price"):
        ours.publish(study, tmp_path / "releases")
    assert spent(tmp_path) == 1
    assert not (tmp_path / "releases").exists()
