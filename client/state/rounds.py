"""A state file's rounds with their keys, and a round's submissions by device: as values, and as rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, field

from hubbub.client.errors import NEW_FILE, NoRound, StateError
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Submission

DONE = "done"
"""The outcome of a submission that the shuffler acknowledged."""

ERASED_HERE = "erased_here"
"""The outcome of a submission that may have been sent and was then erased on this device, by `wipe` or `opt_out`. Every
other outcome is the reason of a refusal."""

COUNT_OVER = """
INSERT INTO history (task, device, answered, sealed, expired)
SELECT round.task, submission.device, count(*), sum(submission.sealed), sum(submission.outcome IS NULL)
FROM submission JOIN round ON submission.round = round.key WHERE round.over_at < ? GROUP BY 1, 2
ON CONFLICT DO UPDATE SET
answered = answered + excluded.answered, sealed = sealed + excluded.sealed, expired = expired + excluded.expired
"""
"""Counts the submissions of rounds that are about to be forgotten."""


@dataclass(frozen=True)
class RoundRef:
    """A reference to a round: the task's id (32 bytes) and the round's number."""

    task_id: bytes
    number: int


@dataclass(frozen=True)
class Drawn:
    """One device's answers to a round, randomized: the reports joined in the order of the queries, under a fresh id.

    Neither is ever printed.
    """

    submission_id: bytes = field(repr=False)
    reports: bytes = field(repr=False)


@dataclass(frozen=True)
class StoredSubmission:
    """One device's submission for a round. It has reports until it is sealed, then sealed bytes until it is settled.

    `send_time` is when to send it (seconds since 1970); None means as soon as possible.
    """

    submission_id: bytes = field(repr=False)
    envelope: bytes | None = field(repr=False)
    outcome: str | None
    reports: bytes | None = field(default=None, repr=False)
    send_time: float | None = None

    def waits_for(self, now: float) -> float:
        """Return the seconds from `now` until it may be sent; 0 if it may be sent now, or has an outcome."""
        return 0.0 if self.outcome is not None or self.send_time is None else max(0.0, self.send_time - now)

    @property
    def drawn(self) -> Drawn | None:
        """The reports that are still to be sealed; None once they are sealed."""
        return None if self.reports is None else Drawn(self.submission_id, self.reports)

    @property
    def submission(self) -> Submission | None:
        """The submission that is still to be sent; None before it is sealed, and once there is an outcome."""
        return None if self.envelope is None else Submission(self.submission_id, self.envelope)


@dataclass(frozen=True)
class SubmissionHistory:
    """How many rounds of a task a device answered.

    For `sealed` of them it sealed a submission, which may have left it. `expired` of them are forgotten without an
    acknowledgement or a refusal.
    """

    answered: int
    sealed: int
    expired: int


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
        raise StateError(
            f"the state file has keys of a round that cannot be read; it is damaged: {NEW_FILE}"
        ) from error


def erase_submissions(connection: sqlite3.Connection, device: str, which: str) -> None:
    """Erase the device's submissions that satisfy a condition in SQL."""
    # Reports that were never sealed never left the device: the round may still be answered. A sealed submission may
    # have been sent, so its row stays and marks the round as answered.
    connection.execute(f"DELETE FROM submission WHERE device = ? AND reports IS NOT NULL AND {which}", (device,))  # noqa: S608
    connection.execute(
        f"UPDATE submission SET id = zeroblob(16), envelope = NULL, outcome = ? WHERE device = ? AND {which}",  # noqa: S608
        (ERASED_HERE, device),
    )
