"""Both stores keep the same, each in its own way."""

import re

from sudare.collector.stores import postgres, sqlite


def tables(schema: str) -> dict[str, list[str]]:
    """The columns of each table, in order."""
    found = re.findall(
        r"CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)\)(?:;| WITH|$)", schema, re.S
    )
    return {
        name.removeprefix("collector_"): re.findall(
            r"(\w+) (?:TEXT|BLOB|BYTEA|INT|BIG|REAL|FLO)", body
        )
        for name, body in found
    }


def test_the_same_tables() -> None:
    file, shared = tables(sqlite.SCHEMA), tables(postgres.SCHEMA)
    # Which serials are used: blobs and bitmaps here, an index there.
    assert file.keys() - shared.keys() == {"groups", "chunks"}
    assert shared.keys() - file.keys() == {"used"}
    for name in file.keys() & shared.keys():
        own = [column for column in shared[name] if column != "shard"]  # whose counts they are
        # A server has check sums of its own pages; a file's counts have control numbers.
        mine = [column for column in file[name] if column != "control"]
        assert [c.replace("only_one", "only") for c in own] == mine
    assert "control" in file["counts"]


def test_no_bit_of_anybodys_is_kept() -> None:
    """But for raw reports, on request."""
    every = {column for table in tables(sqlite.SCHEMA).values() for column in table}
    assert "bit" not in every
    assert {"serials", "bits", "reports"} <= every  # `bits` of a bitmap: which serials are used
