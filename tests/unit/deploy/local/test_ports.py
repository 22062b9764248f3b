"""Ports of services that are started again: nobody else is given one while its service is down."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hubbub.deploy.local import ports
from hubbub.deploy.local.ports import FREE, kept_address, known_address

PROGRAM = "from hubbub.deploy.local.ports import kept_address\nprint(*(kept_address() for _ in range(50)))"


@pytest.fixture(autouse=True)
def turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of turns, which is this test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_processes_that_choose_at_once_are_never_given_the_same() -> None:
    running = [subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    given = [address for each in running for address in each.communicate()[0].split()]
    assert len(set(given)) == 150


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Ports that are in use: of the machine's own, services of other tests may take any at any moment."""
    found: set[int] = set()
    monkeypatch.setattr(ports, "_is_free", lambda port: port not in found)
    return found


def test_the_system_gives_them_to_nobody_who_asks_for_any() -> None:
    first = ports._first_ephemeral()
    assert all(port_of(kept_address()) < first for _ in range(20))


def test_a_port_that_is_in_use_is_passed_over(turns: Path, taken: set[int]) -> None:
    kept_address()
    next(turns.glob("hubbub-ports-*")).write_text("6")
    taken.update({ports._LOWEST + 7, ports._LOWEST + 8})
    assert port_of(kept_address()) == ports._LOWEST + 9


def test_a_port_at_which_somebody_listens_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        assert not ports._is_free(somebody.getsockname()[1])


@pytest.mark.usefixtures("taken")
def test_turns_begin_again_after_the_last_port(turns: Path) -> None:
    (file,) = (kept_address(), next(turns.glob("hubbub-ports-*")))[1:]
    span = ports._first_ephemeral() - 1 - ports._LOWEST
    file.write_text(str(7 * span - 1))
    assert [port_of(kept_address()) for _ in range(2)] == [ports._LOWEST, ports._LOWEST + 1]


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("written", ["", "no number", "12x", "-5"])
def test_a_file_that_has_no_number_is_written_anew(turns: Path, written: str) -> None:
    kept_address()
    (file,) = turns.glob("hubbub-ports-*")
    file.write_text(written)
    first = port_of(kept_address())
    assert port_of(kept_address()) in (first + 1, ports._LOWEST)


def test_without_the_file_or_the_room_the_system_chooses(turns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(turns / "nowhere"))
    assert kept_address() == FREE
    monkeypatch.setattr(tempfile, "tempdir", str(turns))
    monkeypatch.setattr(ports, "_first_ephemeral", lambda: ports._LOWEST + 10)
    assert kept_address() == FREE
    # Others are told of a leader before it listens, so its port is chosen then.
    assert port_of(known_address()) > 0
