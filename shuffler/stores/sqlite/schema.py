"""The tables of the shuffler's store. A change raises the version and adds a migration from the previous one."""

from __future__ import annotations

from hubbub.protos.sqlite_layout import Layout, checksum_column
from hubbub.service.sqlite.ledger_table import LEDGER_TABLE
from hubbub.service.sqlite.release_table import CHAIN_TABLE
from hubbub.shuffler.stores.sqlite.enrollment import ADMISSION_TABLES

FILE_NAME = "shuffler.db"

_OF_ROUND = ("key", "task", "number", "state", "submissions", "closed_by", "refusals", "reason", "pseudonym_key")
"""Not the private key, which is compared with its record, nor the records, which are signed: damage there concerns one
round, and others go on."""

LAYOUT = Layout(
    what="shuffler's store",
    version=1,
    script=f"""
-- private_key opens the round's envelopes, pseudonym_key makes pseudonyms. NULL: destroyed, or not made yet.
CREATE TABLE round (
    key INTEGER PRIMARY KEY,
    task BLOB NOT NULL,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    submissions INTEGER NOT NULL DEFAULT 0,
    closed_by TEXT,
    refusals TEXT NOT NULL DEFAULT '{{}}',
    reason TEXT NOT NULL DEFAULT '',
    private_key BLOB,
    pseudonym_key BLOB,
    shuffler_body BLOB,
    shuffler_signature BLOB,
    analyzer_body BLOB,
    analyzer_signature BLOB,
    {checksum_column(*_OF_ROUND)},
    UNIQUE (task, number)
) STRICT;
CREATE TABLE tally (
    task BLOB NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL,
    {checksum_column("task", "number", "name", "count")},
    PRIMARY KEY (task, number, name)
) STRICT, WITHOUT ROWID;
-- Blocks, one for each round in a commit: key is round << 32 | running number, so that a round is one range of keys.
CREATE TABLE known (
    key INTEGER PRIMARY KEY, entries BLOB NOT NULL, {checksum_column("key", "entries")}
) STRICT;
CREATE TABLE arrived (
    key INTEGER PRIMARY KEY, inners BLOB NOT NULL, {checksum_column("key", "inners")}
) STRICT;
-- key is round << 32 | query << 26 | block.
CREATE TABLE released (key INTEGER PRIMARY KEY, envelopes BLOB NOT NULL) STRICT;
CREATE TABLE batch (
    round INTEGER NOT NULL REFERENCES round (key),
    query INTEGER NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL,
    signature BLOB NOT NULL,
    committed INTEGER NOT NULL DEFAULT 0,
    {checksum_column("round", "query", "digest", "committed")},
    PRIMARY KEY (round, query)
) STRICT;
{LEDGER_TABLE}
{ADMISSION_TABLES}
{CHAIN_TABLE}
""",
)
