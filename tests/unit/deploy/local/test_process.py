"""A service that does not start is an error that quotes its log, whatever its log is."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.deploy.local.process import LOG_TAIL_BYTES, ServiceError, ServiceProcess


async def test_a_service_that_cannot_start_says_why(tmp_path: Path) -> None:
    service = ServiceProcess("shuffler", tmp_path / "none.toml", tmp_path / "log")
    with pytest.raises(ServiceError, match=r"ended with status 1 before it served; .*\n.*none.toml"):
        await service.start()


async def test_a_service_whose_log_is_lost_says_why_it_cannot_start(tmp_path: Path) -> None:
    service = ServiceProcess("shuffler", tmp_path / "none.toml", Path("/dev/full"))
    with pytest.raises(ServiceError, match=r"before it served; its log is empty, but it said: .*none\.toml"):
        await service.start()


def test_only_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 3 * LOG_TAIL_BYTES + b"\n" + b"".join(b"line %d\n" % number for number in range(100)))
    tail = ServiceProcess("shuffler", tmp_path, log)._tail()
    assert tail.splitlines()[1:] == [f"  line {number}" for number in range(85, 100)]
    log.write_bytes(b"one\n")
    assert ServiceProcess("shuffler", tmp_path, log)._tail().endswith("ends with:\n  one")


def test_a_log_that_is_a_device_is_not_read(tmp_path: Path) -> None:
    """It would have no end."""
    assert ServiceProcess("shuffler", tmp_path, Path("/dev/zero"))._tail() == "; its log is empty"
