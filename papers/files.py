"""The files of a reproduced figure: PNG and SVG, or a text table, and always a CSV file."""

import csv
import io
from pathlib import Path

from papers import drawing
from papers.figure import Figure, Results, TextTable
from sudare.foundations import checks

DIGITS = 6


def write(figure: Figure, results: Results, folder: Path) -> dict[str, str]:
    """Write all of them; returns their names, by kind."""
    made = {"csv": f"{figure.name}.csv"}
    _save(folder / made["csv"], as_csv(figure, results).encode())
    if figure.draw is not None:
        png, svg = drawing.picture(figure, results)
        made |= {"png": f"{figure.name}.png", "svg": f"{figure.name}.svg"}
        _save(folder / made["png"], png)
        _save(folder / made["svg"], svg.encode())
    if figure.table is not None:
        made["txt"] = f"{figure.name}.txt"
        _save(folder / made["txt"], as_text(figure.table(results)).encode())
    return made


def as_csv(figure: Figure, results: Results) -> str:
    """One line a place: mean, 95 % interval and runs; the last three empty for computed numbers.

    A figure that is only a table has the table's own columns.
    """
    if figure.draw is None and figure.table is not None:
        table = figure.table(results)
        return _csv([table.header, *table.rows])
    lines: list[tuple[str, ...]] = [(*figure.columns, "low", "high", "runs")]
    for panel, curve, x, found in results.rows():
        interval = ("", "", "")
        if found.runs:
            interval = (_number(found.low), _number(found.high), str(found.runs))
        lines.append((panel, curve, _number(x), _number(found.value), *interval))
    return _csv(lines)


def as_text(table: TextTable) -> str:
    """Columns under their headings, for a terminal."""
    lines = [table.header, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    padded.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(padded) + "\n"


def save_page(folder: Path, text: str) -> Path:
    """The page, beside the figures' files."""
    path = folder / "index.html"
    _save(path, text.encode())
    return path


def make_folder(folder: Path) -> None:
    """The folder for everything; refused before hours of work if it cannot be had."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot make folder {folder}: {problem.strerror}") from None


def _save(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {path}: {problem.strerror}") from None


def _number(value: float) -> str:
    return f"{value:.{DIGITS}g}"


def _csv(lines: list[tuple[str, ...]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()
