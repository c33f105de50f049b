"""Raw reports, for operators who turn their retention on: Parquet files, each report in one.

By default a collector keeps no report. With retention it keeps what devices sent: the ticket's
serial, the slot, the cell it counts in and the randomised bit. That is what the survey's ε allows
anyone to see, and no more; it is still one person's, and should be deleted when it has been used.

Reports reach the files by way of the store: they are saved in the transaction that counts them, and
moved here later. A file's name follows from what is in it, so a move that is cut short by a crash
is done again under the same name.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sudare import checks
from sudare.counting import Survey, read_survey
from sudare.files import replace_file

RAW = np.dtype([("serial", "<i8"), ("slot", "<i4"), ("cell", "<i4"), ("bit", "i1")])
"""One raw report, as the store keeps it until it is moved."""
SURVEY_KEY = b"sudare.survey"
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
        table = pa.table(columns).replace_schema_metadata(self._metadata)
        whole = pa.BufferOutputStream()
        pq.write_table(table, whole, compression="zstd")
        file = self.folder / f"{name}.parquet"
        replace_file(file, whole.getvalue().to_pybytes(), 0o600)
        return file
