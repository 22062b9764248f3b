"""Every call of both control ports for every role, what a refusal says, and who is logged to have looked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from hubbub.protos.messages import CredentialAction, CredentialStatus, IncidentReport, ListedTask, RoundState
from hubbub.protos.messages import RoundStatus as Status
from hubbub.protos.records.results import RoundId, RoundResults
from hubbub.protos.refusals import Refusal
from hubbub.protos.rpc import ControlCaller, ResultsCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.transport.roles import READERS
from hubbub.protos.v1 import control_pb2, results_pb2
from hubbub.service.rpc import serve_control, serve_results
from hubbub.service.rpc.caller_access import LOOK_SECONDS, MOST_LOOKS, LookLog, checked_caller
from hubbub.service.transport.grpc_server import listen
from support.ended_with_test import opened_server
from support.messages import NEEDS_ROLE, OTHER_ROLE
from support.patience import CALL_SECONDS
from support.samples import Parties, make_tls, sample_task, signed

PARTIES = Parties.generate()
SIGNED = signed(sample_task(PARTIES), PARTIES)
TASK = SIGNED.task
STATUS = Status(TASK.id, 0, RoundState.OPEN, 1, 2, {}, "more")
LOOKERS = ("operator", "reader", "reader:ana")
OTHERS = ("shuffler", "analyzer", "monitor", "frontend", "reader:", "reader:ANA", "operator:ana", "readers")


class Everything:
    """Answers every call of both ports."""

    async def close_round(self, *_: object) -> Status:
        return STATUS

    async def manage_credentials(self, *_: object) -> CredentialStatus:
        return CredentialStatus((), 0, 0)

    async def get_status(self, *_: object) -> list[Status]:
        return [STATUS]

    async def get_incidents(self) -> IncidentReport:
        return IncidentReport()

    async def list_tasks(self) -> list[ListedTask]:
        return [ListedTask(TASK.id, TASK.name)]

    async def get_task(self, *_: object) -> Any:
        return SIGNED

    async def get_results(self, *_: object) -> RoundResults:
        return RoundResults(RoundId(TASK.id, TASK.name, 0), (), b"{}")

    async def list_results(self, *_: object) -> list[RoundId]:
        return []

    async def get_statuses(self, *_: object) -> list[Any]:
        return []


Call = Callable[[ControlCaller, ResultsCaller], Awaitable[object]]
LOOKS: dict[tuple[str, str], Call] = {
    ("control", "GetStatus"): lambda control, _: control.get_status(None, CALL_SECONDS),
    ("control", "GetIncidents"): lambda control, _: control.get_incidents(CALL_SECONDS),
    ("control", "ListTasks"): lambda control, _: control.list_tasks(CALL_SECONDS),
    ("control", "GetTask"): lambda control, _: control.get_task(TASK.id, CALL_SECONDS),
    ("results", "GetResults"): lambda _, results: results.get_results(TASK.id, 0, 0, CALL_SECONDS),
    ("results", "ListResults"): lambda _, results: results.list_results(None, CALL_SECONDS),
    ("results", "GetStatuses"): lambda _, results: results.get_statuses(None, CALL_SECONDS),
    ("results", "GetIncidents"): lambda _, results: results.get_incidents(CALL_SECONDS),
    ("results", "ListTasks"): lambda _, results: results.list_tasks(CALL_SECONDS),
    ("results", "GetTask"): lambda _, results: results.get_task(TASK.id, CALL_SECONDS),
}
CHANGES: dict[tuple[str, str], Call] = {
    ("control", "CloseRound"): lambda control, _: control.close_round(TASK.id, 0, CALL_SECONDS),
    ("control", "ManageCredentials"): lambda control, _: control.manage_credentials(
        CredentialAction.STATUS, (), CALL_SECONDS
    ),
}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TLS]:
    return make_tls(tmp_path_factory.mktemp("tls"), "service", *LOOKERS, *OTHERS)


@pytest.fixture
async def address(tls: dict[str, TLS]) -> AsyncIterator[str]:
    async with opened_server() as server:
        serve_control(server, Everything())
        serve_results(server, Everything(), READERS)
        port = listen(server, "127.0.0.1:0", tls["service"].server(mutual=True))
        await server.start()
        yield f"127.0.0.1:{port}"


def test_every_call_of_both_ports_is_tried() -> None:
    """A call that is added must be given to a role."""
    services = {
        "control": control_pb2.DESCRIPTOR.services_by_name["RoundControlService"],
        "results": results_pb2.DESCRIPTOR.services_by_name["ResultsService"],
    }
    there = {(port, method.name) for port, service in services.items() for method in service.methods}
    assert there == {*LOOKS, *CHANGES}


async def _allowed(address: str, tls: TLS, calls: dict[tuple[str, str], Call]) -> dict[str, str]:
    """What each call was refused with; nothing if it was answered."""
    said = {}
    async with open_channel(address, tls) as channel:
        for (port, name), call in calls.items():
            try:
                await call(ControlCaller(channel), ResultsCaller(channel))
            except Refusal as refusal:
                said[f"{port} {name}"] = f"{refusal.reason}: {refusal.message}"
    return said


@pytest.mark.parametrize("role", LOOKERS)
async def test_operator_and_readers_look_and_the_operator_alone_changes(
    address: str, tls: dict[str, TLS], role: str
) -> None:
    assert await _allowed(address, tls[role], LOOKS) == {}
    needs = f"needs a certificate of role operator, and the one shown is that of {role}; "
    expected = (
        {} if role == "operator" else {f"{port} {name}": f"not_allowed: {name} {needs}" for port, name in CHANGES}
    )
    refused = await _allowed(address, tls[role], CHANGES)
    assert {name: text.removesuffix("use such a one") for name, text in refused.items()} == expected


@pytest.mark.parametrize("role", OTHERS)
async def test_nobody_else_looks_or_changes(address: str, tls: dict[str, TLS], role: str) -> None:
    refused = await _allowed(address, tls[role], {**LOOKS, **CHANGES})
    assert len(refused) == len(LOOKS) + len(CHANGES)
    for what, text in refused.items():
        roles = "operator" if tuple(what.split()) in CHANGES else "operator or reader"
        assert f"{NEEDS_ROLE} {roles}, {OTHER_ROLE} {role}; " in text


async def test_who_looked_is_logged_by_name_and_who_was_refused_is_not(address: str, tls: dict[str, TLS]) -> None:
    calls = {key: LOOKS[key] for key in (("control", "GetStatus"), ("results", "ListTasks"))}
    with capture_logs() as logged:
        for role in ("reader:ana", "reader", "shuffler", "reader:ana"):
            await _allowed(address, tls[role], calls)
    looks = [(each["caller"], each["call"]) for each in logged if each["event"] == "looked at"]
    assert looks == [(name, call) for name in ("reader:ana", "reader") for call in ("GetStatus", "ListTasks")]


def test_a_look_is_logged_again_after_an_hour() -> None:
    now = 0.0
    looks = LookLog(lambda: now)
    with capture_logs() as logged:
        for now in (0.0, LOOK_SECONDS - 1, LOOK_SECONDS, LOOK_SECONDS + 1):  # noqa: B007 - the clock
            looks.note("reader:ana", "GetStatus")
            looks.note("reader:ben", "GetStatus")
    assert [each["caller"] for each in logged] == ["reader:ana", "reader:ben"] * 2


def test_names_that_look_are_bounded() -> None:
    looks = LookLog(lambda: 0.0)
    with capture_logs() as logged:
        for number in range(MOST_LOOKS + 1):
            looks.note(f"reader:{number}", "GetStatus")
    assert len(logged) == MOST_LOOKS + 1
    assert len(looks._logged) == 1


@pytest.mark.parametrize(
    ("names", "says"),
    [([], "names no role"), ([""], "names no role"), (["\x1b[31m" + "x" * 200], r"that of .{1,64}; use")],
)
def test_a_refusal_shows_no_more_of_a_strange_certificate_than_fits(names: list[str], says: str) -> None:
    with pytest.raises(Refusal, match=says) as caught:
        checked_caller(names, "GetStatus", READERS)
    assert caught.value.message.isprintable()
