"""The rows of a state file's rounds with their keys, and of a round's submissions by device."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection

from hubbub.client.errors import NoRound, StateError
from hubbub.client.state.records import RoundRef, StoredSubmission
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical
from hubbub.protos.identity.keys import KeySet


def key(of: RoundRef) -> tuple[bytes, int]:
    """Return the columns that identify a round: its task's id and its number."""
    return of.task_id, of.number


def find_row(connection: sqlite3.Connection, of: RoundRef) -> int | None:
    """Return the key of the round's row; None if there is none."""
    row = connection.execute("SELECT key FROM round WHERE task = ? AND number = ?", key(of)).fetchone()
    return None if row is None else int(row[0])


def round_row(connection: sqlite3.Connection, of: RoundRef) -> int:
    """Return the key of the round's row.

    Raises:
        NoRound: if there is none.
    """
    row = find_row(connection, of)
    if row is None:
        raise NoRound(f"round {of.number} is over on this device; nothing more is stored for it")
    return row


def begin_round(connection: sqlite3.Connection, of: RoundRef, over_at: float) -> int:
    """Return the key of the round's row; create the row if there is none.

    Raises:
        NoRound: if the round was forgotten.
    """
    check_remembered(connection, of)
    insert = "INSERT INTO round (task, number, over_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    connection.execute(insert, (*key(of), over_at))
    return round_row(connection, of)


def check_remembered(connection: sqlite3.Connection, of: RoundRef) -> None:
    """Return only if the round was not forgotten.

    Raises:
        NoRound: if it was; the message names the last forgotten round.
    """
    last = last_forgotten(connection, of.task_id)
    if of.number <= last:
        raise NoRound(
            f"round {of.number} is over on this device, the last forgotten round is {last}; answer a later round, "
            "and check this machine's clock if you did not expect this"
        )


def last_forgotten(connection: sqlite3.Connection, task_id: bytes) -> int:
    """Return the last round of a task that was forgotten; -1 if there is none."""
    row = connection.execute("SELECT last FROM forgotten WHERE task = ?", (task_id,)).fetchone()
    return -1 if row is None else int(row[0])


def find_entries(connection: sqlite3.Connection, of: RoundRef, devices: Collection[str]) -> dict[str, StoredSubmission]:
    """Return the stored submissions of these devices in a round; devices without one are left out."""
    # The names go as one JSON text: SQLite limits the number of parameters of a statement.
    rows = connection.execute(
        "SELECT device, id, envelope, outcome, reports, send_time FROM submission "
        "WHERE round = ? AND device IN (SELECT value FROM json_each(?))",
        (find_row(connection, of), json.dumps(list(devices))),
    )
    return {device: StoredSubmission(*entry) for device, *entry in rows}


def find_stored(
    connection: sqlite3.Connection, of: RoundRef, device: str
) -> tuple[StoredSubmission | None, KeySet | None]:
    """Return the stored submission of a device in a round, and the round's pinned keys; None for a missing one."""
    row = connection.execute(
        "SELECT key_set, id, envelope, outcome, reports, send_time FROM round LEFT JOIN submission "
        "ON submission.round = round.key AND device = ? WHERE task = ? AND round.number = ?",
        (device, of.task_id, of.number),
    ).fetchone()
    if row is None:
        return None, None
    key_set, *entry = row
    return None if entry[0] is None else StoredSubmission(*entry), None if key_set is None else read_key_set(key_set)


def write_key_set(key_set: KeySet) -> bytes:
    """Return a key set as the bytes to store."""
    return canonical({"analyzer": key_set.analyzer.as_json(), "shuffler": key_set.shuffler.as_json()})


def read_key_set(content: bytes) -> KeySet:
    """Read what `write_key_set` wrote.

    Raises:
        StateError: if it cannot be read.
    """
    try:
        value = parse_canonical(content)
        return KeySet(SignedDocument.from_json(value["shuffler"]), SignedDocument.from_json(value["analyzer"]))
    except (SignatureError, KeyError, TypeError) as error:
        raise StateError("the state file has keys of a round that cannot be read; it is damaged") from error
