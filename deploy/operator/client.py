"""Makes the calls of the operator's commands, each over its own channel."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hubbub.deploy.settings import OperatorSettings
from hubbub.protos.errors import CannotCall, Distrusted, HubbubError, Unreachable, UsageError
from hubbub.protos.messages import CredentialAction, CredentialStatus, IncidentReport, RoundState, RoundStatus
from hubbub.protos.records.results import AnalysisStage, AnalyzerRoundStatus, RoundId, RoundResults, is_id, is_task
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, HealthCaller, ResultsCaller
from hubbub.protos.rpc.enrollment import MOST_DEVICES
from hubbub.protos.rpc.health import PARTS, part_name
from hubbub.protos.sealing.envelope import FIRST_HOP
from hubbub.protos.task.schedule import at
from hubbub.protos.task.task import Task, hop_name
from hubbub.protos.transport.channels import MAXIMUM_RESULTS_BYTES, TLS, open_channel
from hubbub.protos.transport.proxies import way_to

CALL_SECONDS = 30.0
"""Deadline, in seconds, of a call that is answered immediately."""

HOP_SECONDS = 5.0
"""How long a hop may take for each answer, or a service that did not show its rounds for its incidents: the status is
shown without it."""

T = TypeVar("T")

LONGEST_WAIT = 50.0
"""Seconds that a single call waits for results; `--wait` repeats the call."""


async def list_results(settings: OperatorSettings) -> list[RoundId]:
    """Return every certified round of every task."""
    async with _analyzer(settings) as analyzer:
        return list(await analyzer.list_results(None, CALL_SECONDS))


async def fetch_results(settings: OperatorSettings, task_id: bytes, round_number: int, wait: float) -> RoundResults:
    """Return a round's results, waiting up to `wait` seconds (at most 50) for them."""
    async with _analyzer(settings) as analyzer:
        # The call's deadline is later than the service's own wait: "no results yet" arrives before it is given up.
        timeout = min(max(wait, 0.0), LONGEST_WAIT)
        return await analyzer.get_results(task_id, round_number, timeout, timeout + CALL_SECONDS)


async def fetch_certified(settings: OperatorSettings, task_id: bytes, wanted: Collection[int]) -> list[RoundResults]:
    """Return the results of the wanted rounds of a task that are certified."""
    async with _analyzer(settings) as analyzer:
        certified = [each.round for each in await analyzer.list_results(task_id, CALL_SECONDS) if each.round in wanted]
        return [await analyzer.get_results(task_id, number, 0, CALL_SECONDS) for number in sorted(certified)]


async def close_round(settings: OperatorSettings, task_id: bytes, round_number: int) -> RoundStatus:
    """Cut a round now."""
    return await call_leader(settings, lambda caller: caller.close_round(task_id, round_number, CALL_SECONDS))


async def manage_credentials(
    settings: OperatorSettings, step: CredentialAction, devices: Sequence[bytes]
) -> CredentialStatus:
    """Change the credentials that admit devices; return the state of enrollment. Many devices take several calls."""

    async def manage(caller: ControlCaller) -> CredentialStatus:
        for start in range(MOST_DEVICES, len(devices), MOST_DEVICES):
            await caller.manage_credentials(step, devices[start : start + MOST_DEVICES], CALL_SECONDS)
        return await caller.manage_credentials(step, devices[:MOST_DEVICES], CALL_SECONDS)

    return await call_leader(settings, manage)


async def round_to_close(settings: OperatorSettings, task: Task, wanted: int | None, now: float) -> int | RoundStatus:
    """Return the round to close: the wanted one, or the only one that is open at `now`.

    If it is closed already, its status is returned: the last one that is closed, if none is wanted and none is open.

    Raises:
        HubbubError: if none is open, and none is closed.
        UsageError: if several are open.
    """
    known = await call_leader(settings, lambda caller: caller.get_status(task.id, CALL_SECONDS))
    rounds = {each.round: each for each in known}
    closed = {number: each for number, each in rounds.items() if each.state is not RoundState.OPEN}
    if wanted is not None:
        return closed.get(wanted, wanted)  # the shuffler reports every other fault
    # Rounds are prepared before they open, and are OPEN at the shuffler from then on.
    taking = [number for number, each in rounds.items() if each.state is RoundState.OPEN and began(task, number, now)]
    if not taking and closed:
        return closed[max(closed)]
    if not taking:
        states = ", ".join(_state(task, each, now) for each in known)
        raise HubbubError(f"no round of {task.name} is open: {states or 'none has begun'}")
    if len(taking) > 1:
        listed = " and ".join(map(str, taking))
        raise UsageError(f"rounds {listed} of {task.name} are open; name one with --round")
    return taking[0]


def began(task: Task, number: int, now: float) -> bool:
    """Return whether a round takes, or took, submissions by the task's schedule."""
    return task.schedule.opens(number) <= now


def _state(task: Task, status: RoundStatus, now: float) -> str:
    if not began(task, status.round, now):
        return f"round {status.round} opens at {at(task.schedule.opens(status.round))}"
    return f"round {status.round} is {status.shown_state}"


async def fetch_status(settings: OperatorSettings) -> list[RoundStatus]:
    """Return the states of all rounds at the shuffler."""
    return await call_leader(settings, lambda caller: caller.get_status(None, CALL_SECONDS))


async def fetch_analyzer_statuses(settings: OperatorSettings) -> list[AnalyzerRoundStatus]:
    """Return the states of all rounds at the analyzer."""
    async with _analyzer(settings) as analyzer:
        return await analyzer.get_statuses(None, CALL_SECONDS)


@dataclass(frozen=True)
class Overview:
    """The states of rounds at both services; None for a service that did not answer, whose error is in `errors`."""

    shuffler: list[RoundStatus] | None
    analyzer: list[AnalyzerRoundStatus] | None
    errors: Mapping[str, str]
    incidents: Mapping[str, IncidentReport] = field(default_factory=dict)
    """The open incidents of each service that answered and whose version reports them."""
    hops: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The kinds of parts with incidents at each hop that answered; hops do not report batches and rounds."""

    @property
    def uncounted(self) -> tuple[RoundStatus, ...]:
        """The rounds of which the shuffler was told that they are counted, and which the analyzer has not counted.

        The two are asked here without a hop between them, so no hop can hide it.
        """
        there = {(each.id.task_id, each.id.round): each.progress for each in self.analyzer or ()}
        told = [each for each in self.shuffler or () if each.state in (RoundState.RELEASED, RoundState.ERASED)]
        return tuple(each for each in told if there.get((each.task_id, each.round), _COUNTED[0]) not in _COUNTED)

    @property
    def uncounted_words(self) -> tuple[str, ...]:
        """The same for people."""
        names = {each.id.task_id: each.id.task_name for each in self.analyzer or ()}
        return tuple(
            f"round {each.round} of task {names[each.task_id]}: the shuffler was told that it is counted, and the "
            "analyzer has not counted it; a hop passed nothing on, or the analyzer's store is an old copy"
            for each in self.uncounted
        )

    def of_task(self, task: str | None, seen: Collection[str] = ()) -> Overview:
        """Return the rounds of one task, by its name, or the first 8 digits of its id or more; all if `task` is None.

        `seen` are ids (hex) of such a task that were shown before: its name is known then, though nobody answers now.

        Raises:
            HubbubError: if no service that answered has a round of such a task, or its name is not known.
        """
        if task is None:
            return self
        # The shuffler's states have no names of tasks; the analyzer's have.
        analyzer = [each for each in self.analyzer or () if is_task(task, each.id.task_id, each.id.task_name)]
        known = {*seen, *(each.id.task_id.hex() for each in analyzer)}
        shuffler = [each for each in self.shuffler or () if each.task_id.hex() in known or is_task(task, each.task_id)]
        if not (shuffler or analyzer or known):
            raise HubbubError(self._no_round_of(task))
        # The rounds of a service that did not answer stay unknown.
        return replace(
            self,
            shuffler=None if self.shuffler is None else shuffler,
            analyzer=None if self.analyzer is None else analyzer,
        )

    def _no_round_of(self, task: str) -> str:
        remedy = "give the first 8 digits of the task's id or more, or leave out --task"
        if self.shuffler and "analyzer" in self.errors and not is_id(task):
            return (
                f"only the analyzer has the names of tasks, and it did not answer; {remedy}; {self.errors['analyzer']}"
            )
        if self._nameless() and not is_id(task):
            return (
                f"the analyzer knows no task named {task}, and the shuffler, which knows no names, has rounds of a "
                f"task that the analyzer does not know; it may lack its file. Add it there, or {remedy}"
            )
        answered = [name for name in ("shuffler", "analyzer") if name not in self.errors]
        who = f"the {answered[0]} shows no" if len(answered) == 1 else "neither service shows a"
        why = "; ".join(self.errors.values()) or "`hubbub status` without --task shows all rounds"
        return f"{who} round of task {task}; {why}"

    def _nameless(self) -> set[bytes]:
        """Return the ids of tasks that only the shuffler shows, although the analyzer answered."""
        if self.analyzer is None:
            return set()
        return {each.task_id for each in self.shuffler or ()} - {each.id.task_id for each in self.analyzer}


@contextlib.asynccontextmanager
async def _analyzer(settings: OperatorSettings) -> AsyncIterator[ResultsCaller]:
    """Call the analyzer; errors have its address."""
    address, tls = settings.analyzer_results, settings.tls.paths()
    called = f"the analyzer at {way_to(address, tls.proxy)}"
    with advising(called):
        async with open_channel(address, tls, largest=MAXIMUM_RESULTS_BYTES) as channel:
            yield ResultsCaller(channel, called)


@contextlib.contextmanager
def advising(called: str, *, check: bool = True) -> Iterator[None]:
    """Add who it is to the error of a service that answers others only, and what to check to that of a silent one.

    `called` is the service, with its address. Without `check`, nothing is added about silence.
    """
    try:
        yield
    except Refusal as refusal:
        if refusal.reason is not Reason.NOT_ALLOWED:
            raise
        # The service says "this port": the caller may have asked several.
        raise Refusal(refusal.reason, f"{called}: {refusal.message}", refusal.retry_after) from refusal
    except (CannotCall, Distrusted):
        raise  # the error has the remedy
    except Unreachable as error:
        if not check:
            raise
        raise Unreachable(f"{error}; check that it is running and that the address is right") from error


_COUNTED = (AnalysisStage.COUNTED, AnalysisStage.CERTIFIED)
"""States of a round at the analyzer once it is counted."""


async def fetch_overview(settings: OperatorSettings) -> Overview:
    """Get the states of rounds from both services, and the health of hops; silent ones are left out."""
    errors: dict[str, str] = {}

    async def asked(name: str, question: Coroutine[Any, Any, T]) -> T | None:
        try:
            return await question
        except HubbubError as error:
            errors[name] = str(error)
            return None

    shuffler, analyzer = await asyncio.gather(
        asked("shuffler", fetch_status(settings)),
        asked("analyzer", fetch_analyzer_statuses(settings)),
    )
    if shuffler and analyzer and Overview(shuffler, analyzer, {}).uncounted:
        # The analyzer may have answered before it counted what the shuffler reported: a later answer is the true one.
        analyzer = await asked("analyzer", fetch_analyzer_statuses(settings))
    places, tls = hops_of(settings), settings.tls.paths()
    parts = await asyncio.gather(*(asked(name, ask_hop(name, address, tls)) for name, address in places.items()))
    hops = {name: kinds for name, kinds in zip(places, parts, strict=True) if kinds is not None}
    return Overview(shuffler, analyzer, dict(sorted(errors.items())), await _incidents(settings, errors), hops)


async def ask_hop(name: str, address: str, tls: TLS) -> frozenset[str]:
    """Return which kinds of parts of a hop have incidents (`service.observability.incidents.IncidentKind`).

    Raises:
        HubbubError: if it does not serve, with the cause as far as the connection shows it.
    """
    called = f"{name} at {way_to(address, tls.proxy)}"
    with advising(called):
        async with open_channel(address, tls) as channel:
            caller = HealthCaller(channel, called)
            if not await caller.serves("", HOP_SECONDS):
                raise HubbubError(f"{called} answers, but takes no calls now: it starts or stops; ask again shortly")
            return frozenset([kind for kind in PARTS if not await caller.serves(part_name(kind), HOP_SECONDS)])


def hops_of(settings: OperatorSettings) -> dict[str, str]:
    """Return the ports of the hops that the operator may ask, by their names in the chain."""
    return {hop_name(FIRST_HOP + index): address for index, address in enumerate(settings.hops)}


async def _incidents(settings: OperatorSettings, failed: Collection[str]) -> dict[str, IncidentReport]:
    """Get the open incidents of each service that answers, also if it does not show its rounds (`failed`)."""

    async def of_leader(caller: ControlCaller) -> IncidentReport:
        # A standby reports its own incidents, but refuses this call, so that the leader is asked instead.
        await caller.get_status(None, CALL_SECONDS)
        return await caller.get_incidents(CALL_SECONDS)

    async def of_analyzer() -> IncidentReport:
        async with _analyzer(settings) as analyzer:
            return await analyzer.get_incidents(HOP_SECONDS if "analyzer" in failed else CALL_SECONDS)

    async def of_shufflers() -> IncidentReport:
        # No leader shows its rounds, for example because its database is away: whoever answers has the reason.
        asked = (_own_incidents(settings, address) for address in settings.shuffler_control.split(","))
        reports = [each for each in await asyncio.gather(*asked) if each is not None]
        if not reports:
            raise Unreachable("no shuffler answers")
        incidents = tuple(each for report in reports for each in report.incidents)
        return IncidentReport(incidents, sum(report.log_lines_lost for report in reports))

    of_rounds = of_shufflers if "shuffler" in failed else lambda: call_leader(settings, of_leader)
    found = {}
    for name, ask in {"shuffler": of_rounds, "analyzer": of_analyzer}.items():
        # The rounds, or the error, are known already: a service without this call is no failure.
        with contextlib.suppress(HubbubError):
            found[name] = await ask()
    return found


async def _own_incidents(settings: OperatorSettings, address: str) -> IncidentReport | None:
    """Return the incidents of the shuffler at an address, leader or standby; None if it does not answer."""
    try:
        async with open_channel(address, settings.tls.paths()) as channel:
            return await ControlCaller(channel).get_incidents(HOP_SECONDS)
    except HubbubError:
        return None


async def call_leader(settings: OperatorSettings, call: Callable[[ControlCaller], Awaitable[T]]) -> T:
    """Make a call at the shuffler's control port; if there are several, at each until the leader has answered.

    A standby refuses with NOT_READY, and does nothing. A call that a leader received may be repeated.

    Raises:
        Unreachable: if nobody answered, or only standbys; it names all called addresses.
        HubbubError: as the call itself.
    """
    addresses = settings.shuffler_control.split(",")
    said = []
    for address in addresses:
        called = f"the shuffler at {way_to(address, settings.tls.paths().proxy)}"
        try:
            with advising(called, check=len(addresses) == 1):
                async with open_channel(address, settings.tls.paths()) as channel:
                    return await call(ControlCaller(channel, called))
        except (Unreachable, Refusal) as error:
            if len(addresses) == 1 or (isinstance(error, Refusal) and error.reason is not Reason.NOT_READY):
                raise
            # A refusal is in the standby's own words.
            said.append(f"{address}: {error}" if isinstance(error, Refusal) else str(error))
    raise Unreachable("no leader of the rounds has answered: " + "; ".join(said))
