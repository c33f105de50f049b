"""Arrays reach PostgreSQL as they are."""

import numpy as np
import psycopg
import pytest

from sudare.collector.stores.postgres import Numbers, NumbersDumper


@pytest.mark.parametrize(
    "numbers",
    [
        np.array([], np.int64),
        np.array([0]),
        np.array([2**63 - 1, -(2**63), -1, 1]),
        np.array([2**48 - 1, 5], np.uint64),
        np.arange(100, dtype=np.int32)[::-3],
        np.broadcast_to(7, 4),
    ],
    ids=str,
)
def test_there_and_back(server: str, numbers: np.ndarray) -> None:
    with psycopg.connect(f"{server}/postgres") as connection:
        connection.adapters.register_dumper(Numbers, NumbersDumper)
        ((told, kind),) = connection.execute(
            "SELECT %s, pg_typeof(%s)::text", (Numbers(numbers), Numbers(numbers))
        )
    assert (told, kind) == (numbers.tolist(), "bigint[]")
