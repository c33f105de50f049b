"""A folder in which six clinics have released, shared by the tests of the commands."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sudare.cli import app
from sudare.foundations.checks import SudareError
from tests.site.clinics import CLASSES, write_patients


class Desk:
    """Commands in one folder, in this process for speed."""

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


@pytest.fixture(scope="session")
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
