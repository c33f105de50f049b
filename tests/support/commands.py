"""Commands as a user meets them, but in this process."""

import io
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from sudare.cli import main


class Done(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def command(
    folder: Path, *words: str, columns: int = 200, program: Callable[[], None] = main
) -> Done:
    """Run a command in a folder. Anything but a message and an exit code is raised.

    `program` is `sudare` unless given; it reads `sys.argv`.
    """
    out, err = io.StringIO(), io.StringIO()
    environment = {"COLUMNS": str(columns), "NO_COLOR": "1"}
    code: object = 0
    with (
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", ["sudare", *words]),
        patch.dict("os.environ", environment),
    ):
        try:
            program()
        except SystemExit as ended:
            code = ended.code or 0
    assert isinstance(code, int)
    return Done(code, out.getvalue(), err.getvalue())
