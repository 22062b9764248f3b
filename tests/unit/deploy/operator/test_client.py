"""Which round `hubbub close` cuts, and what services that have incidents look like to their operator."""

from __future__ import annotations

import contextlib
import io
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from hubbub.cli.commands import status
from hubbub.cli.tables.status import overview_document, print_overview, status_document
from hubbub.deploy.init.folders import initialize
from hubbub.deploy.operator import client
from hubbub.deploy.operator.client import Overview, round_to_close
from hubbub.deploy.pki import expiry
from hubbub.deploy.settings import OperatorSettings
from hubbub.protos.errors import CannotCall, Distrusted, HubbubError, Unreachable, UsageError
from hubbub.protos.messages import Incident, IncidentReport, RoundState, RoundStatus
from hubbub.protos.records.results import AnalysisStage, AnalyzerRoundStatus, RoundId
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.transport.channels import TLS
from hubbub.service.settings import load
from support.messages import NO_ROUND_ANYWHERE
from support.samples import Parties, sample_task

TASK = sample_task(Parties.generate(), schedule=Schedule(1000, length=100, grace=50, rounds=4, close="operator"))


class Settings:
    """An operator's settings, as far as they are asked for."""

    shuffler_control = "127.0.0.1:7302"
    hops: tuple[str, ...] = ()

    class tls:  # noqa: N801 - a setting's name
        paths = staticmethod(lambda: TLS(b""))


async def closing(
    monkeypatch: pytest.MonkeyPatch, states: dict[int, RoundState], wanted: int | None = None, now: float = 1130.0
) -> int | RoundStatus:
    class Shuffler:
        def __init__(self, _channel: object, _what: str) -> None:
            pass

        async def get_status(self, task_id: bytes, _deadline: float) -> list[RoundStatus]:
            assert task_id == TASK.id
            return [RoundStatus(task_id, number, state, 80, 20, {}, "") for number, state in states.items()]

    @contextlib.asynccontextmanager
    async def channel(*_: object) -> AsyncIterator[None]:
        yield None

    monkeypatch.setattr(client, "ControlCaller", Shuffler)
    monkeypatch.setattr(client, "open_channel", channel)
    return await round_to_close(cast(Any, Settings()), TASK, wanted, now)


OPEN, CUT, ERASED = RoundState.OPEN, RoundState.CUT, RoundState.ERASED


async def test_without_a_number_the_only_open_round_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round 2 is prepared, and has not opened yet."""
    assert await closing(monkeypatch, {0: ERASED, 1: OPEN, 2: OPEN}) == 1


async def test_where_several_are_open_it_asks_which(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="rounds 0 and 1 of flights are open; name one with --round"):
        await closing(monkeypatch, {0: OPEN, 1: OPEN, 2: OPEN})


async def test_where_none_is_open_it_says_what_each_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HubbubError, match="no round of flights is open: round 2 opens at 1970-01-01T00:20:00Z"):
        await closing(monkeypatch, {2: OPEN})
    with pytest.raises(HubbubError, match="no round of flights is open: none has begun"):
        await closing(monkeypatch, {})


@pytest.mark.parametrize("state", [state for state in RoundState if state is not OPEN])
async def test_a_round_that_was_closed_is_closed_already(monkeypatch: pytest.MonkeyPatch, state: RoundState) -> None:
    for found in (await closing(monkeypatch, {0: state, 1: OPEN}, 0), await closing(monkeypatch, {0: state, 2: OPEN})):
        assert isinstance(found, RoundStatus)
        assert (found.round, found.state) == (0, state)


async def test_a_round_that_is_named_is_left_to_the_shuffler_to_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await closing(monkeypatch, {0: OPEN, 1: OPEN}, 0) == 0
    assert await closing(monkeypatch, {}, 7) == 7


def test_an_overview_shows_what_holds_each_service_up() -> None:
    incident = Incident("store", "the store /srv/x.db could not be used: full; make room", 1000.0, 3)
    overview = Overview([], [], {}, {"shuffler": IncidentReport((incident,), 12), "analyzer": IncidentReport()})
    assert overview_document(overview)["incidents"] == {
        "shuffler": {
            "incidents": [{"kind": "store", "text": incident.text, "since": "1970-01-01T00:16:40Z", "count": 3}],
            "log_lines_lost": 12,
        },
        "analyzer": {"incidents": [], "log_lines_lost": 0},
    }
    printer = Console(record=True, width=60)
    print_overview(printer, overview)
    text = " ".join(printer.export_text().split())
    assert f"the shuffler has an incident (store) since 1970-01-01T00:16:40Z, seen 3 times: {incident.text}" in text
    assert "the shuffler lost 12 lines of its log since it started" in text
    assert "the analyzer has an incident" not in text


def test_an_overview_shows_whether_hops_work_and_who_knows_more() -> None:
    overview = Overview([], [], {}, hops={"hop-2": frozenset(), "hop-3": frozenset({"store", "peer"})})
    assert overview_document(overview)["hops"] == {
        "hop-2": {"with_incidents": []},
        "hop-3": {"with_incidents": ["peer", "store"]},
    }
    printer = Console(record=True, width=60)
    print_overview(printer, overview)
    text = " ".join(printer.export_text().split())
    assert "hop-2 serves hop-3 serves, but has an incident (peer, store); its party sees more" in text
    assert "`hubbub health hop HOP.toml` on its machine" in text


async def test_a_hop_that_is_silent_is_an_error_and_the_others_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(name: str, address: str, _tls: object) -> frozenset[str]:
        if address == "c:7511":
            raise Unreachable(f"{name} at {address} did not answer")
        return frozenset()

    async def rounds(_settings: object) -> list[Any]:
        return []

    async def incidents(*_: object) -> dict[str, IncidentReport]:
        return {}

    for name, replaced in {
        "ask_hop": asked,
        "fetch_status": rounds,
        "fetch_analyzer_statuses": rounds,
        "_incidents": incidents,
    }.items():
        monkeypatch.setattr(client, name, replaced)

    class Chained(Settings):
        analyzer_results = "127.0.0.1:7402"
        hops = ("b:7501", "c:7511")

    overview = await client.fetch_overview(cast(Any, Chained()))
    assert overview.hops == {"hop-2": frozenset()}
    assert overview.errors == {"hop-3": "hop-3 at c:7511 did not answer"}


def test_a_task_is_not_known_by_name_while_the_analyzer_is_silent() -> None:
    round_ = RoundStatus(TASK.id, 0, OPEN, 80, 20, {}, "")
    overview = Overview([round_], None, {"analyzer": "the analyzer did not answer (127.0.0.1:7402)"})
    assert overview.of_task(TASK.id.hex()).shuffler == [round_]
    assert overview.of_task(TASK.id.hex()[:12]).shuffler == [round_]
    with pytest.raises(HubbubError):
        overview.of_task(TASK.id.hex()[:7])
    says = "only the analyzer has the names of tasks, and it did not answer; give the first 8 .*; the analyzer did"
    with pytest.raises(HubbubError, match=says):
        overview.of_task(TASK.name)
    assert overview.of_task(TASK.name, {TASK.id.hex()}).shuffler == [round_]


@pytest.mark.parametrize("word", [TASK.name, TASK.id.hex()[:12]], ids=["name", "id"])
async def test_who_watches_a_task_goes_on_while_services_are_silent(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while both start again."""
    round_ = RoundStatus(TASK.id, 0, OPEN, 80, 20, {}, "")
    named = AnalyzerRoundStatus(RoundId(TASK.id, TASK.name, 0), AnalysisStage.AWAITED, (), "")
    overviews = [
        Overview([round_], [named], {}),
        Overview([round_], None, {"analyzer": "it did not answer"}),
        Overview(None, None, {"analyzer": "it did not answer", "shuffler": "it did not answer"}),
        Overview([], [], {}),
    ]

    async def overview(_settings: object) -> Overview:
        return overviews.pop(0)

    monkeypatch.setattr(client, "fetch_overview", overview)
    monkeypatch.setattr(expiry, "expiries", lambda *_: [])
    settings, ids = cast(Any, Settings()), set[str]()
    settings.analyzer_results = "127.0.0.1:7402"
    for shown in ([round_], [round_], None, []):
        assert (await status._look(settings, word, {}, ids)).overview.shuffler == shown


def test_only_services_that_answered_are_said_to_show_no_round() -> None:
    silent = {"analyzer": "the analyzer did not answer"}
    with pytest.raises(HubbubError, match=r"^the shuffler shows no round of task 0{64}; the analyzer did not answer"):
        Overview([], None, silent).of_task("0" * 64)
    with pytest.raises(HubbubError, match=r"^the analyzer shows no round of task flights; the shuffler did not answer"):
        Overview(None, [], {"shuffler": "the shuffler did not answer"}).of_task("flights")
    with pytest.raises(HubbubError, match=rf"^{NO_ROUND_ANYWHERE} flights; `hubbub status`"):
        Overview([], [], {}).of_task("flights")


def test_a_task_whose_file_the_analyzer_lacks_is_not_said_to_have_no_round() -> None:
    """The shuffler shows its rounds, but not its name."""
    overview = Overview([RoundStatus(TASK.id, 0, OPEN, 80, 20, {}, "")], [], {})
    says = (
        "^the analyzer knows no task named flights, and .* may lack its file. Add it there, or give the first 8 digit"
    )
    with pytest.raises(HubbubError, match=says):
        overview.of_task("flights")
    with pytest.raises(HubbubError, match=rf"^{NO_ROUND_ANYWHERE} 00000000;"):
        overview.of_task("00000000")
    named = AnalyzerRoundStatus(RoundId(TASK.id, TASK.name, 0), AnalysisStage.AWAITED, (), "")
    with pytest.raises(HubbubError, match=rf"^{NO_ROUND_ANYWHERE} other;"):
        replace(overview, analyzer=[named]).of_task("other")


def test_only_silence_asks_if_the_service_runs() -> None:
    silent = Unreachable("it did not answer")
    advice = "^it did not answer; check that it is running and that the address is right$"
    with pytest.raises(Unreachable, match=advice), client.advising("the analyzer at a:1"):
        raise silent
    for known in (Distrusted("it is not trusted: its certificate has expired"), CannotCall("unset GRPC_POLL_STRATEGY")):
        with pytest.raises(Unreachable) as caught, client.advising("the analyzer at a:1"):
            raise known
        assert caught.value is known


@pytest.mark.parametrize("check", [True, False])
def test_a_service_that_answers_others_only_is_named(check: bool) -> None:
    """ "This port" is that of one of several services that a reader's `hubbub status` asked."""
    only = Refusal(
        Reason.NOT_ALLOWED,
        "CloseRound needs the role operator",
    )
    says = "^the shuffler at a:7302: CloseRound needs the role operator$"
    with pytest.raises(Refusal, match=says) as caught, client.advising("the shuffler at a:7302", check=check):
        raise only
    assert caught.value.reason is Reason.NOT_ALLOWED


async def test_every_command_names_the_service_that_is_silent_with_its_address_in_one_form(tmp_path: Path) -> None:
    made = load(initialize(tmp_path / "made").of("operator") / "operator.toml", OperatorSettings, "operator")
    silent = {"shuffler_control": "127.0.0.1:1", "analyzer_results": "127.0.0.1:2", "hops": ("127.0.0.1:3",)}
    nowhere = made.model_copy(update=silent)
    advice = "no server listens there (connection refused); check that it is running and that the address is right"
    expected = {
        "shuffler": f"the shuffler at 127.0.0.1:1 did not answer: {advice}",
        "analyzer": f"the analyzer at 127.0.0.1:2 did not answer: {advice}",
        "hop-2": f"hop-2 at 127.0.0.1:3 did not answer: {advice}",
    }
    assert (await client.fetch_overview(nowhere)).errors == expected
    for service, asked in {
        "shuffler": client.close_round(nowhere, TASK.id, 0),
        "analyzer": client.list_results(nowhere),
    }.items():
        with pytest.raises(Unreachable) as caught:
            await asked
        assert str(caught.value) == expected[service]


def test_states_are_told_apart_in_words() -> None:
    """A round that succeeded, one that failed, and one that is not open yet."""
    words = {state: RoundStatus(TASK.id, 0, state, 80, 20, {}, "").shown_state for state in RoundState}
    assert len(set(words.values())) == len(RoundState)
    assert (words[ERASED], words[RoundState.EXPIRED], words[OPEN]) == ("finished", "expired", "open")
    prepared = RoundStatus(TASK.id, 0, OPEN, 0, 20, {}, "", prepared=True)
    assert (prepared.shown_state, status_document(prepared)["state"]) == ("prepared", "prepared")
    assert RoundStatus(TASK.id, 0, CUT, 0, 20, {}, "", prepared=True).shown_state == "cut"


def test_submissions_in_steps_are_a_range_and_never_none_at_all() -> None:
    rounded, exact = (RoundStatus(TASK.id, 0, OPEN, 0, 20, {}, "", step=step) for step in (100, 1))
    assert (rounded.shown_submissions, exact.shown_submissions) == ("0–99", "0")
    assert (status_document(rounded)["submissions"], status_document(rounded)["submissions_step"]) == (0, 100)
    printer = Console(record=True, width=120)
    print_overview(printer, Overview([rounded], None, {}))
    assert "0–99" in printer.export_text()


def test_a_minimum_that_the_shuffler_does_not_know_is_not_shown_as_none() -> None:
    left = RoundStatus(TASK.id, 0, CUT, 80, 0, {}, "its task, which is no longer among this shuffler's tasks")
    assert status_document(left)["minimum_reports"] is None
    printer = Console(record=True, width=120)
    print_overview(printer, Overview([left], None, {}))
    assert "unknown" in printer.export_text()


UNCOUNTED = [
    (RoundState.ERASED, AnalysisStage.AWAITED, True),
    (RoundState.RELEASED, AnalysisStage.DELIVERING, True),
    (RoundState.ERASED, AnalysisStage.OVER, True),
    (RoundState.ERASED, AnalysisStage.COUNTED, False),
    (RoundState.RELEASED, AnalysisStage.CERTIFIED, False),
    (RoundState.MIXED, AnalysisStage.AWAITED, False),
    (RoundState.EXPIRED, AnalysisStage.OVER, False),
]
"""States at the shuffler and at the analyzer, and whether the shuffler was told something that is not so."""


@pytest.mark.parametrize(("sent", "taken", "named"), UNCOUNTED)
def test_a_round_that_is_counted_for_the_shuffler_alone_is_named(
    sent: RoundState, taken: AnalysisStage, named: bool
) -> None:
    there = AnalyzerRoundStatus(RoundId(TASK.id, "flights", 3), taken, (), "nothing")
    # A round that the analyzer does not list is not known to be missing there.
    rounds = [RoundStatus(TASK.id, number, sent, 80, 20, {}, "") for number in (3, 4)]
    overview = Overview(rounds, [there], {})
    document = overview_document(overview)["uncounted"]
    assert document == ([{"task_id": TASK.id.hex(), "round": 3}] if named else [])
    out = io.StringIO()
    print_overview(Console(file=out, width=80), overview)
    said = "round 3 of task flights: the shuffler was told that it is counted, and the analyzer has not counted it"
    assert (said in out.getvalue()) == named


async def test_an_analyzer_that_answered_before_it_counted_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [AnalysisStage.DELIVERING, AnalysisStage.COUNTED]

    async def status(_settings: object) -> list[RoundStatus]:
        return [RoundStatus(TASK.id, 3, RoundState.RELEASED, 80, 20, {}, "")]

    async def statuses(_settings: object) -> list[AnalyzerRoundStatus]:
        return [AnalyzerRoundStatus(RoundId(TASK.id, "flights", 3), answers.pop(0), (), "nothing")]

    async def none(*_: object) -> dict[str, IncidentReport]:
        return {}

    monkeypatch.setattr(client, "fetch_status", status)
    monkeypatch.setattr(client, "fetch_analyzer_statuses", statuses)
    monkeypatch.setattr(client, "_incidents", none)
    assert (await client.fetch_overview(cast(Any, Settings()))).uncounted == ()
    assert answers == []
