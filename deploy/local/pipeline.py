"""Runs a shuffler and an analyzer as processes on loopback, connected over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import grpc

from hubbub.analyzer import settings as analyzer_settings
from hubbub.analyzer.stores import factory as analyzer_stores
from hubbub.client import Device
from hubbub.deploy.init.folders import Folder, Placement, initialize
from hubbub.deploy.init.hops import Hops, change
from hubbub.deploy.local.ports import SETTINGS, kept_address
from hubbub.deploy.local.process import ServiceError, ServiceProcess
from hubbub.deploy.new_folder import check_new
from hubbub.deploy.pki.device_issuer import Issuer
from hubbub.planning.plan import plan
from hubbub.protos.enrollment.tickets import written_tickets
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.messages import RoundState, RoundStatus
from hubbub.protos.records.results import RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, ResultsCaller
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.schedule import DAY
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Draft, Identities, Task
from hubbub.protos.task.trusted_keys import identities_in
from hubbub.protos.transport.addresses import HTTPS
from hubbub.protos.transport.channels import MAXIMUM_RESULTS_BYTES, TLS, open_channel
from hubbub.service.runtime.tidying import noted_on
from hubbub.service.transport.health import is_serving
from hubbub.shuffler import settings as shuffler_settings
from hubbub.shuffler.hop.sqlite import HopSqliteStore as HopStore
from hubbub.shuffler.stores import factory as shuffler_stores

CALL_SECONDS = 30.0
"""Deadline of a control call."""

WAIT_SECONDS = 20.0
"""How long one call waits for results before it is repeated."""

TIMEOUT_SECONDS = 600.0
"""How long a round may stay in its state at both services before its results are given up; mixing takes less."""

MOST_ENROLLMENTS = 1_000_000
"""Tickets that the shuffler accepts in a second: effectively no limit."""

T = TypeVar("T")

Freeze = Callable[[Identities], Sequence[Task]]
"""Makes one or more tasks for services to run, for the parties with these identities."""


class LocalPipeline:
    """Shufflers and an analyzer for one task, as real processes on loopback, started and stopped with the context.

        async with LocalPipeline(draft) as pipeline:
            async with pipeline.device("kiosk") as device:
                await device.submit({"theme": "dark", "session": 12.5})
            ...
            await pipeline.close_round(0)
            results = await pipeline.results(0)

    Entering the context makes keys, certificates and stores, plans and signs the task, starts both services and waits
    until their health checks report SERVING. Leaving it, also by an error or Ctrl-C, drains and stops them. If this
    process ends without leaving it, by SIGTERM or SIGKILL, they notice, and drain and end by themselves. `directory`
    has `task.json`, `logs/` and a folder for each party. It must be new or empty; if none is given, a temporary one is
    made and removed at the end. It stays behind if the context is not left.

    Args:
        draft: the task, as a `Draft` or as TOML text; or a function that makes the frozen tasks, `task` first.
        directory: the folder for everything.
        programs: commands that replace `hubbub shuffler` or `hubbub analyzer`, with the same arguments.
        hops: the number of shufflers; those after the first one are called hop-2, hop-3 and on.
        behind_proxy: whether the shuffler's settings expect a proxy in front of it; none is started.
        https: whether devices submit over HTTPS; devices with certificates do not.
        database: a PostgreSQL database for the stores of the shuffler and the analyzer, in place of SQLite.
        workers: the setting `workers` of the shuffler; 0 is one process.

    Raises:
        TaskError: if the draft is not TOML or not a task; on entering, if the task cannot be planned.
        ServiceError: if a service does not start, or ends by itself.
    """

    task: SignedTask
    tasks: tuple[SignedTask, ...]
    folder: Folder
    directory: Path
    issuer: Issuer | None = None  # of the devices' certificates, if a task admits by them

    def __init__(
        self,
        draft: Draft | str | Freeze,
        directory: Path | None = None,
        *,
        programs: Mapping[Role, Sequence[str]] | None = None,
        hops: int = 1,
        behind_proxy: bool = False,
        https: bool = False,
        database: str = "",
        workers: int = 0,
    ) -> None:
        self._draft = read_draft(draft) if isinstance(draft, str) else draft
        self._given = directory
        self._programs = programs or {}
        self._hops = Hops(hops - 1)
        self._behind_proxy, self._https = behind_proxy, https
        self._database, self._workers = database, workers
        self._stack = contextlib.AsyncExitStack()
        self._tickets: dict[str, bytes] = {}

    async def __aenter__(self) -> LocalPipeline:
        """Start everything."""
        try:
            await self._start()
        except BaseException as error:
            # `__aexit__` is not called if entering fails: stop the started parts here.
            with noted_on(error):
                await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything, the shuffler first. What fails meanwhile never takes the place of the block's own error."""
        with noted_on(error):
            await self._stack.aclose()

    async def _start(self) -> None:
        self.directory = self._given or Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="hubbub-")))
        check_new(self.directory)
        # Before anything is made, so that a draft that cannot be planned leaves nothing behind.
        freeze = await asyncio.to_thread(self._freeze)
        self.logs.mkdir(parents=True, exist_ok=True)
        self.folder = initialize(self.directory / "parties", Placement(hops=self._hops))
        self._place_stores()
        await asyncio.to_thread(make_stores, self.folder, self._hops.names)
        self.tasks = self._signed(freeze)
        self.task = self.tasks[0]
        (self.directory / "task.json").write_bytes(self.task.encode())
        # The stack stops them in reverse order: the shuffler first, while the analyzer still answers it.
        chain = (*reversed(self._hops.names), Role.SHUFFLER)
        self.services = {party: self._service(party) for party in (Role.ANALYZER, *chain)}
        for party in self.services:
            for name in SETTINGS[Role(self._command(party))].values():
                self._set(party, name, kept_address())
        self._set(Role.SHUFFLER, "https_listen", kept_address() if self._https else "")
        self._set(Role.SHUFFLER, "https_oblivious", self._https)
        if any(each.task.admission.mode is Mode.MTLS for each in self.tasks):
            tls = self.folder.of(Role.SHUFFLER) / "tls"
            self.issuer = Issuer(self.folder.of("client") / "certificates", tls / "devices.pem")
            self._set(Role.SHUFFLER, "devices_listen", kept_address())
        # Thousands of made-up people enroll at once here, and nobody else can; the times of submissions are no secret.
        numbers = {"enrollments_per_second": MOST_ENROLLMENTS, "count_step": 1, "workers": self._workers}
        for name, number in numbers.items():
            self._set(Role.SHUFFLER, name, number)
        self._set(Role.SHUFFLER, "behind_proxy", self._behind_proxy)
        # The analyzer first: each sender needs the port of the next party.
        await self.start(Role.ANALYZER)
        following: str = Role.ANALYZER
        for party in chain:
            key = "analyzer" if party == Role.SHUFFLER else "next"
            self._set(party, key, self.services[following].addresses["delivery"])
            await self.start(party)
            following = party

    def _place_stores(self) -> None:
        """Write the places of the stores into the settings."""
        for role in (Role.SHUFFLER, Role.ANALYZER):
            self._set(role, "store", self._database)

    def _freeze(self) -> Freeze:
        if not isinstance(self._draft, Draft):
            return self._draft
        planned = plan(replace(self._draft, shufflers=1 + self._hops.count))
        return lambda identities: (planned.task(identities),)

    def _signed(self, freeze: Freeze) -> tuple[SignedTask, ...]:
        """Sign the tasks, and give them to all services."""
        operator, shuffler = (Identity.load(self.folder.identity(role)) for role in (Role.OPERATOR, Role.SHUFFLER))
        tasks = freeze(identities_in(self.folder.trust_of("operator")))
        signed = tuple(SignedTask(each).signed_by(operator).signed_by(shuffler) for each in tasks)
        for place, each in enumerate(signed):
            name = f"task-{place}.json" if place else "task.json"
            for party in (Role.SHUFFLER, Role.ANALYZER, *self._hops.names):
                (self.folder.of(party) / "tasks" / name).write_bytes(each.encode())
        return signed

    def _service(self, party: str) -> ServiceProcess:
        log, program = self.logs / f"{party}.log", self._programs.get(Role(self._command(party)), ())
        service = ServiceProcess(self._command(party), self._settings(party), log, program)
        self._stack.push_async_callback(service.stop)
        return service

    def _command(self, party: str) -> str:
        """Return the command that runs a party: all hops have one."""
        return Role.HOP.value if party in self._hops.names else party

    def _settings(self, party: str) -> Path:
        return self.folder.of(party) / f"{self._command(party)}.toml"

    def _set(self, party: str, key: str, value: str | int) -> None:
        change(self._settings(party), key, value)

    # Services

    async def start(self, party: str) -> None:
        """Start a service, or start it again on the ports it had, and wait until it is healthy."""
        service = self.services[party]
        await service.start()
        # A leader whose front ends answer devices has no port for devices.
        names = {name: key for name, key in SETTINGS[Role(self._command(party))].items() if name in service.addresses}
        names |= {name: f"{name}_listen" for name in ("devices", "https", "leader") if name in service.addresses}
        # The ports become part of the settings: after a restart, a service must be at the address that others know.
        for name, key in names.items():
            self._set(party, key, service.addresses[name])
        async with open_channel(service.addresses[next(iter(names))], self._health_tls(party)) as channel:
            if not await is_serving(channel, CALL_SECONDS):
                raise ServiceError(
                    f"the {party} started, but its health check does not report SERVING; logs: {self.logs}"
                )

    def _health_tls(self, party: str) -> TLS:
        return self.operator_tls if party == Role.SHUFFLER else self._tls("shuffler")

    async def stop(self, party: str) -> None:
        """Stop a service like its operator: it finishes its work, and ends."""
        await self.services[party].stop()

    async def kill(self, party: str) -> None:
        """Kill a service immediately, like a crash."""
        await self.services[party].kill()

    # The parties' sides

    @property
    def logs(self) -> Path:
        """The folder of the processes' logs."""
        return self.directory / "logs"

    @property
    def shuffler(self) -> str:
        """The address at which devices of the task submit."""
        port = "devices" if self.mode is Mode.MTLS else "https" if self._https else "submission"
        return (HTTPS if port == "https" else "") + self.services[Role.SHUFFLER].addresses[port]

    @property
    def mode(self) -> Mode:
        """How the task admits devices."""
        return self.task.task.admission.mode

    @property
    def authority(self) -> Path:
        """The file of the TLS authority's certificate."""
        return self.folder.of("client") / "tls" / "authority.pem"

    @property
    def operator_key(self) -> bytes:
        """The operator's public key (32 bytes)."""
        return self.task.task.identities.operator

    @property
    def shuffler_key(self) -> bytes:
        """The shuffler's public key (32 bytes)."""
        return self.task.task.identities.shuffler

    @property
    def operator_tls(self) -> TLS:
        """The operator's TLS files."""
        return self._tls("operator")

    def _tls(self, party: str) -> TLS:
        tls = self.folder.of(party) / "tls"
        return TLS(tls / "authority.pem", tls / f"{party}.pem", tls / f"{party}.key")

    def reader_settings(self) -> Path:
        """Write where the services listen now into the reader's settings, for those who may look; return the file."""
        folder = self.folder.of("reader")
        path = folder / "reader.toml"
        change(path, "shuffler_control", self.services[Role.SHUFFLER].addresses["control"])
        change(path, "analyzer_results", self.services[Role.ANALYZER].addresses["results"])
        change(path, "hops", [self.services[name].addresses["delivery"] for name in self._hops.names])
        return path

    def tickets(self, count: int) -> list[bytes]:
        """Make `count` tickets as the operator, valid for a year."""
        operator = Identity.load(self.folder.identity(Role.OPERATOR))
        expires = int(time.time()) + 365 * DAY
        return written_tickets(count, self.shuffler_key, expires, [operator])

    def ticket(self, name: str) -> bytes:
        """Return the ticket of the device with that name, made at the first call.

        A fleet accepts this method: `Fleet(…, tickets=pipeline.ticket)`.
        """
        if name not in self._tickets:
            (self._tickets[name],) = self.tickets(1)
        return self._tickets[name]

    def device(self, name: str = "device", log_proof: bytes | None = None) -> Device:
        """Return a device with its own state file; a second call with the same name returns the same device.

        `log_proof` is that of a task that demands a transparency log.

        It has what the task's admission requires: a ticket, a certificate, or nothing if the task is open.
        """
        certificate, key = (None, None) if self.issuer is None else self.issuer.files(name)
        return Device(
            self.task.encode(),
            operator_key=self.operator_key,
            shuffler_key=self.shuffler_key,
            state=self.folder.of("client") / f"{name}.db",
            shuffler=self.shuffler,
            authority=self.authority,
            log_proof=log_proof,
            ticket=self.ticket(name) if self.mode is Mode.ENROLLED else None,
            certificate=certificate,
            key=key,
        )

    async def close_round(self, round_number: int = 0) -> RoundStatus:
        """Cut a round now, as the operator.

        Raises:
            Refusal: if the round is under the minimum, or the task closes by schedule.
        """
        async with open_channel(self.services[Role.SHUFFLER].addresses["control"], self.operator_tls) as channel:
            call = ControlCaller(channel).close_round(self.task.task.id, round_number, CALL_SECONDS)
            return await self.guard(call)

    async def status(self) -> list[RoundStatus]:
        """Return the states of the task's rounds, as the operator."""
        async with open_channel(self.services[Role.SHUFFLER].addresses["control"], self.operator_tls) as channel:
            return await self.guard(ControlCaller(channel).get_status(self.task.task.id, CALL_SECONDS))

    async def results(self, round_number: int = 0, *, stalled_after: float = TIMEOUT_SECONDS) -> RoundResults:
        """Return a round's results, waiting for them as long as both services run and the round makes progress.

        Raises:
            Refusal: NO_RESULTS if the round expired, so that there will never be any.
            ServiceError: if a service ends, or the round's state has not changed at either service for `stalled_after`
                seconds, saying what each waits for.
        """
        address = self.services[Role.ANALYZER].addresses["results"]
        async with open_channel(address, self.operator_tls, largest=MAXIMUM_RESULTS_BYTES) as channel:
            return await self.guard(self._results(channel, round_number, stalled_after))

    async def _results(self, channel: grpc.aio.Channel, round_number: int, stalled_after: float) -> RoundResults:
        caller, loop = ResultsCaller(channel), asyncio.get_running_loop()
        seen, since = "", loop.time()
        while True:
            try:
                # At most the timeout: a longer call would hide that it is over.
                wait = min(WAIT_SECONDS, stalled_after)
                return await caller.get_results(self.task.task.id, round_number, wait, wait + CALL_SECONDS)
            except Refusal as refusal:
                # The analyzer cannot distinguish an expired round from a future one; the shuffler can.
                if refusal.reason is not Reason.NO_RESULTS:
                    raise
                expired = await self._expired(round_number)
                if expired is not None:
                    said = f"round {round_number} expired with {expired.submissions} submissions, under its minimum of "
                    raise Refusal(
                        Reason.NO_RESULTS,
                        f"{said}{expired.minimum_reports}, and will never have results; ask more devices",
                    ) from refusal
            except Unreachable:
                # The analyzer may be starting again. If its process ended by itself, `guard` stops this wait.
                await channel.channel_ready()
            if seen != (seen := await self._waits(caller, round_number)):
                since = loop.time()
            elif loop.time() - since >= stalled_after:
                raise ServiceError(
                    f"round {round_number} has not progressed for {stalled_after:g} s: {seen}; logs: {self.logs}"
                )

    async def _expired(self, round_number: int) -> RoundStatus | None:
        """Return the round's state at the shuffler if it has expired."""
        try:
            rounds = await self.status()
        except Unreachable:
            return None
        return next((each for each in rounds if (each.round, each.state) == (round_number, RoundState.EXPIRED)), None)

    async def _waits(self, caller: ResultsCaller, round_number: int) -> str:
        """Describe the step that a round waits for at each service."""
        said = []
        with contextlib.suppress(Unreachable):
            rounds = await self.status()
            said += [f"the shuffler waits for {each.waiting_for}" for each in rounds if each.round == round_number]
        with contextlib.suppress(Unreachable):
            statuses = await caller.get_statuses(self.task.task.id, CALL_SECONDS)
            of = [each for each in statuses if each.id.round == round_number]
            said += [f"the analyzer waits for {each.waiting_for}" for each in of]
        return "; ".join(said) or "neither service has begun the round"

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, which could otherwise wait forever for a service that has ended.

        Raises:
            ServiceError: if a service ends by itself meanwhile.
        """
        task = asyncio.ensure_future(work)
        watchers = {asyncio.ensure_future(service.ended()) for service in self.services.values() if service.pid}
        try:
            await asyncio.wait({task, *watchers}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ServiceError(next(watcher.result() for watcher in watchers if watcher.done()))
        finally:
            for pending in (task, *watchers):
                pending.cancel()
            await asyncio.gather(task, *watchers, return_exceptions=True)


def make_stores(folder: Folder, hops: Iterable[str]) -> None:
    """Make the store of each party, at the place in its settings.

    Raises:
        StoreError: if there is one already.
    """
    shuffler_stores.create_store(shuffler_settings.load(folder.of(Role.SHUFFLER) / "shuffler.toml"))
    analyzer_stores.create_store(analyzer_settings.load(folder.of(Role.ANALYZER) / "analyzer.toml"))
    for name in hops:
        HopStore.create(folder.of(name) / "data")
