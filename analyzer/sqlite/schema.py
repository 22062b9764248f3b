"""The tables of the analyzer's store. A change raises the version and adds a migration from the one before.

A batch is committed when it has a number of valid reports; a round is certified when it has a certificate. Private keys
have a table of their own, so that destroying one is deleting its row.
"""

from __future__ import annotations

import sqlite3

from hubbub.protos.sqlite_versions import Layout, statements
from hubbub.service.errors import StoreError
from hubbub.service.sqlite.ledger_table import LEDGER_TABLE
from hubbub.service.sqlite.release_table import CHAIN_TABLE

FILE_NAME = "analyzer.db"

_ATTESTATIONS = """
CREATE TABLE attestations (batch INTEGER PRIMARY KEY REFERENCES batches, signature BLOB NOT NULL);
"""


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


def _attestations(connection: sqlite3.Connection) -> None:
    """Version 5: each batch has the analyzer's signature of what was counted; without it a round is not certified.

    Version 4 signed nothing, so rounds that it counted are certified before it is left: nothing is changed else.
    """
    row = connection.execute(
        "SELECT name, rounds.round FROM rounds JOIN tasks ON tasks.id = rounds.task"
        " JOIN private_keys ON private_keys.round = rounds.id, (SELECT unixepoch() AS now)"
        " WHERE EXISTS (SELECT 1 FROM batches WHERE batches.round = rounds.id AND valid IS NOT NULL)"
        " AND (not_after > now OR tasks.queries ="
        " (SELECT count(*) FROM batches WHERE batches.round = rounds.id AND valid IS NOT NULL)) LIMIT 1"
    ).fetchone()
    if row is not None:
        raise StoreError(
            f"round {row[1]} of task {row[0]} is counted and not certified, by a hubbub that signed no counts; nothing "
            "was changed: run the version that wrote the store until `hubbub status` shows it certified, then this one"
        )
    connection.execute(_ATTESTATIONS.strip())


LAYOUT = Layout(
    what="analyzer's store",
    version=5,
    older="run the version that wrote it until its tasks are over, and start new tasks in a store of another folder",
    migrations={2: _one_ledger_for_both_services, 3: _releases, 4: _attestations},
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
{_ATTESTATIONS}
{LEDGER_TABLE}
{CHAIN_TABLE}
""",
)
"""Version 1 had no ledger of rounds: what they had spent cannot be known afterwards, so it is not brought forward."""
