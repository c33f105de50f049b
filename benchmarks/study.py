"""Reading a table under a study, beside pyarrow's own CSV reader on the same file and cores.

The study's reader also checks, clips, centres and scales every value, and finds every label.
Aims: at least half of pyarrow's throughput on a million rows of thirty numbers; memory beyond what
is kept within 160 MB, however long the file is: pyarrow reads 32 blocks of 1 MB ahead.
"""

import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchmarks.table import Row, against, compare
from sudare.foundations.randomness import seeded
from sudare.study import Study, parse_study, read_blocks

NUMBERS = 30
MOST_MB = 160


def run(quick: bool) -> list[Row]:
    """CSV and Parquet, taking turns with pyarrow; memory in processes of their own."""
    size = 10**5 if quick else 10**6
    repeat = 2 if quick else 5
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = _table(size)
        pa.csv.write_csv(table, folder / "data.csv")
        pa.parquet.write_table(table, folder / "data.parquet")
        labelled = _labels(size)
        pa.csv.write_csv(labelled, folder / "labels.csv")
        shape = f"{size:.0e} × {NUMBERS}".replace("e+0", "e")
        numbers = _throughput(f"CSV {shape} numbers", folder / "data.csv", _study(), repeat)
        rows.append(against(*numbers, ">= 0.5"))
        name = f"CSV {size:.0e} × 5 columns of ten labels (45 features)".replace("e+0", "e")
        labels = _throughput(name, folder / "labels.csv", _label_study(), repeat)
        rows.append(replace(against(*labels, ">= 0"), aim="", ok=None))
        rows.append(_parquet(f"Parquet {shape}", folder / "data.parquet", repeat))
        for file in ("data.csv", "data.parquet"):
            rows.append(_memory(f"{file}: memory in blocks", folder / file))
    return rows


def _throughput(
    name: str, file: Path, study: Study, repeat: int
) -> tuple[str, float, str, str, float]:
    ours, theirs = compare(
        lambda: _through(file, study), lambda: pa.csv.read_csv(file), repeat, min_seconds=0.0
    )
    size = file.stat().st_size / 1e6
    return name, size / ours, "MB/s", "pyarrow read_csv", size / theirs


def _parquet(name: str, file: Path, repeat: int) -> Row:
    ours, theirs = compare(
        lambda: _through(file, _study()),
        lambda: pa.parquet.read_table(file),
        repeat,
        min_seconds=0.0,
    )
    return Row(
        name=name,
        value=ours,
        unit="s",
        baseline="pyarrow read_table",
        baseline_value=theirs,
        ratio=ours / theirs,
    )


def _memory(name: str, file: Path) -> Row:
    """What reading adds to the peak of a fresh process that has imported everything."""
    command = [sys.executable, "-m", "benchmarks.study", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    size = file.stat().st_size / 1e6
    extra = float(done.stdout)
    return Row(
        name=name,
        value=extra,
        unit="MB",
        baseline="the file",
        baseline_value=size,
        ratio=extra / size,
        aim=f"<= {MOST_MB} MB",
        ok=extra <= MOST_MB,
    )


def _through(file: Path, study: Study) -> None:
    for block in read_blocks(file, study):
        assert block.targets is not None


def _table(size: int) -> pa.Table:
    rng = seeded(0)
    columns = {f"c{i}": rng.standard_normal(size) for i in range(NUMBERS)}
    return pa.table(columns | {"y": np.where(rng.random(size) < 0.5, "no", "yes")})


def _labels(size: int) -> pa.Table:
    rng = seeded(1)
    words = np.array([f"category {i}" for i in range(10)])
    columns = {f"c{i}": words[rng.integers(0, 10, size)] for i in range(5)}
    return pa.table(columns | {"y": np.where(rng.random(size) < 0.5, "no", "yes")})


def _study() -> Study:
    return _parse("".join(f"[columns.c{i}]\nlow = -3\nhigh = 3\n" for i in range(NUMBERS)))


def _label_study() -> Study:
    labels = [f"category {i}" for i in range(10)]
    return _parse("".join(f"[columns.c{i}]\ncategories = {labels}\n" for i in range(5)))


def _parse(columns: str) -> Study:
    return parse_study(
        f"name = 'speed'\n{columns}[target]\ncolumn = 'y'\nclasses = ['no', 'yes']\n"
        "[privacy]\nepsilon = 1\ndelta = 1e-6\n"
    )


def _kilobytes(of: str) -> int:
    """A number from the kernel's account of this process; what a child inherits is not in it."""
    found = re.search(rf"{of}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


if __name__ == "__main__":
    Path("/proc/self/clear_refs").write_text("5")  # begin to measure the peak anew
    before = _kilobytes("VmRSS")
    _through(Path(sys.argv[1]), _study())
    print((_kilobytes("VmHWM") - before) / 1e3)
