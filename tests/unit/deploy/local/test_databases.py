"""A PostgreSQL server that starts slowly is waited for; one that cannot start is not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hubbub.deploy.local import databases
from hubbub.protos.errors import HubbubError
from support import postgres


class Starting:
    """A server of the package, each of whose starts ends as it is told."""

    def __init__(self, *ends: Exception | None) -> None:
        self.ends = list(ends)

    def start(self) -> None:
        end = self.ends.pop(0)
        if end is not None:
            raise end


LATE = subprocess.TimeoutExpired("pg_ctl", 10)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "AGAIN_SECONDS", 0.0)


def test_a_server_that_the_package_gave_up_is_waited_for() -> None:
    refused = subprocess.CalledProcessError(1, "pg_ctl")  # another server is in the folder: the one that starts
    server: Any = Starting(LATE, AssertionError(), refused, None)
    databases.start_here(server)
    assert server.ends == []


@pytest.mark.parametrize("end", [subprocess.CalledProcessError(1, "pg_ctl"), AssertionError(), OSError()], ids=repr)
def test_a_server_that_cannot_start_says_so_at_once(end: Exception) -> None:
    server: Any = Starting(end)
    with pytest.raises(type(end)):
        databases.start_here(server)


def test_a_server_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "START_SECONDS", -1.0)
    server: Any = Starting(LATE)
    with pytest.raises(subprocess.TimeoutExpired):
        databases.start_here(server)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has servers run as another account")
def test_no_fork_of_this_process_becomes_another_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC may abort in one; a program that stays the same account is started without."""
    begin, accounts = subprocess.Popen.__init__, list[Any]()

    def noted(self: Any, *words: Any, **named: Any) -> None:
        accounts.append(named.get("user"))
        begin(self, *words, **named)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    server = postgres.OwnServer()
    server.crash()
    server.start()
    process = server._process()
    server.close()
    assert accounts == [None, None]
    assert not process.is_running()
    assert not server.folder.exists()


def test_why_a_server_did_not_start_is_said(tmp_path: Path) -> None:
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "PG_VERSION").write_text("1")
    server: Any = Starting()
    server.pgdata = occupied
    with pytest.raises(HubbubError, match="Version mismatch"):
        databases.start(server)
