"""The tables of the analyzer's store. A change raises the version and adds a migration from the one before.

A batch is committed when it has a number of valid reports; a round is certified when it has a certificate. Private keys
have a table of their own, so that destroying one is deleting its row.
"""

from __future__ import annotations

import sqlite3

from hubbub.protos.stored import Layout, statements
from hubbub.service.chain_table import CHAIN_TABLE
from hubbub.service.ledger_table import LEDGER_TABLE

FILE_NAME = "analyzer.db"


def _one_ledger_for_both_services(connection: sqlite3.Connection) -> None:
    """Version 3: the ledger is the same table as the shuffler's, which the database itself lets only grow."""
    connection.execute("ALTER TABLE ledger RENAME TO ledger_before")
    for statement in statements(LEDGER_TABLE):
        connection.execute(statement)
    connection.execute(
        "INSERT INTO ledger (task, place, entry, digest) SELECT task_id, place, entry, digest"
        " FROM ledger_before JOIN tasks ON tasks.id = ledger_before.task"
    )
    connection.execute("DROP TABLE ledger_before")


def _releases(connection: sqlite3.Connection) -> None:
    """Version 4: the releases of each task. Those of version 3 state no places in their records: no chain begins."""
    for statement in statements(CHAIN_TABLE):
        connection.execute(statement)


LAYOUT = Layout(
    what="analyzer's store",
    version=4,
    older="run the version that wrote it until its tasks are over, and start new tasks in a store of another folder",
    migrations={2: _one_ledger_for_both_services, 3: _releases},
    script=f"""
CREATE TABLE tasks (id INTEGER PRIMARY KEY, task_id BLOB NOT NULL UNIQUE, name TEXT NOT NULL, queries INTEGER NOT NULL,
    document BLOB NOT NULL);
CREATE TABLE rounds (id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks, round INTEGER NOT NULL,
    record BLOB NOT NULL, signature BLOB NOT NULL, not_after INTEGER NOT NULL, key_set BLOB, UNIQUE (task, round));
CREATE TABLE private_keys (round INTEGER PRIMARY KEY REFERENCES rounds, private BLOB NOT NULL);
CREATE TABLE batches (id INTEGER PRIMARY KEY, round INTEGER NOT NULL REFERENCES rounds, query INTEGER NOT NULL,
    record BLOB NOT NULL, signature BLOB NOT NULL, reports INTEGER NOT NULL, dummies INTEGER NOT NULL,
    digest BLOB NOT NULL, next INTEGER NOT NULL DEFAULT 0, valid INTEGER, left_out TEXT, counts BLOB,
    UNIQUE (round, query));
CREATE TABLE stretches (id INTEGER PRIMARY KEY, batch INTEGER NOT NULL REFERENCES batches, first INTEGER NOT NULL,
    envelopes BLOB NOT NULL, UNIQUE (batch, first));
CREATE TABLE certificates (id INTEGER PRIMARY KEY, round INTEGER NOT NULL UNIQUE REFERENCES rounds,
    document BLOB NOT NULL);
{LEDGER_TABLE}
{CHAIN_TABLE}
""",
)
"""Version 1 had no ledger of rounds: what they had spent cannot be known afterwards, so it is not brought forward."""
