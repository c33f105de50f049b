"""Workbooks, files of SAS, SPSS and Stata, and answers of DuckDB, as tables of named columns.

Each needs a library that sudare does not bring unless it is asked for; where it is missing, the
error names the extra. Errors name a file, a sheet or a column, and never hold a value.
"""

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sudare.foundations import checks
from sudare.releases import Label
from sudare.storage.files import unreadable
from sudare.study._contract import label_text
from sudare.study._reading import QUERY, WORKBOOKS, rules_of


def read_file(path: Path, labels: dict[str, tuple[Label, ...] | None] | None) -> pa.Table:
    """All columns of a workbook's sheet or of a statistics package's file.

    `labels`, by column, say whether a study calls the codes of a column by their value labels.
    """
    if path.suffix.lower() in WORKBOOKS:
        return _workbook(path)
    return _statistics(path, labels or {})


def answer(source: str) -> pa.Table:
    """The answer to a query, in an order that is the same each time."""
    file, question, query = source.removeprefix(QUERY).partition("?")
    if not question or not query.strip():
        raise checks.InvalidInput(
            'Expected "duckdb:FILE?SELECT …", as in "duckdb:patients.duckdb?SELECT * FROM patients"'
        )
    duckdb = _library("duckdb", "recount")
    if file and not Path(file).is_file():
        raise checks.InvalidInput(f"There is no database {file}")
    try:
        with duckdb.connect(file or ":memory:", read_only=bool(file)) as database:
            database.execute("SET threads = 1")
            return database.sql(query).to_arrow_table()
    except duckdb.Error as problem:
        # A cast that fails quotes the value: only what was wrong with the query may be told.
        told = f": {str(problem).splitlines()[0]}" if _about_the_query(duckdb, problem) else ""
        raise checks.InvalidInput(
            f"DuckDB cannot answer that query{told or ' for all rows'}"
        ) from None
    except AttributeError:  # a statement without an answer
        raise checks.InvalidInput("Expected a query that has an answer: SELECT …") from None


def _about_the_query(duckdb: Any, problem: Exception) -> bool:
    return isinstance(problem, duckdb.ParserException | duckdb.CatalogException)


def _workbook(path: Path) -> pa.Table:
    """The sheet that the side file names, or the first; its first row has the names."""
    calamine = _library("python_calamine", "excel")
    wanted = rules_of(path).sheet
    try:
        book = calamine.load_workbook(str(path))
        if wanted is not None and wanted not in book.sheet_names:
            raise checks.InvalidInput(
                f"{path} has no sheet {wanted!r}; it has {', '.join(map(repr, book.sheet_names))}"
            )
        sheet = book.get_sheet_by_name(wanted or book.sheet_names[0])
        rows = sheet.to_python(skip_empty_area=True)
    except OSError as problem:
        raise unreadable(path, problem, str(problem)) from None
    except (calamine.CalamineError, calamine.PasswordError):
        raise checks.InvalidInput(
            f"{path} is not a workbook that can be read: is it damaged, or locked by a password?"
        ) from None
    rows = [row for row in rows if any(cell != "" for cell in row)]
    if not rows:
        raise checks.InvalidInput(f"{path} is empty: expected a header and rows")
    names = [_cell(name) or "" for name in rows[0]]
    used = [place for place, name in enumerate(names) if name]
    columns = [pa.array([_cell(row[place]) for row in rows[1:]], pa.string()) for place in used]
    return pa.Table.from_arrays(columns, names=[names[place] for place in used])


def _cell(value: Any) -> str | None:
    """A cell as a CSV file would spell it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    text = value.isoformat() if hasattr(value, "isoformat") else label_text(value)
    return text or None


def _statistics(path: Path, labels: dict[str, tuple[Label, ...] | None]) -> pa.Table:
    library = _library("pyreadstat", "stats")
    readers: dict[str, Callable[..., Any]] = {
        ".sas7bdat": library.read_sas7bdat,
        ".xpt": library.read_xport,
        ".sav": library.read_sav,
        ".zsav": library.read_sav,
        ".dta": library.read_dta,
    }
    options: dict[str, Any] = {"output_format": "dict"}
    if (encoding := rules_of(path).encoding) is not None:
        options["encoding"] = encoding
    try:
        with path.open("rb"):
            columns, about = readers[path.suffix.lower()](str(path), **options)
    except OSError as problem:
        raise unreadable(path, problem, str(problem)) from None
    except (library.PyreadstatError, library.ReadstatError, UnicodeError, ValueError):
        raise checks.InvalidInput(
            f"{path} cannot be read: it is damaged, or its encoding is another one (name it in "
            f"{path.name}.reading.toml)"
        ) from None
    table = {}
    for name, values in columns.items():
        texts = about.variable_value_labels.get(name, {})
        asked = labels.get(name)
        listed = list(values.tolist() if hasattr(values, "tolist") else values)
        if asked is not None and _are_labels(asked, texts):
            listed = [texts.get(value, value) for value in listed]
        table[name] = _column(listed)
    return pa.table(table)


def _are_labels(asked: Sequence[Label], texts: dict[Any, str]) -> bool:
    """Whether a study calls the values by what they mean, and not by their codes."""
    meant = {label_text(text) for text in texts.values()}
    return bool(meant) and meant.issuperset(map(label_text, asked))


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        texts = [None if value is None else _cell(value) for value in values]
        return pa.array(texts, pa.string())


def _library(name: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise checks.InvalidInput(
            f"This kind of file needs {name}, which is not installed: pip install 'sudare[{extra}]'"
        ) from None
