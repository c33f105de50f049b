"""`sudare init`, and commands that take what the folder's project says."""

import json
import stat
from pathlib import Path

import pytest

from sudare.exchange import load_key, load_keyring
from tests.site.clinics import CLASSES, write_patients
from tests.support.commands import command


@pytest.fixture
def parties(tmp_path: Path) -> list[Path]:
    """Two clinics, each in its own folder, with a folder that both see."""
    (tmp_path / "heart.toml").write_text(CLASSES.format(model="moments", epsilon=3.0))
    folders = []
    for k, name in enumerate("AB"):
        words = ["init", name, "--party", f"Clinic {name}", "--study", "heart.toml"]
        done = command(tmp_path, *words, "--releases", "../shared")
        assert done.code == 0, done.err
        write_patients(tmp_path / name / "rows.csv", 90, seed=k)
        folders.append(tmp_path / name)
    return folders


def test_a_folder_is_laid_out(parties: list[Path]) -> None:
    folder = parties[0]
    names = {"Clinic A.pub", "key.json", "rows.csv", "study.toml", "sudare.toml", "trust.toml"}
    assert {each.name for each in folder.iterdir()} == names
    assert stat.S_IMODE((folder / "key.json").stat().st_mode) == 0o600
    key = load_key(folder / "key.json").public
    assert [name for name, _ in load_keyring(folder / "trust.toml")] == ["Clinic A"]
    assert (folder / "Clinic A.pub").read_text().strip() == key.to_text()


def test_the_whole_day_without_a_flag(parties: list[Path]) -> None:
    for folder in parties:
        assert command(folder, "trust", "add", "../A/Clinic A.pub", "../B/Clinic B.pub").code == 0
        assert command(folder, "ledger", "open", "patients", "--epsilon", "3").code == 0
        done = command(folder, "release")
        assert done.code == 0
        told = f"From sudare.toml: data rows.csv, party Clinic {folder.name}, out ../shared\n"
        assert done.err == told
    found = json.loads(command(parties[0], "verify", "--json").out)
    assert [(each["valid"], each["party"]) for each in found] == [
        (True, "Clinic A"),
        (True, "Clinic B"),
    ]
    story = json.loads(command(parties[0], "blend", "--json").out)
    assert [each["name"] for each in story["parties"]] == ["Clinic B"]
    assert command(parties[0], "report").code == 0
    assert (parties[0] / "report.html").exists()
    assert "patients" in command(parties[0], "ledger", "show").out


def test_what_is_said_wins(parties: list[Path], tmp_path: Path) -> None:
    folder = parties[0]
    command(folder, "ledger", "open", "patients", "--epsilon", "3")
    words = ("release", "rows.csv", "--party", "Another", "--out", "elsewhere", "--json")
    done = command(folder, *words)
    assert done.err == ""
    assert json.loads(done.out)["address"].startswith("elsewhere/Another")
    assert not (tmp_path / "shared").exists()


def test_only_the_current_folder_counts(parties: list[Path]) -> None:
    below = parties[0] / "below"
    below.mkdir()
    done = command(below, "ledger", "show")
    assert done.code == 2
    assert "no ledger at ledger.db" in done.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [("party = 3", "party"), ("party = 'A'\nkeys = 'k'", "keys"), ("party =", "sudare.toml")],
)
def test_a_mistake_in_the_project_is_explained(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "sudare.toml").write_text(text)
    done = command(tmp_path, "verify")
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert "It may say party, data" in done.err
    assert "Traceback" not in done.err


def test_nothing_is_laid_out_twice_and_a_key_stays(parties: list[Path], tmp_path: Path) -> None:
    before = (parties[0] / "key.json").read_bytes()
    again = command(tmp_path, "init", "A", "--party", "Clinic A")
    assert again.code == 2
    assert "laid out already" in again.err
    (parties[0] / "sudare.toml").unlink()
    assert command(tmp_path, "init", "A", "--party", "Clinic A").code == 0
    assert (parties[0] / "key.json").read_bytes() == before
    bad = command(tmp_path, "init", "C", "--party", "Clinic\nC")
    assert bad.code == 2
    assert not (tmp_path / "C").exists()
