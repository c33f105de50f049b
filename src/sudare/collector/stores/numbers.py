"""Arrays on their way into PostgreSQL, in its binary form: no loop over their items."""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg.adapt import Dumper
from psycopg.pq import Format

_INT8, _INT8_ARRAY = 20, 1016
"""PostgreSQL's numbers for these types."""


class Numbers:
    """Whole numbers on their way into a query, as int8[]."""

    def __init__(self, numbers: NDArray[Any]) -> None:
        self.numbers = numbers


class NumbersDumper(Dumper):
    format = Format.BINARY
    oid = _INT8_ARRAY

    def dump(self, obj: Numbers) -> bytes:
        size = obj.numbers.size
        if not size:
            return struct.pack(">iii", 0, 0, _INT8)
        items = np.empty(size, [("bytes", ">i4"), ("number", ">i8")])
        items["bytes"], items["number"] = 8, obj.numbers
        return struct.pack(">iiiii", 1, 0, _INT8, size, 1) + items.tobytes()
