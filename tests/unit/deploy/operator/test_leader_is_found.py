"""A call of the operator goes on until it finds the main process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from hubbub.deploy.operator import client
from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.messages import Incident, IncidentReport
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.channels import TLS

STANDS_BY = Refusal(Reason.NOT_READY, "this shuffler is a standby", 5.0)
AWAY = Unreachable("the shuffler did not answer")
BELOW = Refusal(Reason.BELOW_MINIMUM, "2 of 5")


async def asked(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, HubbubError | str]) -> tuple[str, list[str]]:
    """Make a call at several addresses; return what was answered, and who was asked."""
    seen = []

    class Settings:
        shuffler_control = ",".join(answers)

        class tls:  # noqa: N801 - a setting's name
            paths = staticmethod(lambda: TLS(b""))

    @contextlib.asynccontextmanager
    async def channel(address: str, *_: object) -> AsyncIterator[str]:
        seen.append(address)
        yield address

    async def call(caller: Any) -> str:
        answer = answers[caller]
        if isinstance(answer, HubbubError):
            raise answer
        return answer

    monkeypatch.setattr(client, "open_channel", channel)
    monkeypatch.setattr(client, "ControlCaller", lambda address, _what: address)
    return await client.call_leader(cast(Any, Settings()), call), seen


@pytest.mark.parametrize("first", [STANDS_BY, AWAY], ids=["stands by", "away"])
async def test_who_stands_by_or_is_away_is_passed_over(monkeypatch: pytest.MonkeyPatch, first: HubbubError) -> None:
    found, seen = await asked(monkeypatch, {"a:1": first, "b:2": "done", "c:3": "not asked"})
    assert (found, seen) == ("done", ["a:1", "b:2"])


async def test_what_the_leader_refuses_is_asked_of_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refusal) as caught:
        await asked(monkeypatch, {"a:1": STANDS_BY, "b:2": BELOW, "c:3": "not asked"})
    assert caught.value is BELOW


async def test_where_nobody_keeps_rounds_the_error_names_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable) as caught:
        await asked(monkeypatch, {"a:1": AWAY, "b:2": STANDS_BY})
    assert str(caught.value) == f"no leader of the rounds has answered: {AWAY}; b:2: {STANDS_BY}"


async def test_a_single_address_answers_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refusal) as caught:
        await asked(monkeypatch, {"a:1": STANDS_BY})
    assert caught.value is STANDS_BY
    with pytest.raises(Unreachable, match=f"^{AWAY}; check that it is running and that the address is right$"):
        await asked(monkeypatch, {"a:1": AWAY})


async def test_incidents_are_shown_although_rounds_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the database is away, leader and standby refuse to show rounds, and have the reason."""
    incident = Incident("store", "the store does not answer", 1000.0, 3)
    stands_by = Incident("store", "it stands by: the store does not answer", 1001.0, 1)
    reports: Mapping[str, HubbubError | IncidentReport] = {
        "a:1": IncidentReport((incident,), 2),
        "b:2": AWAY,
        "c:3": IncidentReport((stands_by,), 1),
        "analyzer": IncidentReport((incident,)),
    }

    class Settings:
        shuffler_control, analyzer_results, hops = "a:1,b:2,c:3", "analyzer", ()

        class tls:  # noqa: N801 - a setting's name
            paths = staticmethod(lambda: TLS(b""))

    @contextlib.asynccontextmanager
    async def channel(address: str, *_: object, **_most: object) -> AsyncIterator[str]:
        yield address

    class Caller:
        def __init__(self, address: str, _what: str = "") -> None:
            self.address = address

        async def get_status(self, *_: object) -> None:
            raise STANDS_BY

        get_statuses = get_status

        async def get_incidents(self, _seconds: float) -> IncidentReport:
            report = reports[self.address]
            if isinstance(report, HubbubError):
                raise report
            return report

    for name, replaced in {"open_channel": channel, "ControlCaller": Caller, "ResultsCaller": Caller}.items():
        monkeypatch.setattr(client, name, replaced)
    overview = await client.fetch_overview(cast(Any, Settings()))
    assert (overview.shuffler, overview.analyzer, set(overview.errors)) == (None, None, {"analyzer", "shuffler"})
    assert overview.incidents == {
        "shuffler": IncidentReport((incident, stands_by), 3),
        "analyzer": IncidentReport((incident,)),
    }
