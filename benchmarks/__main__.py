"""python -m benchmarks [name ...] [--quick]: run, print, save; exit 1 when an aim is missed.

Of a benchmark that has parts, `--part` runs one again; the saved rows of the others stay.
"""

import argparse
import importlib
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

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
    parser.add_argument("--part", action="append", help="only this part; repeat for more")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")

    missed = False
    for name in options.names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        rows: list[Row]
        if not options.part:
            rows = module.run(options.quick)
        elif unknown := set(options.part) - set(getattr(module, "PARTS", ())):
            parser.error(f"{name} has no such part: {', '.join(sorted(unknown))}")
        else:
            rows = module.run(options.quick, options.part)
            if not options.quick:
                rows = _with_others(name, module, options.part, rows)
        title = (module.__doc__ or name).strip()
        Console().print(_table(name, rows))
        if not options.quick:
            _save(name, title, rows)
        missed |= any(row.ok is False for row in rows)
    return int(missed)


def _with_others(name: str, module: Any, parts: list[str], rows: list[Row]) -> list[Row]:
    """New rows of some parts, and those that were saved of the others, in their usual order."""
    saved = [_row(each) for each in msgspec.json.decode(_results(name).read_bytes())["rows"]]
    kept = [row for row in saved if module.part_of(row.name) not in parts]
    return sorted([*kept, *rows], key=lambda row: module.PARTS.index(module.part_of(row.name)))


def _row(saved: dict[str, Any]) -> Row:
    """JSON has no NaN: a value that is not defined is null there."""
    return Row(**saved | {"value": float("nan") if saved["value"] is None else saved["value"]})


def _results(name: str) -> Path:
    return RESULTS / f"{name}.json"


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
    _results(name).write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    (RESULTS / f"{name}.md").write_text(f"# {name}\n\n{title}\n\n{markdown(rows)}\n{machine}.\n")


if __name__ == "__main__":
    sys.exit(main())
