"""A PostgreSQL server that starts slowly is waited for; one that cannot start is not."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from hubbub.deploy.local import databases


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
    databases.start(server)
    assert server.ends == []


@pytest.mark.parametrize("end", [subprocess.CalledProcessError(1, "pg_ctl"), AssertionError(), OSError()], ids=repr)
def test_a_server_that_cannot_start_says_so_at_once(end: Exception) -> None:
    server: Any = Starting(end)
    with pytest.raises(type(end)):
        databases.start(server)


def test_a_server_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "START_SECONDS", -1.0)
    server: Any = Starting(LATE)
    with pytest.raises(subprocess.TimeoutExpired):
        databases.start(server)
