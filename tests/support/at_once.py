"""Run as a program: one command in many folders at once, each in a process forked from this one.

    python -m tests.support.at_once ROUNDS FOLDER … -- WORD …

Every round begins all of them, held back until the last is there, and waits for all. For each
round one line of JSON has their exit codes.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import sudare.exchange
import sudare.ledger
import sudare.site
import sudare.study  # noqa: F401  (what the command will need)
from sudare.cli import main


def begin(folder: Path, words: list[str], gate: tuple[int, int]) -> int:
    """The process of a child that waits for the gate, then is the command."""
    if child := os.fork():
        return child
    code = 1
    with suppress(BaseException):
        os.chdir(folder)
        said = os.open("said", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.close(gate[1])
        os.read(gate[0], 1)  # until every other end is closed
        sys.argv = ["sudare", *words]
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    rounds, *rest = sys.argv[1:]
    cut = rest.index("--")
    folders, words = list(map(Path, rest[:cut])), rest[cut + 1 :]
    for _ in range(int(rounds)):
        gate = os.pipe()
        children = [begin(folder, words, gate) for folder in folders]
        os.close(gate[0])
        os.close(gate[1])
        codes = [os.WEXITSTATUS(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)
