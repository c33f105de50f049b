"""An organisation's commands, run as a user runs them."""

import csv
import json
import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sudare.checks import SudareError
from sudare.cli import app
from tests.site.clinics import CLASSES, write_patients
from tests.test_cli import sudare


class Desk:
    """Commands in one folder, in this process for speed; `sudare` runs them in one of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str) -> str:
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            done = CliRunner().invoke(app, words, env={"COLUMNS": "200"}, catch_exceptions=True)
        finally:
            os.chdir(here)
        if isinstance(done.exception, SudareError):
            return f"Error: {done.exception}"
        assert done.exit_code in (0, 3), done.output + repr(done.exception)
        return done.output


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Six clinics that have released, all in one folder; the first one's desk."""
    folder = tmp_path_factory.mktemp("desk")
    made = Desk(folder)
    (folder / "study.toml").write_text(CLASSES.format(model="moments", epsilon=4.0))
    for k in range(6):
        write_patients(folder / f"{k}.csv", 90, seed=k)
        told = made.run("keys", "new", f"key{k}.json")
        (folder / f"{k}.pub").write_text(told.splitlines()[-1])
        made.run("trust", "add", f"Clinic {k}", f"{k}.pub")
        made.run("ledger", "open", f"c{k}", f"{k}.csv", "--epsilon", "4", "--ledger", f"{k}.db")
        made.run(
            "release", f"{k}.csv", "--key", f"key{k}.json", "--party", f"Clinic {k}",
            "--ledger", f"{k}.db",
        )  # fmt: skip
    return made


def test_keys_are_secret_and_fingerprints_are_shown(desk: Desk) -> None:
    key = desk.folder / "key0.json"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "exists" in desk.run("keys", "new", "key0.json")
    trusted = json.loads(desk.run("trust", "list", "--json"))
    assert [each["name"] for each in trusted] == [f"Clinic {k}" for k in range(6)]
    assert "Clinic 3" in desk.run("trust", "list")
    assert "another key" in desk.run("trust", "add", "Clinic 0", "1.pub")


def test_a_study_is_drafted_from_names_alone_and_checked(desk: Desk) -> None:
    assert "Wrote draft.toml" in desk.run(
        "study", "new", "0.csv", "--target", "ill", "--out", "draft.toml"
    )
    draft = (desk.folder / "draft.toml").read_text()
    assert "[columns.age]" in draft
    assert 'column = "ill"' in draft
    assert "exists" in desk.run("study", "new", "a", "b", "--out", "draft.toml")
    told = json.loads(desk.run("study", "check", "study.toml", "0.csv", "--json"))
    assert told["rows"] == 90
    assert told["features"] == ["age", "sex=m", "pressure", "pressure missing"]
    (desk.folder / "bad.toml").write_text(draft.replace("epsilon = 1.0", "epsilon = -1"))
    assert "privacy.epsilon" in desk.run("study", "check", "bad.toml")


def test_the_ledger_is_shown_and_exported(desk: Desk) -> None:
    (account,) = json.loads(desk.run("ledger", "show", "--ledger", "0.db", "--json"))
    assert account["remaining_epsilon"] == 0
    assert account["entries"][0]["released"]
    assert "release for study hearts" in " ".join(
        desk.run("ledger", "show", "--ledger", "0.db").split()
    )
    desk.run("ledger", "export", "all.json", "--ledger", "0.db")
    assert json.loads((desk.folder / "all.json").read_text()) == [account]
    assert "no ledger" in desk.run("ledger", "show", "--ledger", "none.db")


def test_a_release_is_previewed_repeated_and_refused(desk: Desk) -> None:
    planned = json.loads(desk.run("release", "--preview", "--rows", "90", "--json"))
    assert planned["numbers"] == 20
    common = ("--key", "key0.json", "--ledger", "0.db", "--json")
    again = json.loads(desk.run("release", "0.csv", "--party", "Clinic 0", *common))
    assert again["repeated"]
    assert "too much" in desk.run("release", "0.csv", "--party", "Clinic Zero", *common)
    assert "--party" in desk.run("release", "0.csv")


def test_releases_are_verified_and_explained(desk: Desk) -> None:
    found = json.loads(desk.run("verify", "releases", "--study", "study.toml", "--json"))
    assert len(found) == 6
    assert all(each["valid"] and each["rows"] == 90 for each in found)
    (desk.folder / "odd").mkdir(exist_ok=True)
    (desk.folder / "odd" / "x.release").write_text("nonsense")
    told = desk.run("verify", "odd")
    assert "not a signed release" in told
    one = found[0]["address"]
    assert "per patient" in " ".join(desk.run("explain", one).split())
    assert json.loads(desk.run("explain", one, "--json"))["parameters"]["model"] == "moments"
    (desk.folder / "empty").mkdir(exist_ok=True)
    assert "No release" in desk.run("verify", "empty")


def test_blend_predict_and_report(desk: Desk) -> None:
    told = desk.run("blend", "0.csv", "--releases", "releases", "--party", "Clinic 0")
    assert "made from these rows" in " ".join(told.split())
    story = json.loads(
        desk.run("blend", "0.csv", "--releases", "releases", "--party", "Clinic 0", "--json")
    )
    assert len(story["parties"]) == 5
    desk.run("predict", "model.json", "1.csv")
    with (desk.folder / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 90
    assert all((row["prediction"] == "yes") == (float(row["probability"]) > 0.5) for row in rows)
    desk.run("report", "model.json", "--coefficients", "effects.csv")
    assert "<svg" in (desk.folder / "report.html").read_text()
    with (desk.folder / "effects.csv").open() as file:
        effects = list(csv.DictReader(file))
    assert [each["feature"] for each in effects][:2] == ["age", "sex=m"]
    assert float(effects[0]["odds_ratio"]) > 1


def test_learning_together_is_planned(desk: Desk) -> None:
    words = ("plan", "learn", "--rows", "30", "--features", "3", "--epsilon", "4", "--parties", "5")
    found = json.loads(desk.run(*words, "--runs", "2", "--json", "--plot", "plan.svg"))
    assert len(found["points"]) == 5
    assert (desk.folder / "plan.svg").read_text().startswith("<svg")
    assert "simulated consortia" in " ".join(desk.run(*words, "--runs", "2").split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("release", "none.csv", "--party", "x"), "Cannot read study.toml"),
        (("verify", "nowhere", "--trust", "none.toml"), "Cannot read none.toml"),
        (("blend", "none.csv", "--releases", "x"), "Cannot read study.toml"),
        (("predict", "none.json", "none.csv"), "Cannot read none.json"),
        (("trust", "add", "x", "{}"), "not a public key"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    done = sudare(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
