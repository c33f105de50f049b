"""`sudare demo`; tests/test_demo.py takes the tour itself."""

import subprocess
import sys
from pathlib import Path

from tests.support.commands import command


def test_a_folder_that_cannot_be_made_is_said_first(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    program = Path(sys.executable).with_name("sudare")
    done = subprocess.run(
        [program, "demo", "--out", "taken"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: taken: File exists\n"


def test_patients_are_written_once_and_the_same_for_a_seed(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        done = command(tmp_path, "simulate", "patients", name, "--count", "30", "--seed", "4")
        assert done.code == 0
    text = (tmp_path / "a.csv").read_text()
    assert text == (tmp_path / "b.csv").read_text()
    assert len(text.splitlines()) == 31
    again = command(tmp_path, "simulate", "patients", "a.csv")
    assert (again.code, "exists" in again.err) == (2, True)
    nowhere = command(tmp_path, "simulate", "patients", "no/a.csv")
    assert (nowhere.code, "Cannot write" in nowhere.err) == (2, True)
