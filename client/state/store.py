"""The state of one or more devices in a SQLite file: reports before they are sealed and sent, and their outcomes.

A round's answers are randomized once, even if a process is killed at any moment. A second, fresh randomization of the
same answers would cost privacy again. So the reports are stored before the network is used at all, and sealed as soon
as the round's keys are available. Each retry sends the stored bytes. The answers themselves are never stored, except
for the last state of a longitudinal query, which the next round needs (`memory`). A file may be shared by many devices,
as in a fleet, and by several processes. Reports are erased as soon as they are sealed, and sealed bytes as soon as the
shuffler has acknowledged them or no longer takes them.
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from hubbub.client.errors import KeySetChanged, OptedOut, OverLimit, StateError
from hubbub.client.privacy.ledger import Account, AnswerCost, ProvenLoss
from hubbub.client.state import budget, rounds
from hubbub.client.state.file import close_state, open_state, set_wait, why_busy, why_unusable
from hubbub.client.state.fork_safety import closed_at_forks
from hubbub.client.state.longitudinal import MemoryUpdate, erase_ended, erase_memory, find_memories, step_memory
from hubbub.client.state.rounds import (
    COUNT_OVER,
    Drawn,
    RoundRef,
    StoredSubmission,
    SubmissionHistory,
    begin_round,
    check_remembered,
    erase_submissions,
    find_entries,
    find_row,
    find_stored,
    key,
    read_key_set,
    round_row,
    write_key_set,
)
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Submission

OPTED_OUT = (
    "this device has opted out, so nothing is stored or sent; opt in again to change that (`hubbub device opt-in`, or "
    "`opt_in()`)"
)
"""What a device that has opted out is answered."""


@dataclass(frozen=True)
class Seen:
    """The state that a device needs to answer a round, read in one transaction.

    `refusal` is the limit that the round would exceed, if nothing is stored for it yet. `memory` is what the device
    keeps from round to round, if it was requested.
    """

    entry: StoredSubmission | None
    key_set: KeySet | None
    opted_out: bool
    refusal: OverLimit | None
    memory: str | None = field(repr=False)


class State:
    """The state file. It is opened at first use, also after `close`. Safe to use from several threads.

    `connection` is the class of the SQLite connection to the file.
    """

    def __init__(self, path: Path, *, connection: type[sqlite3.Connection] = sqlite3.Connection) -> None:
        self._path = path
        self._factory = connection
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        closed_at_forks(self)

    def close(self) -> None:
        """Close the file; within `waiting_until`, leave it open if another thread uses it for so long."""
        until = _UNTIL.get()
        if until == math.inf:
            with self._lock:
                self._close()
        else:
            with suppress(StateError), self._hurried(until):
                self._close()

    def _close(self) -> None:
        if self._connection is not None:
            close_state(self._connection)
        self._connection = None

    def before_fork(self) -> None:
        """Close the file, and let no thread open it until `after_fork`."""
        self._lock.acquire()
        self._close()

    def after_fork(self) -> None:
        """Let the file be opened again, in the parent and in the forked process."""
        self._lock.release()

    def key_set(self, of: RoundRef) -> KeySet | None:
        """Return the keys pinned for this round; None if there are none yet.

        Raises:
            NoRound: if the round was forgotten: then it is unknown whether this device answered it.
        """
        with self.transaction() as connection:
            check_remembered(connection, of)
            row = connection.execute("SELECT key_set FROM round WHERE task = ? AND number = ?", key(of)).fetchone()
        return None if row is None or row[0] is None else read_key_set(row[0])

    def pin(self, of: RoundRef, key_set: KeySet, over_at: float) -> None:
        """Keep the round's keys unchanged until the round is forgotten, after `over_at` (seconds since 1970).

        Raises:
            KeySetChanged: if other keys are pinned for the round.
            NoRound: if the round was forgotten.
        """
        with self.transaction() as connection:
            row = begin_round(connection, of, over_at)
            (stored,) = connection.execute("SELECT key_set FROM round WHERE key = ?", (row,)).fetchone()
            if stored is None:
                connection.execute("UPDATE round SET key_set = ? WHERE key = ?", (write_key_set(key_set), row))
            elif (first := read_key_set(stored).hash) != key_set.hash:
                raise KeySetChanged(
                    f"round {of.number} has the keys {key_set.hash.hex()[:16]}, but it was first seen with "
                    f"{first.hex()[:16]}; nothing was sent under them, report it to the operator"
                )

    def look(self, of: RoundRef, device: str, now: float, answer_cost: AnswerCost, *, memory: bool) -> Seen:
        """Erase every round that is over at `now`, as `forget` does; return what a device needs to answer a round.

        The caller draws after this call, so `keep_reports` checks again.
        """
        with self.transaction() as connection:
            forgotten = any(_forget(connection, now))
            entry, key_set = find_stored(connection, of, device)
            opted_out = bool(_opted_out(connection, [device]))
            refused = budget.refusals(connection, *key(of), () if entry is not None else (device,), answer_cost)
            kept = find_memories(connection, of.task_id, [device]).get(device) if memory else None
        if forgotten:
            self.empty_log()
        return Seen(entry, key_set, opted_out, refused.get(device), kept)

    def stored(self, of: RoundRef, device: str) -> tuple[StoredSubmission | None, KeySet | None]:
        """Return the stored submission of a device in a round, and the round's pinned keys; None for a missing one."""
        with self.transaction() as connection:
            return find_stored(connection, of, device)

    def find(self, of: RoundRef, devices: Collection[str]) -> dict[str, StoredSubmission]:
        """Return the stored submissions of these devices in a round; devices without one are left out."""
        with self.transaction() as connection:
            return find_entries(connection, of, devices)

    def memories(self, task_id: bytes, devices: Collection[str]) -> dict[str, str]:
        """Return these devices' memories of a task; devices without one are left out."""
        with self.transaction() as connection:
            return find_memories(connection, task_id, devices)

    def refusals(self, of: RoundRef, devices: Collection[str], answer_cost: AnswerCost) -> dict[str, OverLimit]:
        """Return the devices that must not answer a round, each with the limit that it would exceed.

        The caller draws after this call, so `keep_reports` and `keep` check again.
        """
        if not answer_cost.limits.any:
            return {}
        with self.transaction() as connection:
            return budget.refusals(connection, *key(of), devices, answer_cost)

    def keep_reports(
        self,
        of: RoundRef,
        device: str,
        drawn: Drawn,
        over_at: float,
        answer_cost: AnswerCost,
        step: MemoryUpdate | None = None,
        send_time: float | None = None,
    ) -> StoredSubmission:
        """Store a device's randomized reports, unless it answered the round before; return what is then on disk.

        The same transaction charges their cost, and stores the memory in `step` and the `send_time`: none of these is
        ever on disk without the others.

        Raises:
            MemoryMoved: if they were drawn from another memory than the stored one; nothing was stored.
            NoRound: if the round was forgotten: then it is unknown whether this device answered it.
            OptedOut: if the device opted out.
            OverLimit: if the round would exceed a limit; nothing was stored.
            StateError: if they could not be stored; then nothing may be sent.
        """
        with self.transaction() as connection:
            if _opted_out(connection, [device]):
                raise OptedOut(OPTED_OUT)
            row = begin_round(connection, of, over_at)
            # What is there already stays: it may have been sent, and a second randomization must never be.
            stored = connection.execute(
                "INSERT INTO submission (round, device, id, reports, sealed, send_time) VALUES (?, ?, ?, ?, 0, ?) "
                "ON CONFLICT DO NOTHING",
                (row, device, drawn.submission_id, drawn.reports, send_time),
            )
            if stored.rowcount == 1:
                # Checked again: another process may have spent the rest since this one checked, before it drew.
                for error in budget.refusals(connection, *key(of), [device], answer_cost).values():
                    raise error
                budget.charge(connection, *key(of), [device], answer_cost)
                if step is not None:
                    step_memory(connection, of, device, step)
            return find_entries(connection, of, [device])[device]

    def seal(self, of: RoundRef, submissions: Mapping[str, Submission]) -> dict[str, StoredSubmission]:
        """Replace reports by the submissions sealed from them; return what is then on disk.

        If another process sealed the same reports first, its submission stays. A device whose reports were erased
        meanwhile is left out.
        """
        with self.transaction() as connection:
            row = find_row(connection, of)
            rows = [(one.envelope, row, device, one.id) for device, one in submissions.items()]
            update = (
                "UPDATE submission SET envelope = ?, reports = NULL, sealed = 1 "
                "WHERE round = ? AND device = ? AND id = ? AND reports IS NOT NULL"
            )
            connection.executemany(update, rows)
            found = find_entries(connection, of, submissions)
        # The write-ahead log still contains the reports.
        self.empty_log()
        return found

    def keep(
        self,
        of: RoundRef,
        submissions: Mapping[str, Submission],
        answer_cost: AnswerCost,
        steps: Mapping[str, MemoryUpdate] | None = None,
    ) -> tuple[dict[str, StoredSubmission], dict[str, OptedOut | OverLimit]]:
        """Store each device's submission, unless the device has one already; return what is then on disk.

        The same transaction charges their cost and stores the memories in `steps`. Nothing is stored for devices that
        have opted out or would exceed a limit; the second value returned has their reasons.

        Raises:
            MemoryMoved: if one was drawn from another memory than the stored one; nothing was stored.
            NoRound: if the round was forgotten meanwhile.
            StateError: if they could not be stored; then nothing may be sent.
        """
        with self.transaction() as connection:
            row = round_row(connection, of)
            # What is there already stays: it may have been sent, and a second randomization must never be.
            found = find_entries(connection, of, submissions)
            fresh = {device: one for device, one in submissions.items() if device not in found}
            # Checked again: another thread or process may have opted a device out, or spent the rest of its budget.
            refused: dict[str, OptedOut | OverLimit] = {}
            refused |= budget.refusals(connection, *key(of), fresh, answer_cost)
            refused |= {device: OptedOut(OPTED_OUT) for device in _opted_out(connection, fresh)}
            kept = {device: one for device, one in fresh.items() if device not in refused}
            rows = [(row, device, one.id, one.envelope) for device, one in kept.items()]
            insert = "INSERT INTO submission (round, device, id, envelope, sealed) VALUES (?, ?, ?, ?, 1)"
            connection.executemany(insert, rows)
            budget.charge(connection, *key(of), kept, answer_cost)
            for device in kept.keys() & (steps or {}).keys():
                step_memory(connection, of, device, (steps or {})[device])
        return found | {device: StoredSubmission(one.id, one.envelope, None) for device, one in kept.items()}, refused

    def accounts(self, device: str) -> list[Account]:
        """Return a device's accounts, one for each task."""
        with self.transaction() as connection:
            return budget.accounts_of(connection, [device])[device]

    def add_certificate(self, of: RoundRef, proven: ProvenLoss | None, exceeded: float | None) -> None:
        """Store the ε that a round's certificate proves for all rounds so far, and a round's ε above the promise."""
        with self.transaction() as connection:
            if proven is not None:
                budget.note_proven(connection, of.task_id, proven)
            if exceeded is not None:
                budget.note_exceeded(connection, *key(of), exceeded)

    def settle(self, of: RoundRef, outcomes: Mapping[str, str]) -> None:
        """Record the outcomes of these devices' submissions, and erase their bytes; then call `empty_log`."""
        with self.transaction() as connection:
            row = find_row(connection, of)
            rows = [(outcome, row, device) for device, outcome in outcomes.items()]
            connection.executemany(
                "UPDATE submission SET outcome = ?, envelope = NULL, reports = NULL WHERE round = ? AND device = ?",
                rows,
            )

    def waiting(self, task_id: bytes, device: str) -> list[int]:
        """Return the rounds in which a device's submission is still to be sealed, sent or acknowledged."""
        query = (
            "SELECT round.number FROM submission JOIN round ON submission.round = round.key "
            "WHERE round.task = ? AND submission.device = ? AND submission.outcome IS NULL ORDER BY round.number"
        )
        with self.transaction() as connection:
            return [row[0] for row in connection.execute(query, (task_id, device))]

    def forget(self, now: float) -> int:
        """Erase every round that is over at `now` (seconds since 1970), of all tasks; return how many.

        It keeps only counts of each device's rounds, the number of each task's last forgotten round, and that there was
        a memory. If a device's clock is set back, these prevent it from answering such a round a second time, and from
        drawing a second time what is drawn once for all rounds.
        """
        with self.transaction() as connection:
            forgotten, ended = _forget(connection, now)
        if forgotten or ended:
            self.empty_log()
        return forgotten

    def history(self, task_id: bytes, device: str) -> SubmissionHistory:
        """Return how many rounds of a task a device answered, including forgotten rounds."""
        known = (
            "SELECT count(*), coalesce(sum(sealed), 0) FROM submission JOIN round ON submission.round = round.key "
            "WHERE round.task = ? AND submission.device = ?"
        )
        past = "SELECT answered, sealed, expired FROM history WHERE task = ? AND device = ?"
        with self.transaction() as connection:
            answered, sealed = connection.execute(known, (task_id, device)).fetchone()
            row = connection.execute(past, (task_id, device)).fetchone()
        earlier, sealed_earlier, expired = row or (0, 0, 0)
        return SubmissionHistory(answered + earlier, sealed + sealed_earlier, expired)

    def take_expired(self, task_id: bytes, device: str) -> int:
        """Return how many of a device's submissions have expired since the last call, by any process."""
        which = "FROM history WHERE task = ? AND device = ? AND expired > reported"
        with self.transaction() as connection:
            row = connection.execute(f"SELECT expired - reported {which}", (task_id, device)).fetchone()
            if row is None:
                return 0
            update = "UPDATE history SET reported = expired WHERE task = ? AND device = ?"
            connection.execute(update, (task_id, device))
        return int(row[0])

    def entries(self, task_id: bytes, device: str) -> dict[int, StoredSubmission]:
        """Return the stored submissions of a device in all rounds of a task that are not forgotten, by round number."""
        query = (
            "SELECT round.number, id, envelope, outcome, reports, send_time FROM submission "
            "JOIN round ON submission.round = round.key WHERE round.task = ? AND submission.device = ?"
        )
        with self.transaction() as connection:
            return {number: StoredSubmission(*entry) for number, *entry in connection.execute(query, (task_id, device))}

    def last_forgotten(self, task_id: bytes) -> int:
        """Return the last round of a task that was forgotten; -1 if there is none."""
        with self.transaction() as connection:
            return rounds.last_forgotten(connection, task_id)

    def opted_out(self, devices: Collection[str]) -> set[str]:
        """Return which of these devices have opted out."""
        with self.transaction() as connection:
            return _opted_out(connection, devices)

    def opt_out(self, device: str) -> None:
        """Take no answers for a device from now on, and erase its unsent submissions, in all tasks."""
        with self.transaction() as connection:
            connection.execute("INSERT INTO opted_out VALUES (?) ON CONFLICT DO NOTHING", (device,))
            erase_submissions(connection, device, "outcome IS NULL")
        self.empty_log()

    def opt_in(self, device: str) -> None:
        """Take answers for a device again."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM opted_out WHERE device = ?", (device,))

    def wipe(self, device: str) -> None:
        """Erase a device's reports, sealed bytes and submission ids, in all tasks.

        The file keeps which rounds it answered until they are over, and how many forever; otherwise it could answer a
        round twice. It keeps the fact that a longitudinal query was answered.
        """
        with self.transaction() as connection:
            erase_submissions(connection, device, "true")
            erase_memory(connection, device)
        self.empty_log()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the file's connection inside a transaction; if the block raises, nothing is changed.

        Raises:
            StateError: if the file cannot be used.
        """
        # The lock is for this process's threads, which share a connection; BEGIN IMMEDIATE is for other processes. It
        # takes the write lock before anything is read, so no other process can change the data between read and write.
        until, entered = _UNTIL.get(), time.monotonic()
        with self._lock if until == math.inf else self._hurried(until):
            try:
                if self._connection is None:
                    self._connection = open_state(self._path, self._factory, until - time.monotonic())
                connection = self._connection
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            except _UNUSABLE as error:
                raise StateError(why_unusable(self._path, error, until - entered)) from error

    @contextmanager
    def _hurried(self, until: float) -> Iterator[None]:
        """Hold the lock, and let the file be waited for, until then (by the monotonic clock) at most.

        Raises:
            StateError: if another thread uses the file for so long.
        """
        wait = max(until - time.monotonic(), 0.0)
        if not self._lock.acquire(timeout=min(wait, threading.TIMEOUT_MAX)):
            raise StateError(why_busy(self._path, wait, "a thread of this program waits for it"))
        try:
            if self._connection is not None:
                set_wait(self._connection, max(until - time.monotonic(), 0.0))
            yield
        finally:
            if self._connection is not None:
                set_wait(self._connection)
            self._lock.release()

    def empty_log(self) -> None:
        """Empty the write-ahead log, which still contains erased data; if the file is busy, that happens later."""
        until, entered = _UNTIL.get(), time.monotonic()
        with self._lock if until == math.inf else self._hurried(until):
            try:
                if self._connection is not None:
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except _UNUSABLE as error:
                raise StateError(why_unusable(self._path, error, until - entered)) from error


_UNTIL: ContextVar[float] = ContextVar("_UNTIL", default=math.inf)
"""Until when calls of this thread wait for the state file, by the monotonic clock."""


@contextmanager
def waiting_until(until: float) -> Iterator[None]:
    """Let the block wait for state files, which other threads and programs use, until then by the monotonic clock."""
    token = _UNTIL.set(until)
    try:
        yield
    finally:
        _UNTIL.reset(token)


_UNUSABLE = (sqlite3.Error, OSError, UnicodeError)
"""Errors if the file cannot be used. A UnicodeError comes from a damaged schema, named in bytes that are not text."""


def _forget(connection: sqlite3.Connection, now: float) -> tuple[int, bool]:
    """Erase all rounds and memories that are over at `now`, but for counts and marks.

    Return how many rounds there were, and whether there was a memory.
    """
    over = connection.execute("SELECT task, number FROM round WHERE over_at < ?", (now,)).fetchall()
    if over:
        connection.execute(COUNT_OVER, (now,))
        mark = "INSERT INTO forgotten VALUES (?, ?) ON CONFLICT DO UPDATE SET last = max(last, excluded.last)"
        connection.executemany(mark, over)
        connection.execute("DELETE FROM round WHERE over_at < ?", (now,))
    ended = connection.execute("SELECT 1 FROM memory WHERE over_at < ? LIMIT 1", (now,)).fetchone() is not None
    if ended:
        erase_ended(connection, now)
    return len(over), ended


def _opted_out(connection: sqlite3.Connection, devices: Collection[str]) -> set[str]:
    query = "SELECT device FROM opted_out WHERE device IN (SELECT value FROM json_each(?))"
    return {device for (device,) in connection.execute(query, (json.dumps(list(devices)),))}
