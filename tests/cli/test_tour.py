"""`sudare demo`; tests/test_demo.py takes the tour itself."""

import subprocess
import sys
from pathlib import Path


def test_a_folder_that_cannot_be_made_is_said_first(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    program = Path(sys.executable).with_name("sudare")
    done = subprocess.run(
        [program, "demo", "--out", "taken"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: taken: File exists\n"
