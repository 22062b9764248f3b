"""The tables of the analyzer's store. A change raises the version and adds a migration from the previous one.

A batch is committed when it has a number of valid reports; a round is certified when it has a certificate.
"""

from __future__ import annotations

from hubbub.protos.sqlite_layout import Layout, checksum_column
from hubbub.service.receiving.inbox_tables import ROUND_TABLES
from hubbub.service.sqlite.ledger_table import LEDGER_TABLE
from hubbub.service.sqlite.release_table import CHAIN_TABLE

FILE_NAME = "analyzer.db"

_OF_BATCH = ("key", "round", "query", "reports", "dummies", "digest", "next_offset", "valid", "left_out")
"""Not what is signed: the record, and the counts, whose damage concerns one round."""

LAYOUT = Layout(
    what="analyzer's store",
    version=1,
    script=f"""
CREATE TABLE task (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    queries INTEGER NOT NULL,
    document BLOB NOT NULL,
    {checksum_column("key", "id", "name", "queries")}
) STRICT;
-- A batch with the record it came with. attestation: the analyzer's signature of what it counted.
CREATE TABLE batch (
    key INTEGER PRIMARY KEY,
    round INTEGER NOT NULL REFERENCES round (key),
    query INTEGER NOT NULL,
    record BLOB NOT NULL,
    signature BLOB NOT NULL,
    reports INTEGER NOT NULL,
    dummies INTEGER NOT NULL,
    digest BLOB NOT NULL,
    next_offset INTEGER NOT NULL DEFAULT 0,
    valid INTEGER,
    left_out TEXT,
    counts BLOB,
    attestation BLOB,
    {checksum_column(*_OF_BATCH)},
    UNIQUE (round, query)
) STRICT;
{ROUND_TABLES}
-- Keys rise in the order in which rounds were certified.
CREATE TABLE certificate (
    key INTEGER PRIMARY KEY,
    round INTEGER NOT NULL UNIQUE REFERENCES round (key),
    document BLOB NOT NULL,
    {checksum_column("key", "round")}
) STRICT;
{LEDGER_TABLE}
{CHAIN_TABLE}
""",
)
