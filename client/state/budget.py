"""The charges of each device for each task, in the state file. The functions run inside a transaction of `State`.

The file stores counts only: how many rounds of a task were charged at a price on a UTC day, and the first and last of
them. It stores no times, so that it does not reveal when a person answered. Days before yesterday become one row.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from fractions import Fraction

from hubbub.client.errors import NEW_FILE, OverLimit, StateError
from hubbub.client.privacy.ledger import PAST, Account, AnswerCost, Charges, ProvenLoss, TaskCost, check_limits
from hubbub.protos.sqlite_layout import checksum_column

BUDGET_TABLES = f"""
CREATE TABLE task_cost (
    task BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    epsilon_total REAL,
    linked INTEGER NOT NULL,
    {checksum_column("task", "name", "epsilon", "delta", "epsilon_total", "linked")}
) WITHOUT ROWID;
CREATE TABLE spent (
    device TEXT NOT NULL,
    task BLOB NOT NULL,
    day INTEGER NOT NULL,
    local TEXT NOT NULL,
    rounds INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    {checksum_column("device", "task", "day", "local", "rounds", "first", "last")},
    PRIMARY KEY (device, task, day, local)
) WITHOUT ROWID;
CREATE TABLE proven (
    task BLOB PRIMARY KEY,
    last INTEGER NOT NULL,
    missing INTEGER NOT NULL,
    epsilon REAL NOT NULL,
    {checksum_column("task", "last", "missing", "epsilon")}
) WITHOUT ROWID;
CREATE TABLE exceeded (
    task BLOB NOT NULL,
    number INTEGER NOT NULL,
    epsilon REAL NOT NULL,
    {checksum_column("task", "number", "epsilon")},
    PRIMARY KEY (task, number)
) WITHOUT ROWID;
"""
"""Part of the script of the state file's layout. `local` is an exact fraction as text, so that sums are exact. `day` is
a whole number of days since 1970, or -1 for days before yesterday."""


def note_task_cost(connection: sqlite3.Connection, task_id: bytes, task_cost: TaskCost) -> None:
    """Store a task's promise; the task's id is a hash of the task, so the promise never changes."""
    values = (task_cost.name, task_cost.epsilon, task_cost.delta, task_cost.epsilon_total, task_cost.linked)
    connection.execute("INSERT INTO task_cost VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", (task_id, *values))


def refusals(
    connection: sqlite3.Connection, task_id: bytes, round_number: int, devices: Collection[str], answer_cost: AnswerCost
) -> dict[str, OverLimit]:
    """Return those of the devices that must not answer this round, each with the reason."""
    refused: dict[str, OverLimit] = {}
    if answer_cost.limits.any:
        for device, accounts in accounts_of(connection, devices).items():
            try:
                check_limits(accounts, task_id, round_number, answer_cost)
            except OverLimit as error:
                refused[device] = error
    return refused


def charge(
    connection: sqlite3.Connection, task_id: bytes, round_number: int, devices: Collection[str], answer_cost: AnswerCost
) -> None:
    """Charge each device with the round."""
    note_task_cost(connection, task_id, answer_cost.task_cost)
    _fold(connection, devices, answer_cost.day - 1)
    answered = _answered(connection, task_id, devices)
    insert = (
        "INSERT INTO spent VALUES (?, ?, ?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET rounds = rounds + 1, "
        "first = min(first, excluded.first), last = max(last, excluded.last)"
    )
    prices: dict[int, str] = {}
    for before in {answered.get(device, 0) for device in devices}:
        prices[before] = str(answer_cost.price(before))
    rows = [
        (device, task_id, answer_cost.day, prices[answered.get(device, 0)], round_number, round_number)
        for device in devices
    ]
    connection.executemany(insert, rows)


def _answered(connection: sqlite3.Connection, task_id: bytes, devices: Collection[str]) -> dict[str, int]:
    query = (
        "SELECT device, sum(rounds) FROM spent WHERE task = ? AND device IN (SELECT value FROM json_each(?)) GROUP BY 1"
    )
    return dict(connection.execute(query, (task_id, json.dumps(list(devices)))))


def _fold(connection: sqlite3.Connection, devices: Collection[str], before: int) -> None:
    """Merge the days before that one into one row; they no longer count for a daily limit."""
    # Yesterday keeps its row, so that a clock that is set back by some hours still finds its charges.
    which = "WHERE day != ? AND day < ? AND device IN (SELECT value FROM json_each(?))"
    values = (PAST, before, json.dumps(list(devices)))
    merged = "ON CONFLICT DO UPDATE SET rounds = rounds + excluded.rounds, first = min(first, excluded.first), "
    connection.execute(
        f"INSERT INTO spent SELECT device, task, {PAST}, local, sum(rounds), min(first), max(last) FROM spent {which} "  # noqa: S608
        f"GROUP BY device, task, local {merged} last = max(last, excluded.last)",
        values,
    )
    connection.execute(f"DELETE FROM spent {which}", values)  # noqa: S608


def accounts_of(connection: sqlite3.Connection, devices: Collection[str]) -> dict[str, list[Account]]:
    """Return the accounts of each device, one for each task, in the order of the tasks' ids.

    Raises:
        StateError: if the file is damaged.
    """
    try:
        return _accounts_of(connection, devices)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise StateError(f"the state file has amounts that cannot be read; it is damaged: {NEW_FILE}") from error


def _accounts_of(connection: sqlite3.Connection, devices: Collection[str]) -> dict[str, list[Account]]:
    found: dict[str, dict[bytes, list[Charges]]] = {device: {} for device in devices}
    query = (
        "SELECT device, task, day, local, rounds, first, last FROM spent "
        "WHERE device IN (SELECT value FROM json_each(?))"
    )
    for device, task_id, day, local, *rounds in connection.execute(query, (json.dumps(list(devices)),)):
        charges = Charges(_whole(day), Fraction(local), *map(_whole, rounds))
        found[device].setdefault(task_id, []).append(charges)
    facts = _facts(connection, {task_id for tasks in found.values() for task_id in tasks})
    return {
        device: [_account(task_id, tuple(charges), facts[task_id]) for task_id, charges in sorted(tasks.items())]
        for device, tasks in found.items()
    }


def _whole(value: object) -> int:
    # A column's type is not enforced by SQLite, so a damaged file may return any type.
    if not isinstance(value, int):
        raise TypeError("a number is not whole")
    return value


_Facts = tuple[TaskCost, ProvenLoss | None, Mapping[int, Fraction]]


def _facts(connection: sqlite3.Connection, tasks: Collection[bytes]) -> dict[bytes, _Facts]:
    """Return the promises and certified ε of the tasks, which are common to all devices."""
    return {task_id: (_task_cost(connection, task_id), *_certified(connection, task_id)) for task_id in tasks}


def _task_cost(connection: sqlite3.Connection, task_id: bytes) -> TaskCost:
    query = "SELECT name, epsilon, delta, epsilon_total, linked FROM task_cost WHERE task = ?"
    row = connection.execute(query, (task_id,)).fetchone()
    if row is None:
        raise ValueError("a task that was charged has no task_cost")  # it was stored in the same transaction
    name, epsilon, delta, epsilon_total, linked = row
    return TaskCost(name, epsilon, delta, epsilon_total, bool(linked))


def _certified(connection: sqlite3.Connection, task_id: bytes) -> tuple[ProvenLoss | None, Mapping[int, Fraction]]:
    row = connection.execute("SELECT last, missing, epsilon FROM proven WHERE task = ?", (task_id,)).fetchone()
    above = connection.execute("SELECT number, epsilon FROM exceeded WHERE task = ?", (task_id,))
    proven = None if row is None else ProvenLoss(row[0], row[1], Fraction(row[2]))
    return proven, {number: Fraction(epsilon) for number, epsilon in above}


def _account(task_id: bytes, charges: tuple[Charges, ...], facts: _Facts) -> Account:
    task_cost, proven, exceeded = facts
    return Account(task_id, task_cost, charges, proven, exceeded)


def note_proven(connection: sqlite3.Connection, task_id: bytes, proven: ProvenLoss) -> None:
    """Store the ε that a certificate proves for the task's rounds so far, unless a stored one covers later rounds."""
    connection.execute(
        "INSERT INTO proven VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET last = excluded.last, "
        "missing = excluded.missing, epsilon = excluded.epsilon WHERE excluded.last > last",
        (task_id, proven.last, proven.missing, float(proven.epsilon)),
    )


def note_exceeded(connection: sqlite3.Connection, task_id: bytes, round_number: int, epsilon: float) -> None:
    """Store that a round cost more than the task promises; a stored ε never falls."""
    connection.execute(
        "INSERT INTO exceeded VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET epsilon = max(epsilon, excluded.epsilon)",
        (task_id, round_number, epsilon),
    )
