"""Bodies to send to a collector, and `wrk` to send them with."""

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.counting import RECORD, Survey, open_office
from sudare.counting._tickets import _encrypt

_SCRIPT = Path(__file__).with_name("post.lua")


class Load(NamedTuple):
    """What one run of `wrk` saw."""

    requests: int
    seconds: float
    refused: int
    broken: int

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def reports_of_round(survey: Survey, key: bytes, round_: int, count: int) -> NDArray[np.void]:
    """Packed reports of `count` tickets whose turn is in this round, one of each block."""
    office = open_office(survey, key)
    serials = np.arange(count, dtype=np.uint64) * np.uint64(survey.rounds) + np.uint64(round_)
    assert (office.cells(serials, np.zeros(count, np.int64)) == round_).all()
    records = np.zeros(count, RECORD)
    records["serial"] = serials
    # Tickets are objects; to make millions of them takes longer than all that is measured.
    records["mark"] = _encrypt(office.marks, np.uint64(0), serials).view("V16").ravel()
    records["bit"] = np.arange(count) % 2
    return records


def post(url: str, bodies: Path, kind: str, connections: int, seconds: int) -> Load:
    """Send the bodies for this long, over this many connections; from the first again at the end,
    which the caller may want to rule out."""
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(_SCRIPT), url]
    words += ["--", str(bodies), kind]  # what follows the dashes is for the script
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.strip().splitlines()[-1])
    return Load(told["requests"], told["microseconds"] / 1e6, told["refused"], told["broken"])
