"""The tables of the shuffler's store. A change raises the version and adds a migration from the one before."""

from __future__ import annotations

import sqlite3

from hubbub.protos.sqlite_versions import Layout, statements
from hubbub.service.sqlite.ledger_table import LEDGER_TABLE
from hubbub.service.sqlite.release_table import CHAIN_TABLE
from hubbub.shuffler.stores.sqlite.enrollment import ENROLLED_TABLES

FILE_NAME = "shuffler.db"


def _from_2(connection: sqlite3.Connection) -> None:
    """Version 2 admitted whoever came. Its rounds hold submissions under their own ids, and go on doing so.

    Its tasks' batch records state no place among releases, and never will: their chains stay empty.
    """
    for statement in statements(ENROLLED_TABLES + CHAIN_TABLE):
        connection.execute(statement)


LAYOUT = Layout(
    what="shuffler's store",
    version=3,
    older="run the version that wrote it until its tasks are over, and start new tasks in a store of another folder",
    script=f"""
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
-- key is round << 32 | query << 26.
CREATE TABLE batch (
    key INTEGER PRIMARY KEY,
    query INTEGER NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL,
    signature BLOB NOT NULL,
    committed INTEGER NOT NULL DEFAULT 0
) STRICT;
{LEDGER_TABLE}
{ENROLLED_TABLES}
{CHAIN_TABLE}
""",
    migrations={2: _from_2},
)
"""Version 1 had no ledger: what its rounds had spent cannot be known afterwards, so it is not brought forward."""
