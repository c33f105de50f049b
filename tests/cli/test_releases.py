import json
from pathlib import Path
from typing import Any

import pytest

from sudare.site import _releasing
from tests.site.clinics import CLASSES, write_patients
from tests.support.commands import Done, command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A desk that has not released yet."""
    (tmp_path / "study.toml").write_text(CLASSES.format(model="moments", epsilon=2.0))
    write_patients(tmp_path / "rows.csv", 60, seed=1)
    command(tmp_path, "keys", "new", "key.json")
    command(tmp_path, "ledger", "open", "rows", "rows.csv", "--epsilon", "2")
    return tmp_path


def released(folder: Path, *words: str, data: str = "rows.csv") -> Done:
    return command(folder, "release", data, "--party", "Clinic A", *words)


def spent(folder: Path) -> list[Any]:
    (account,) = json.loads(command(folder, "ledger", "show", "--json").out)
    found: list[Any] = account["entries"]
    return found


def interrupt(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


def test_stopped_before_the_charge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_releasing, "try_place", interrupt)
    done = released(folder)
    assert (done.code, done.out) == (130, "")
    assert done.err == "Stopped. Nothing was charged. Run it again to go on.\n"
    assert spent(folder) == []


@pytest.mark.parametrize("stage", ["_draw", "put"])
def test_stopped_after_the_charge(
    folder: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(_releasing, stage, interrupt)
        done = released(folder)
    assert (done.code, done.out) == (130, "")
    assert done.err.startswith("Stopped. The ledger has been charged")
    assert "it costs nothing more" in done.err
    assert done.err.count("\n") == 1
    again = released(folder, "--json")
    assert again.code == 0
    assert json.loads(again.out)["repeated"] is (stage == "put")
    assert len(spent(folder)) == 1


def test_an_unattended_job_that_is_stopped_says_nothing_of_how_far_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for stage in ("try_place", "_draw"):
        with monkeypatch.context() as patched:
            patched.setattr(_releasing, stage, interrupt)
            told.append(released(folder, "--unattended"))
    assert told[0] == told[1]
    assert told[0].code == 130


def test_few_rows_are_warned_about_before_anything_is_spent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (folder / "rows.csv").read_text().splitlines()
    (folder / "three.csv").write_text("\n".join(lines[:4]) + "\n")
    words = ["ledger", "open", "three", "three.csv", "--epsilon", "2", "--ledger", "three.db"]
    assert command(folder, *words).code == 0
    ledger = ("--ledger", "three.db")
    with monkeypatch.context() as patched:
        patched.setattr("sudare.ledger.Ledger.spend", interrupt)
        stopped = released(folder, *ledger, data="three.csv")
    assert "Warning: from 3 rows others can learn next to nothing" in stopped.err
    assert "Nothing was charged" in stopped.err
    done = released(folder, *ledger, data="three.csv")
    assert done.code == 0
    assert "Warning" in done.err
    # What has been paid for is not warned about again; nor are enough rows.
    assert "Warning" not in released(folder, *ledger, data="three.csv").err
    assert "Warning" not in released(folder).err


@pytest.mark.parametrize("model", ["moments", "objective"])
def test_a_preview_is_in_the_units_of_the_study(folder: Path, model: str) -> None:
    (folder / "other.toml").write_text(CLASSES.format(model=model, epsilon=2.0))
    words = ("release", "--preview", "--study", "other.toml", "--rows")
    shown = command(folder, *words, "60").out
    assert ("mean of pressure" if model == "moments" else "log-odds for 1 of pressure") in shown
    assert "next to nothing" not in shown
    told = json.loads(command(folder, *words, "3", "--json").out)
    assert told["hardly_useful"] is True
    assert [each["feature"] for each in told["in_units"]][:2] == ["age", "sex=m"]


def test_a_release_is_previewed_repeated_and_refused(desk: Any) -> None:
    planned = json.loads(desk.run("release", "--preview", "--rows", "90", "--json"))
    assert planned["numbers"] == 20
    common = ("--key", "key0.json", "--ledger", "0.db", "--json")
    again = json.loads(desk.run("release", "0.csv", "--party", "Clinic 0", *common))
    assert again["repeated"]
    assert "too much" in desk.run("release", "0.csv", "--party", "Clinic Zero", *common)
    assert "--party" in desk.run("release", "0.csv")


def test_releases_are_verified_and_explained(desk: Any) -> None:
    found = json.loads(desk.run("verify", "releases", "--study", "study.toml", "--json"))
    assert len(found) == 6
    assert all(each["valid"] and each["rows"] == 90 for each in found)
    (desk.folder / "odd").mkdir(exist_ok=True)
    (desk.folder / "odd" / "x.release").write_text("nonsense")
    told = desk.run("verify", "odd")
    assert "not a signed release" in told
    one = found[0]["address"]
    assert "per patient" in " ".join(desk.run("explain", one).split())
    assert "its signer says" in desk.run("explain", one)
    found = json.loads(desk.run("explain", one, "--json"))
    assert found["parameters"]["model"] == "moments"
    assert found["parameters_checked"] is False
    (desk.folder / "empty").mkdir(exist_ok=True)
    assert "No release" in desk.run("verify", "empty")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("release", "none.csv", "--party", "x"), "Cannot read study.toml"),
        (("verify", "nowhere", "--trust", "none.toml"), "Cannot read none.toml"),
        (("blend", "none.csv", "--releases", "x", "--party", "y"), "Cannot read study.toml"),
        (("predict", "none.json", "none.csv"), "Cannot read none.json"),
        (("trust", "add", "x", "{}"), "not a public key"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    done = command(tmp_path, *words)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.err
