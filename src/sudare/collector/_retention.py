"""Raw reports, for operators who turn their retention on: Parquet files, each report in one.

By default a collector keeps no report. With retention it keeps what devices sent: the ticket's
serial, the slot, the cell it counts in and the randomised bit. That is what the survey's ε allows
anyone to see, and no more; it is still one person's, and should be deleted when it has been used.

Reports reach the files by way of the store: they are saved in the transaction that counts them, and
moved here later. A file's name follows from what is in it, so a move that is cut short by a crash
is done again under the same name.

`recount` counts them again, from the files alone: one SQL text for DuckDB (extra `recount`) and
Spark (extra `spark`). A report that stands in two files, as after a restored backup, counts once;
that is decided by ticket and slot.
"""

import hashlib
import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sudare.counting import Survey, Tally, empty_tally, read_survey
from sudare.foundations import checks
from sudare.storage.files import replace_file

RAW = np.dtype([("serial", "<i8"), ("slot", "<i4"), ("cell", "<i4"), ("bit", "i1")])
"""One raw report, as the store keeps it until it is moved."""
SURVEY_KEY = b"sudare.survey"
_SMALL, _MANY = 1 << 20, 60
"""So many files of fewer bytes become one."""
SURVEY_FILE = "survey.toml"
"""Beside the reports, the survey they are for, with its start."""


class Retention:
    """A folder of Parquet files, all of one survey."""

    def __init__(self, folder: str | Path, survey: Survey) -> None:
        self.folder = Path(folder)
        self._metadata = {SURVEY_KEY: survey.digest().hex().encode()}
        kept = self.folder / SURVEY_FILE
        if kept.exists() and read_survey(kept).digest() != survey.digest():
            raise checks.InvalidInput(f"{self.folder} holds reports of another survey")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(kept, survey.to_toml().encode(), 0o600)
        except OSError as problem:
            raise checks.InvalidInput(
                f"Cannot keep reports in {self.folder}: {problem.strerror}"
            ) from None

    def write(self, name: str, batches: Sequence[bytes]) -> Path:
        """Put batches of `RAW` records into one file; they are safe on disk when this returns."""
        records = np.frombuffer(b"".join(batches), RAW)
        columns = {field: np.ascontiguousarray(records[field]) for field in RAW.names or ()}
        return self._write(name, pa.table(columns))

    def compact(self) -> None:
        """Many small files into one. Cut short by a crash it leaves reports in two files, which
        count once."""
        files = sorted(self.folder.glob("*.parquet"))
        small = [file for file in files if file.stat().st_size < _SMALL]
        if len(small) < _MANY:
            return
        names = hashlib.sha256("".join(file.name for file in small).encode()).hexdigest()[:16]
        self._write(
            f"{small[0].stem.partition('-')[0]}-{names}",
            pa.concat_tables(pq.read_table(file) for file in small),
        )
        for file in small:
            file.unlink(missing_ok=True)

    def _write(self, name: str, table: pa.Table) -> Path:
        whole = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(self._metadata), whole, compression="zstd")
        file = self.folder / f"{name}.parquet"
        replace_file(file, whole.getvalue().to_pybytes(), 0o600)
        return file


Engine = Literal["duckdb", "spark"]
ENGINES: tuple[Engine, ...] = ("duckdb", "spark")

SQL = """
SELECT cell, COUNT(*) AS reporters, SUM(bit) AS ones
FROM (SELECT serial, slot, MIN(cell) AS cell, MIN(bit) AS bit
      FROM reports GROUP BY serial, slot) AS each_once
GROUP BY cell
"""


def recount(folder: str | Path, survey: Survey, engine: Engine = "duckdb") -> Tally:
    """The counts of all reports in a folder's files."""
    checks.one_of(ENGINES, engine=engine)
    files = _files(Path(folder), survey)
    if not files:
        return empty_tally(survey)
    rows = _duckdb(files) if engine == "duckdb" else _spark(files)
    counts = np.array([(int(c), int(n), int(y)) for c, n, y in rows], np.int64).reshape(-1, 3)
    cells = counts[:, 0]
    if cells.size and not ((cells >= 0) & (cells < survey.cells)).all():
        raise checks.InvalidInput("Expected reports of this survey: one is for no round of it")
    reporters, ones = np.zeros((2, survey.cells), np.int64)
    reporters[cells], ones[cells] = counts[:, 1], counts[:, 2]
    return Tally(survey.digest(), reporters, ones)


def _files(folder: Path, survey: Survey) -> list[str]:
    """The folder's files, once it is certain that all are whole and of this survey."""
    if not folder.is_dir():
        raise checks.InvalidInput(f"Expected a folder of retained reports: {folder} is none")
    files = sorted(folder.glob("*.parquet"))
    for file in files:
        try:
            metadata = pq.read_schema(file).metadata or {}
        except (OSError, ValueError):
            raise checks.InvalidInput(
                f"Cannot read {file}: it is not a whole Parquet file"
            ) from None
        if metadata.get(SURVEY_KEY) != survey.digest().hex().encode():
            raise checks.InvalidInput(f"{file} holds reports of another survey")
    return [str(file) for file in files]


def _duckdb(files: list[str]) -> Iterable[Any]:
    duckdb = _extra("duckdb", "recount")
    with duckdb.connect() as database:
        database.read_parquet(files).create_view("reports")
        found: Iterable[Any] = database.sql(SQL).fetchall()
    return found


def _spark(files: list[str]) -> Iterable[Any]:
    sql = _extra("pyspark.sql", "spark")
    # An address on the network is only asked for where the session is not one of the operator's.
    session = (
        sql.SparkSession.getActiveSession()
        or sql.SparkSession.builder.appName("sudare recount")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.read.parquet(*files).createOrReplaceTempView("reports")
    found: Iterable[Any] = session.sql(SQL).collect()
    return found


def _extra(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise checks.InvalidInput(
            f"This needs {module.partition('.')[0]}: pip install 'sudare[{extra}]'"
        ) from None
