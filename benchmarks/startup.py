"""How much of one core a command takes, beside Python that does nothing (`python -c pass`).

Aims: 0.15 s of CPU time for `--version` and `--help`, 1 s for `sudare verify` of ten releases. The
least of many starts is kept: a busy machine only ever makes one slower.
"""

import os
import subprocess
import sys
import tempfile
from math import inf
from pathlib import Path

from benchmarks.table import Row
from sudare.exchange import Keyring, new_key
from sudare.foundations.randomness import seeded
from sudare.ledger import Ledger
from sudare.site import open_data, publish
from sudare.study import parse_study

STUDY = """
name = "start"
[columns.age]
low = 20
high = 90
[columns.pressure]
low = 80
high = 200
[target]
column = "ill"
classes = [0, 1]
[privacy]
epsilon = 4.0
delta = 1e-6
"""


def run(quick: bool) -> list[Row]:
    """Starts in processes of their own, taking turns with the bare interpreter."""
    repeat = 2 if quick else 15
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _release(folder, 10)
        verify = ["verify", "releases"]
        return [
            _row("sudare --version", ["--version"], "<= 0.15", folder, repeat),
            _row("sudare --help", ["--help"], "<= 0.15", folder, repeat),
            _row("sudare release --help", ["release", "--help"], "", folder, repeat),
            _row("sudare verify, ten releases", verify, "<= 1", folder, repeat),
            _row("… with --study", [*verify, "--study", "study.toml"], "<= 1", folder, repeat),
        ]


def _release(folder: Path, many: int) -> None:
    (folder / "study.toml").write_text(STUDY)
    study, ring, rng = parse_study(STUDY), Keyring(), seeded(1)
    for k in range(many):
        rows = [
            f"{20 + 70 * a:.0f},{80 + 120 * b:.0f},{int(a < b)}" for a, b in rng.random((90, 2))
        ]
        data = folder / f"{k}.csv"
        data.write_text("\n".join(["age,pressure,ill", *rows]) + "\n")
        key = new_key()
        ring = ring.with_key(f"Clinic {k}", key.public)
        with Ledger(str(folder / f"{k}.db")) as book:
            open_data(data, study, book, "rows", 4.0, 1e-6)
            publish(data, study, book, key, party=f"Clinic {k}", place=str(folder / "releases"))
    (folder / "trust.toml").write_text(ring.to_toml())


def _row(name: str, words: list[str], aim: str, folder: Path, repeat: int) -> Row:
    program = [str(Path(sys.executable).with_name("sudare")), *words]
    command, bare = inf, inf
    for _ in range(repeat):
        command = min(command, _cpu_seconds(program, folder))
        bare = min(bare, _cpu_seconds([sys.executable, "-c", "pass"], folder))
    ok = command <= float(aim.split()[1]) if aim else None
    return Row(
        name=name,
        value=command,
        unit="s",
        baseline="python -c pass",
        baseline_value=bare,
        ratio=command / bare,
        aim=aim and f"{aim} s",
        ok=ok,
    )


def _cpu_seconds(command: list[str], folder: Path) -> float:
    """Of one process that ends well."""
    started = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode != 0:
        raise subprocess.CalledProcessError(started.returncode, command)
    return usage.ru_utime + usage.ru_stime
