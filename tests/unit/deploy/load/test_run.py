"""What can be asked of a load, and what is not loaded by mistake."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console
from rich.progress import Progress
from unit.shuffler.admit.test_mtls import Certified

from hubbub.deploy.load import run
from hubbub.deploy.load.run import LoadResult, checked_schedule, deployment_in
from hubbub.deploy.load.schedule import LoadSchedule, LoadStep
from hubbub.protos.errors import UsageError

NOTHING: dict[str, Any] = {
    "rate": None,
    "rates": None,
    "users": None,
    "think": None,
    "seconds": 10.0,
    "per_call": 1,
    "timeout": 10.0,
}


def test_offers_are_a_rate_several_or_a_crowd() -> None:
    assert checked_schedule(**NOTHING) == LoadSchedule((LoadStep(200.0, 10.0),))
    assert checked_schedule(**NOTHING | {"rates": "10,20.5", "per_call": 5}) == LoadSchedule(
        (LoadStep(10.0, 10.0), LoadStep(20.5, 10.0)), per_call=5
    )
    assert checked_schedule(**NOTHING | {"users": 3, "think": 0.5}) == LoadSchedule((LoadStep(0.0, 10.0, 3, 0.5),))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"rate": 1.0, "rates": "1"}, "--rate and --steps exclude each other"),
        ({"rates": "1,x"}, "give numbers of devices a second with commas"),
        ({"rates": "1,,2"}, "give numbers of devices a second with commas"),
        ({"users": 5}, "belong together; give both"),
        ({"think": 5.0}, "give both"),
        ({"users": 5, "think": 0.0}, "--think 0: give a number above 0"),
        ({"rate": 0.0}, "--rate 0: give a number above 0"),
        ({"rate": float("nan")}, "--rate nan"),
        ({"rates": "1,1e9"}, "--steps 1e.09: give a number above 0, and at most 1e.06"),
        ({"seconds": -1.0}, "--seconds -1"),
        ({"timeout": float("inf")}, "--timeout inf"),
        ({"per_call": 10_001}, "a call takes at most 10000 devices"),
        ({"rate": 1e6, "seconds": 60.0}, "at most 2000000 are possible; ask for fewer seconds or a lower rate"),
    ],
)
def test_offers_that_make_no_sense_are_bad_use(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        checked_schedule(**NOTHING | asked)


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """The settings of a client whose task admits by certificates."""
    deployment = Certified(tmp_path)
    deployment.parties.operator.save_public(tmp_path / "operator.pub.pem")
    deployment.parties.shuffler.save_public(tmp_path / "shuffler.pub.pem")
    path = tmp_path / "client.toml"
    path.write_text(
        'task = "tasks/task.json"\nshuffler = "127.0.0.1:1"\nstate = "devices.db"\n'
        'operator_key = "operator.pub.pem"\nshuffler_key = "shuffler.pub.pem"\nauthority = "authority.pem"\n'
    )
    return path


OFFER = LoadSchedule((LoadStep(1.0, 1.0),))


@pytest.mark.parametrize(
    "address", ["collector.example:443", "192.0.2.1:443", "[2001:db8::1]:443", "https://192.0.2.1:443"]
)
def test_services_beyond_this_machine_are_not_loaded_by_mistake(client: Path, address: str) -> None:
    client.write_text(client.read_text().replace("127.0.0.1:1", address))
    with pytest.raises(UsageError, match=r"is not on this machine.*add --pollute"):
        deployment_in(client, OFFER, 1, 1, None, None, False)
    # It is not what stops it, once it is meant.
    with pytest.raises(UsageError, match="hubbub rehearse --certificates"):
        deployment_in(client, OFFER, 1, 1, None, None, True)


@pytest.mark.parametrize("address", ["127.0.0.1:443", "[::1]:443", "localhost:443", "https://[::1]:443"])
def test_tasks_that_admit_by_certificates_are_refused_by_name(client: Path, address: str) -> None:
    client.write_text(client.read_text().replace("127.0.0.1:1", address))
    with pytest.raises(UsageError, match=r"admits by TLS certificates.*use `hubbub rehearse --certificates`"):
        deployment_in(client, OFFER, 1, 1, None, None, False)


async def test_the_bar_ends_at_its_end_whatever_number_of_devices_was_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are due at random moments, and the bar's length is the expected number."""

    async def offer(*args: Any) -> None:
        args[4].dealt_with(97)

    monkeypatch.setattr(run, "run_schedule", offer)
    progress = Progress(console=Console(file=io.StringIO()))
    schedule = LoadSchedule((LoadStep(100.0, 1.0),))
    await run._run(cast(Any, SimpleNamespace(tickets=None)), schedule, 1, LoadResult("here"), progress)
    sent = progress.tasks[1]
    assert (sent.completed, sent.percentage) == (97, 100)
