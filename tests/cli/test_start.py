"""A service that cannot start says why in one line, without lines of gRPC's, and makes nothing."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.shuffler.test_server import Deployment
from unit.shuffler.test_stopping import SETTINGS

from support.cli import hubbub
from support.messages import NO_READABLE_CERTIFICATE


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    Deployment(tmp_path)
    path = tmp_path / "shuffler.toml"
    path.write_text(SETTINGS)
    return path


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def why(settings: Path) -> str:
    ran = hubbub("shuffler", settings)
    assert (ran.status, ran.out) == (1, "")
    # Its task is one for few devices, which every start warns of.
    (line,) = [each for each in ran.err.splitlines() if "a task promises little" not in each]
    return line


def test_a_store_that_went_missing_is_not_replaced(settings: Path) -> None:
    shutil.rmtree(settings.parent / "data")
    assert why(settings).startswith("error: there is no shuffler's store: the folder ")
    assert not (settings.parent / "data").exists()


def test_a_taken_port_is_named(settings: Path, taken: int) -> None:
    settings.write_text(SETTINGS.replace('\nlisten = "127.0.0.1:0"', f'\nlisten = "127.0.0.1:{taken}"'))
    assert why(settings).startswith(f"error: cannot listen on 127.0.0.1:{taken}: another process uses it")


def test_swapped_tls_files_are_named(settings: Path) -> None:
    settings.write_text(SETTINGS.replace("tls/shuffler.pem", "tls/shuffler.key"))
    assert f"shuffler.key {NO_READABLE_CERTIFICATE}: it is a private key; check that certificate and key" in why(
        settings
    )
