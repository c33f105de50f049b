"""python -m benchmarks [name ...] [--quick]: run, print, save; exit 1 when an aim is missed."""

import argparse
import importlib
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

import msgspec
import numpy
from rich.console import Console
from rich.table import Table

import sudare
from benchmarks.table import Row, columns, markdown

HERE = Path(__file__).parent
RESULTS = HERE / "results"
NAMES = sorted(p.stem for p in HERE.glob("*.py") if p.stem not in {"__init__", "__main__", "table"})


def main() -> int:
    """Run the named benchmarks, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES) or 'none'}")
    parser.add_argument("--quick", action="store_true", help="try them out; save nothing")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")

    missed = False
    for name in options.names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        rows: list[Row] = module.run(options.quick)
        title = (module.__doc__ or name).strip()
        Console().print(_table(name, rows))
        if not options.quick:
            _save(name, title, rows)
        missed |= any(row.ok is False for row in rows)
    return int(missed)


def _table(title: str, rows: list[Row]) -> Table:
    headings, cells = columns(rows)
    table = Table(*headings, title=title)
    for row, line in zip(rows, cells, strict=True):
        table.add_row(*line, style="red" if row.ok is False else None)
    return table


def _save(name: str, title: str, rows: list[Row]) -> None:
    machine = (
        f"sudare {sudare.__version__}, Python {platform.python_version()}, "
        f"numpy {numpy.__version__}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores"
    )
    RESULTS.mkdir(exist_ok=True)
    data = {"machine": machine, "rows": [asdict(row) for row in rows]}
    (RESULTS / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    (RESULTS / f"{name}.md").write_text(f"# {name}\n\n{title}\n\n{markdown(rows)}\n{machine}.\n")


if __name__ == "__main__":
    sys.exit(main())
