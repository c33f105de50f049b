"""The tables of a store, statement by statement, and how PostgreSQL counts."""

SQLITE = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE ranges (first INTEGER PRIMARY KEY, next INTEGER NOT NULL, secret BLOB NOT NULL);
CREATE TABLE progress (
    only INTEGER PRIMARY KEY CHECK (only = 0),
    published INTEGER NOT NULL, sealed INTEGER NOT NULL, smoother BLOB NOT NULL
);
CREATE TABLE counts (cell INTEGER PRIMARY KEY, reporters INTEGER NOT NULL, ones INTEGER NOT NULL);
CREATE TABLE groups (
    number INTEGER PRIMARY KEY, bank INTEGER NOT NULL, width INTEGER NOT NULL, serials BLOB NOT NULL
);
CREATE TABLE chunks (
    bank INTEGER NOT NULL, chunk INTEGER NOT NULL, bits BLOB NOT NULL, PRIMARY KEY (bank, chunk)
);
CREATE TABLE rounds (
    round INTEGER PRIMARY KEY, published REAL NOT NULL, users INTEGER NOT NULL,
    reporters INTEGER NOT NULL, raw REAL, low REAL NOT NULL, high REAL NOT NULL, smoothed REAL,
    revision INTEGER NOT NULL
);
CREATE TABLE refusals (reason TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE raw (number INTEGER PRIMARY KEY AUTOINCREMENT, reports BLOB NOT NULL)
"""

POSTGRESQL = """
CREATE TABLE IF NOT EXISTS collector_meta (name TEXT PRIMARY KEY, value BYTEA NOT NULL);
CREATE TABLE IF NOT EXISTS collector_ranges (
    first INT8 PRIMARY KEY, next INT8 NOT NULL, secret BYTEA NOT NULL
);
CREATE TABLE IF NOT EXISTS collector_counts (
    shard INT4 NOT NULL, cell INT8 NOT NULL, reporters INT8 NOT NULL, ones INT8 NOT NULL,
    PRIMARY KEY (cell, shard)
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS collector_used (
    bank INT8 NOT NULL, serial INT8 NOT NULL, PRIMARY KEY (bank, serial)
);
CREATE TABLE IF NOT EXISTS collector_rounds (
    round INT8 PRIMARY KEY, published FLOAT8 NOT NULL, users INT8 NOT NULL,
    reporters INT8 NOT NULL, raw FLOAT8, low FLOAT8 NOT NULL, high FLOAT8 NOT NULL,
    smoothed FLOAT8, revision INT8 NOT NULL
);
CREATE TABLE IF NOT EXISTS collector_refusals (
    shard INT4 NOT NULL, reason TEXT NOT NULL, number INT8 NOT NULL, PRIMARY KEY (shard, reason)
);
CREATE TABLE IF NOT EXISTS collector_raw (number BIGSERIAL PRIMARY KEY, reports BYTEA NOT NULL);
CREATE TABLE IF NOT EXISTS collector_progress (
    only_one INT4 PRIMARY KEY CHECK (only_one = 0),
    published INT8 NOT NULL, sealed INT8 NOT NULL, smoother BYTEA NOT NULL
)
"""

COUNT_NEW = """
WITH new AS (
    INSERT INTO collector_used SELECT * FROM unnest(%s, %s)
    ON CONFLICT DO NOTHING RETURNING bank, serial
)
SELECT count(*),
    CASE WHEN count(*) < %s THEN array_agg(bank) END,
    CASE WHEN count(*) < %s THEN array_agg(serial) END
FROM new
"""

ADD_COUNTS = """
INSERT INTO collector_counts AS kept SELECT %s, * FROM unnest(%s, %s, %s)
ON CONFLICT (cell, shard) DO UPDATE
SET reporters = kept.reporters + excluded.reporters, ones = kept.ones + excluded.ones
"""
