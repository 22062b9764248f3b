"""A port of devices beyond loopback without a proxy in front of it is warned of at the start."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs
from unit.shuffler.test_server import Deployment, running
from unit.shuffler.test_settings import COMPLETE, written

from hubbub.shuffler.admit import device_ports
from hubbub.shuffler.admit.device_ports import warn_without_proxy
from hubbub.shuffler.settings import ShufflerSettings, load


def settings(folder: Path, **given: str | bool) -> ShufflerSettings:
    return load(written(folder, COMPLETE)).model_copy(update=given)


def warned(given: ShufflerSettings) -> list[tuple[str, str]]:
    with capture_logs() as logged:
        warn_without_proxy(given)
    assert {line["log_level"] for line in logged} <= {"warning"}
    assert all("hubbub init --proxy" in line["hint"] for line in logged)
    return [(line["setting"], line["address"]) for line in logged]


@pytest.mark.parametrize("address", ["0.0.0.0:7301", "[::]:7301", "192.0.2.7:7301", "[2001:db8::7]:7301"])
def test_beyond_loopback_it_warns_and_behind_a_proxy_it_does_not(tmp_path: Path, address: str) -> None:
    assert warned(settings(tmp_path, listen=address)) == [("listen", address)]
    assert warned(settings(tmp_path, listen=address, behind_proxy=True)) == []


@pytest.mark.parametrize("address", ["127.0.0.1:7301", "[::1]:7301", "localhost:7301", "127.0.0.9:0"])
def test_on_loopback_nothing_is_said(tmp_path: Path, address: str) -> None:
    assert warned(settings(tmp_path, listen=address)) == []


def test_the_port_of_devices_with_certificates_is_warned_of_too(tmp_path: Path) -> None:
    given = settings(tmp_path, listen="0.0.0.0:7301", devices_listen="0.0.0.0:7304")
    assert warned(given) == [("listen", "0.0.0.0:7301"), ("devices_listen", "0.0.0.0:7304")]


async def test_the_service_looks_at_its_ports_when_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[ShufflerSettings] = []
    monkeypatch.setattr(device_ports, "warn_without_proxy", looked_at.append)
    given = Deployment(tmp_path).settings("127.0.0.1:1")
    async with running(given):
        assert looked_at == [given]
