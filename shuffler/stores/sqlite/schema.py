"""The tables of the shuffler's store. A change raises the version and adds a migration from the previous one."""

from __future__ import annotations

from hubbub.protos.sqlite_versions import Layout
from hubbub.service.sqlite.ledger_table import LEDGER_TABLE
from hubbub.service.sqlite.release_table import CHAIN_TABLE
from hubbub.shuffler.stores.sqlite.enrollment import ADMISSION_TABLES

FILE_NAME = "shuffler.db"

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
    UNIQUE (task, number)
) STRICT;
CREATE TABLE tally (
    task BLOB NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (task, number, name)
) STRICT, WITHOUT ROWID;
-- Blocks, one for each round in a commit: key is round << 32 | running number, so that a round is one range of keys.
CREATE TABLE known (key INTEGER PRIMARY KEY, entries BLOB NOT NULL) STRICT;
CREATE TABLE arrived (key INTEGER PRIMARY KEY, inners BLOB NOT NULL) STRICT;
-- key is round << 32 | query << 26 | block.
CREATE TABLE released (key INTEGER PRIMARY KEY, envelopes BLOB NOT NULL) STRICT;
CREATE TABLE batch (
    round INTEGER NOT NULL REFERENCES round (key),
    query INTEGER NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL,
    signature BLOB NOT NULL,
    committed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (round, query)
) STRICT;
{LEDGER_TABLE}
{ADMISSION_TABLES}
{CHAIN_TABLE}
""",
)
