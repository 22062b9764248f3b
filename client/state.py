"""The state of one or more devices in a SQLite file: sealed submissions before they are sent, and their outcomes.

A round's answers are randomized and sealed once, whatever process is killed and when. A second, fresh randomization of
the same answers would cost privacy again. So a submission is stored before it is sent, and each retry sends the stored
bytes. A file may hold many devices, as a gateway's does, and several processes may share it. Sealed bytes are erased as
soon as the shuffler has acknowledged them or no longer takes them.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hubbub.client.errors import KeySetChanged, NoRound, StateError
from hubbub.client.state_file import open_state
from hubbub.protos.keys import KeySet
from hubbub.protos.messages import Submission
from hubbub.protos.signed import SignedDocument, canonical, parse_canonical

DONE = "done"
"""The outcome of a submission that the shuffler acknowledged; any other outcome is a refusal's reason."""


@dataclass(frozen=True)
class Round:
    """A round as the state knows it: the task's id (32 bytes) and the round's number."""

    task_id: bytes
    number: int


@dataclass(frozen=True)
class Entry:
    """One device's submission for a round: sealed bytes while they wait, None once there is an outcome."""

    submission_id: bytes
    envelope: bytes | None
    outcome: str | None

    @property
    def submission(self) -> Submission | None:
        """The submission that is still to be sent; None once there is an outcome."""
        return None if self.envelope is None else Submission(self.submission_id, self.envelope)


class State:
    """The state file. It is opened at first use, also after `close`. Safe to use from several threads.

    `connection` is the class of the SQLite connection to the file.
    """

    def __init__(self, path: Path, *, connection: type[sqlite3.Connection] = sqlite3.Connection) -> None:
        self._path = path
        self._factory = connection
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def key_set(self, of: Round) -> KeySet | None:
        """Return the keys this round was first seen with; None where it was not seen yet.

        Raises:
            NoRound: where the round was forgotten: it is no longer known whether this device answered it.
        """
        with self._transaction() as connection:
            _check_remembered(connection, of)
            row = connection.execute("SELECT key_set FROM round WHERE task = ? AND round = ?", _key(of)).fetchone()
        return None if row is None else _read_key_set(row[0])

    def pin(self, of: Round, key_set: KeySet, over_at: float) -> None:
        """Keep the round's keys unchanged until the round is forgotten, after `over_at` (seconds since 1970).

        Raises:
            KeySetChanged: where the round was first seen with other keys.
            NoRound: where the round was forgotten.
        """
        with self._transaction() as connection:
            _check_remembered(connection, of)
            row = connection.execute("SELECT key_set_hash FROM round WHERE task = ? AND round = ?", _key(of)).fetchone()
            if row is None:
                values = (*_key(of), _write_key_set(key_set), key_set.hash, over_at)
                insert = "INSERT INTO round (task, round, key_set, key_set_hash, over_at) VALUES (?, ?, ?, ?, ?)"
                connection.execute(insert, values)
            elif row[0] != key_set.hash:
                raise KeySetChanged(
                    f"round {of.number} has the keys {key_set.hash.hex()[:16]}, it was first seen with "
                    f"{row[0].hex()[:16]}; nothing was sent under them, tell the operator"
                )

    def find(self, of: Round, devices: Collection[str]) -> dict[str, Entry]:
        """Return what is stored for these devices in a round; devices without an entry are left out."""
        with self._transaction() as connection:
            return _find(connection, of, devices)

    def keep(self, of: Round, submissions: Mapping[str, Submission]) -> dict[str, Entry]:
        """Store each device's submission, unless the device has one already; return what is then on disk.

        Raises:
            NoRound: where the round was forgotten meanwhile.
            StateError: where they could not be stored; nothing may be sent then.
        """
        with self._transaction() as connection:
            number = _round_number(connection, of)
            rows = [(number, device, one.id, one.envelope) for device, one in submissions.items()]
            # What is there already stays: it may have been sent, and a second randomization must never be.
            insert = "INSERT INTO submission (round, device, id, envelope) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            if connection.executemany(insert, rows).rowcount == len(rows):
                return {device: Entry(one.id, one.envelope, None) for device, one in submissions.items()}
            return _find(connection, of, submissions)

    def settle(self, of: Round, outcomes: Mapping[str, str]) -> None:
        """Record the outcomes of these devices' submissions, and erase their sealed bytes."""
        with self._transaction() as connection:
            number = _find_number(connection, of)
            rows = [(outcome, number, device) for device, outcome in outcomes.items()]
            connection.executemany(
                "UPDATE submission SET outcome = ?, envelope = NULL WHERE round = ? AND device = ?", rows
            )

    def waiting(self, task_id: bytes, device: str) -> list[int]:
        """Return the rounds for which a device's sealed bytes still wait to be acknowledged."""
        query = (
            "SELECT round.round FROM submission JOIN round ON submission.round = round.number "
            "WHERE round.task = ? AND submission.device = ? AND submission.outcome IS NULL ORDER BY round.round"
        )
        with self._transaction() as connection:
            return [row[0] for row in connection.execute(query, (task_id, device))]

    def forget(self, now: float) -> int:
        """Erase every round that is over at `now` (seconds since 1970), of all tasks; return how many.

        Only the number of each task's last forgotten round is kept. It keeps a device whose clock is set back from
        answering such a round a second time.
        """
        with self._transaction() as connection:
            over = connection.execute("SELECT task, round FROM round WHERE over_at < ?", (now,)).fetchall()
            mark = "INSERT INTO forgotten VALUES (?, ?) ON CONFLICT DO UPDATE SET round = max(round, excluded.round)"
            connection.executemany(mark, over)
            connection.execute("DELETE FROM round WHERE over_at < ?", (now,))
        if over:
            self._truncate()
        return len(over)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # The lock is for this process's threads, which share a connection; BEGIN IMMEDIATE is for other processes. It
        # takes the write lock before anything is read, so nobody can change what was read before it is acted upon.
        with self._lock, self._named_errors():
            if self._connection is None:
                self._connection = open_state(self._path, self._factory)
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _truncate(self) -> None:
        """Empty the write-ahead log, which still holds what was erased; where the file is busy, that happens later."""
        with self._lock, self._named_errors():
            if self._connection is not None:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StateError(
                f"cannot use the state file {self._path}: {error}; see that it is a file of this program, that its "
                "folder exists and is writable, and that the disk has room"
            ) from error


def _key(of: Round) -> tuple[bytes, int]:
    return of.task_id, of.number


def _find_number(connection: sqlite3.Connection, of: Round) -> int | None:
    row = connection.execute("SELECT number FROM round WHERE task = ? AND round = ?", _key(of)).fetchone()
    return None if row is None else int(row[0])


def _round_number(connection: sqlite3.Connection, of: Round) -> int:
    number = _find_number(connection, of)
    if number is None:
        raise NoRound(f"round {of.number} is over on this device, nothing is stored for it any more")
    return number


def _check_remembered(connection: sqlite3.Connection, of: Round) -> None:
    row = connection.execute("SELECT round FROM forgotten WHERE task = ?", (of.task_id,)).fetchone()
    if row is not None and of.number <= row[0]:
        raise NoRound(
            f"round {of.number} is over on this device, the last one forgotten is {row[0]}; answer a later round, "
            "and check this machine's clock if that surprises"
        )


def _find(connection: sqlite3.Connection, of: Round, devices: Collection[str]) -> dict[str, Entry]:
    number = _find_number(connection, of)
    # The names go as one JSON text: SQLite limits the number of parameters of a statement.
    rows = connection.execute(
        "SELECT device, id, envelope, outcome FROM submission "
        "WHERE round = ? AND device IN (SELECT value FROM json_each(?))",
        (number, json.dumps(list(devices))),
    )
    return {device: Entry(submission_id, envelope, outcome) for device, submission_id, envelope, outcome in rows}


def _write_key_set(key_set: KeySet) -> bytes:
    return canonical({"analyzer": key_set.analyzer.as_json(), "shuffler": key_set.shuffler.as_json()})


def _read_key_set(content: bytes) -> KeySet:
    value = parse_canonical(content)
    return KeySet(SignedDocument.from_json(value["shuffler"]), SignedDocument.from_json(value["analyzer"]))
