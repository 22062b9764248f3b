"""A service that is started anew, from a copy of its party's folder in which somebody changed something."""

from __future__ import annotations

import asyncio
import math
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from hubbub.accountant.spending.entry import LedgerEntry
from hubbub.accountant.spending.ledger import Ledger
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerStore
from hubbub.deploy.local.process import ServiceError, ServiceProcess
from hubbub.protos.identity.keys import Role
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore as ShufflerStore
from support.attack_deployment import MINIMUM, Attacked
from support.changed_stores import by_hand
from support.memory_reader import UNPRIVILEGED

PROGRAM = (*UNPRIVILEGED, sys.executable, "-m", "hubbub.cli.main")
"""Runs `hubbub` without privileges."""
Change = Callable[[sqlite3.Connection], None]
"""What becomes of a store."""
AT_MINIMUM, AT_MANY = f'"reports":{MINIMUM},', f'"reports":{1000 * MINIMUM},'
"""What a charge says of a round's reports, and what would make it cheaper."""
STORES: dict[Role, Any] = {Role.SHUFFLER: ShufflerStore, Role.ANALYZER: AnalyzerStore}


async def start_anew(
    running: Attacked, folder: Path, role: Role, files: Mapping[str, bytes], store: Change | None = None
) -> str:
    """Start a service with the party's own folder and these files; return why it does not serve.

    Its store is empty, or a copy of the party's that `store` has changed.
    """
    await asyncio.to_thread(copied, running, folder, role, store)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if store is lost:
        shutil.rmtree(folder / "data")
    service = ServiceProcess(role.value, folder / f"{role.value}.toml", folder / "log", (*PROGRAM, role.value))
    try:
        await service.start()
    except ServiceError as error:
        return str(error)
    finally:
        await service.stop()
    return ""


async def all_started(
    running: Attacked, folder: Path, role: Role, files: Mapping[str, Mapping[str, bytes]]
) -> dict[str, str]:
    """Start a service anew with each of these sets of files; return by their names why it does not serve."""
    starts = [start_anew(running, folder / name, role, each) for name, each in files.items()]
    return dict(zip(files, await asyncio.gather(*starts), strict=True))


def copied(running: Attacked, folder: Path, role: Role, store: Change | None) -> None:
    """Make the folder that a service is started anew from."""
    shutil.copytree(running.folder.of(role.value), folder, ignore=shutil.ignore_patterns("data"))
    STORES[role].create(folder / "data")
    if store is not None:
        name = f"data/{role.value}.db"
        with (
            closing(by_hand(running.folder.of(role.value) / name)) as source,
            closing(by_hand(folder / name)) as target,
        ):
            source.backup(target)
            store(target)
            target.commit()
    settings = folder / f"{role.value}.toml"
    settings.write_text(re.sub(r'(?m)^(\w*listen) = "127\.0\.0\.1:\d+"', r'\1 = "127.0.0.1:0"', settings.read_text()))


def grown(table: str, change: str) -> Change:
    """Change a table that only grows, by whoever can take its triggers out."""

    def work(connection: sqlite3.Connection) -> None:
        guards = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
        for (name,) in connection.execute(guards, (table,)).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(change).rowcount

    return work


def made_cheap(connection: sqlite3.Connection) -> None:
    """Have each round cost what one of a thousand times as many people would, with the digests that go with it."""
    grown("ledger", "UPDATE ledger SET digest = ''")(connection)
    for (task,) in connection.execute("SELECT DISTINCT task FROM ledger").fetchall():
        stored = connection.execute("SELECT entry FROM ledger WHERE task = ? ORDER BY position", (task,)).fetchall()
        cheap = [LedgerEntry.from_canonical(text.replace(AT_MINIMUM, AT_MANY)) for (text,) in stored]
        records = Ledger.from_records(task.hex(), math.inf, 0.5, ()).charge(cheap).records()
        rows = [(entry, digest, task, position) for position, (entry, digest) in enumerate(records)]
        connection.executemany("UPDATE ledger SET entry = ?, digest = ? WHERE task = ? AND position = ?", rows)


def lost(_connection: sqlite3.Connection) -> None:
    """The whole store is gone."""
