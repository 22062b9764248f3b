"""Real services, real devices, bad ones too, and secrets planted everywhere.

One run is made without a umask and without a limit on core files. Searched for answers, submission ids, keys, envelopes
and what they hold, as text, hex and base64, are: the lines of both services at level debug and everything else they
print, arguments and environments of all processes, and what the operator is shown. Every file that holds any of it is
its owner's alone, and a service that crashes leaves no core file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_IMODE

import grpc
import pytest

from hubbub.client.state.rounds import Drawn
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.enrollment.credentials import Credential
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Redemption, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.service.sqlite.secure_delete import PAGE_BYTES
from support.cli import hubbub
from support.metrics_scrape import fetch
from support.patience import CALL_SECONDS, PATIENCE, pause
from support.planted_secrets import forms, found_in, in_key_files
from support.samples import FEW

pytestmark = pytest.mark.from_nothing

DEVICES = 20
ANSWERS = ("planted-answer-heliotrope", "planted-answer-vermilion")
DRAFT = Draft(
    "kiosks",
    Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator"),
    DEVICES,
    Privacy(epsilon=10.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW),
    (Histogram("theme", ANSWERS), Number("session", 0.0, 60.0, "minutes", optional=True)),
)
STORED = {
    "shuffler/data/shuffler.db": """
        SELECT private_key FROM round WHERE private_key IS NOT NULL
        UNION ALL SELECT pseudonym_key FROM round WHERE pseudonym_key IS NOT NULL UNION ALL SELECT secret FROM master
        UNION ALL SELECT device FROM ticket UNION ALL SELECT number FROM ticket
    """,
    "analyzer/data/analyzer.db": "SELECT private_key FROM private_key",
    "client/*.db": "SELECT secret, credential, key FROM enrollment",
}
"""What stores and state files hold of secrets; a new one is a line here."""


class Planted:
    """Every secret of a run."""

    def __init__(self) -> None:
        self.secrets: set[bytes] = {answer.encode() for answer in ANSWERS}

    def add(self, submission: Submission | None) -> None:
        if submission is not None:
            self.secrets |= {submission.id, submission.envelope[:16], submission.envelope[-16:]}

    def add_keys(self, folder: Path) -> None:
        """The private part of every key file of the parties."""
        self.secrets |= in_key_files(folder)


async def submit(pipeline: LocalPipeline, planted: Planted, number: int) -> None:
    name = f"planted-device-{number}"
    planted.secrets.add(name.encode())
    async with pipeline.device(name) as device:
        sealed = device._session.sealed

        def noting(sealer: Sealer, drawn: Drawn) -> Submission:
            submission = sealed(sealer, drawn)
            planted.add(submission)
            return submission

        device._session.sealed = noting  # type: ignore[method-assign]
        answer = ANSWERS[number % 2]
        await device.submit({"theme": answer, "session": None if number % 4 == 0 else 20.0})


async def misbehave(pipeline: LocalPipeline, planted: Planted) -> set[Reason]:
    """Send what is refused, in every way there is, and bytes that are no message; return the reasons."""
    reasons = set()
    size = len(await _an_envelope(pipeline))
    async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
        caller = SubmissionCaller(channel)
        keys = await caller.get_round(pipeline.task.task.id, 0, CALL_SECONDS)
        here = Destination(pipeline.task.task.id, 0, keys.hash)
        other = Destination(pipeline.task.task.id, 0, bytes(32))
        nowhere = Destination(os.urandom(32), 0, keys.hash)
        redemption = Redemption(pipeline.ticket("misbehaving"), os.urandom(32))
        (credential,) = await caller.enroll([redemption], CALL_SECONDS)
        assert isinstance(credential, Credential)
        device = Ticket.decode(redemption.ticket).device
        planted.secrets |= {redemption.device_key, device, credential.id, credential.key, credential.id[-16:]}
        await caller.submit_batch(here, [Submission(os.urandom(16), os.urandom(size))], CALL_SECONDS)
        for to, length in ((here, size), (here, 40), (other, size), (nowhere, size)):
            submission = Submission(os.urandom(16), os.urandom(length))
            planted.add(submission)
            for answer in await caller.submit_batch(to, [credential.proven(to, submission)], CALL_SECONDS):
                assert isinstance(answer, Refusal)
                reasons.add(answer.reason)
        for method in ("Submit", "SubmitBatch", "GetRound"):
            garbage = os.urandom(60)
            planted.secrets.add(garbage[:20])
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary(f"/hubbub.v1.SubmissionService/{method}")(garbage, timeout=CALL_SECONDS)
    return reasons


async def _an_envelope(pipeline: LocalPipeline) -> bytes:
    from hubbub.protos.sealing.envelope import outer_bytes

    return bytes(outer_bytes(pipeline.task.task.inner_bytes))


def log_everything(pipeline: LocalPipeline) -> None:
    for role in (Role.SHUFFLER, Role.ANALYZER):
        path = pipeline.folder.of(role.value) / f"{role.value}.toml"
        text = path.read_text()
        assert 'level = "info"' in text
        path.write_text(text.replace('level = "info"', 'level = "debug"').replace('"console"', '"json"'))
        (pipeline.logs / f"{role.value}.log").write_bytes(b"")


FAILING = """
from hubbub.analyzer import receiver
from hubbub.cli import main

def fail(job, *_):
    raise TypeError(f"nobody foresaw this, in query {job.query}")

receiver.open_batch = fail
main.main()
"""
"""An analyzer whose work with envelopes fails, a key and envelopes among its variables."""


@dataclass
class Told:
    """What a run left for others to see."""

    planted: Planted
    logs: bytes = b""
    processes: dict[str, bytes] = field(default_factory=dict)
    """What the system shows of each process: its arguments and its environment."""
    documents: dict[str, bytes] = field(default_factory=dict)
    """What the operator, a monitor and whoever reads certificates are shown."""
    modes: dict[Path, tuple[int, int]] = field(default_factory=dict)
    """The modes of each file that holds a secret, and of its folder."""
    limits: set[tuple[int, int]] = field(default_factory=set)
    cores: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("planted")
    told = Told(Planted())
    with _careless(folder):
        asyncio.run(_run(told, folder / "pipeline"))
    told.cores = [path.name for path in folder.iterdir() if path.name != "pipeline"]
    return told


@contextlib.contextmanager
def _careless(folder: Path) -> Iterator[None]:
    """Have every process that is started be one whose owner thinks of nothing: no umask, core files of any size."""
    umask, limit = os.umask(0), resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limit[1], limit[1]))
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.umask(umask)
        resource.setrlimit(resource.RLIMIT_CORE, limit)


async def _run(told: Told, folder: Path) -> None:
    planted = told.planted
    async with LocalPipeline(DRAFT, folder) as pipeline:
        for role in (Role.ANALYZER, Role.SHUFFLER):
            await pipeline.stop(role)
        log_everything(pipeline)
        for role in (Role.ANALYZER, Role.SHUFFLER):
            await pipeline.start(role)
        for number in range(DEVICES):
            await submit(pipeline, planted, number)
        reasons = await misbehave(pipeline, planted)
        assert reasons == {Reason.UNOPENABLE, Reason.WRONG_SIZE, Reason.KEY_SET_DIFFERS, Reason.UNKNOWN_TASK}
        add_stored_keys(pipeline, planted)
        look_at_files(pipeline, told)
        await look_at_documents(pipeline, told, "before", ("status",))
        # A failure that nobody foresaw, amid the analyzer's work with envelopes, and a shuffler that crashes.
        await pipeline.stop(Role.ANALYZER)
        whole = pipeline.services[Role.ANALYZER]._program
        pipeline.services[Role.ANALYZER]._program = (sys.executable, "-P", "-c", FAILING, Role.ANALYZER.value)
        await pipeline.start(Role.ANALYZER)
        await pipeline.close_round(0)
        await _until_logged(pipeline.logs / "shuffler.log", b"not delivered")
        look_at_processes(pipeline, told)
        await crash(pipeline, Role.SHUFFLER)
        await pipeline.start(Role.SHUFFLER)
        await crash(pipeline, Role.ANALYZER)
        pipeline.services[Role.ANALYZER]._program = whole
        await pipeline.start(Role.ANALYZER)
        told.documents["certificate"] = (await pipeline.results(0)).certificate
        await look_at_documents(pipeline, told, "after", ("status", "--json"), ("results", "--json"))
        look_at_files(pipeline, told)
    told.logs = b"".join(path.read_bytes() for path in sorted((folder / "logs").iterdir()))


def add_stored_keys(pipeline: LocalPipeline, planted: Planted) -> None:
    """Plant what was made by itself: identities, TLS keys, and the secrets that stores and state files hold."""
    planted.add_keys(pipeline.folder.root)
    for name, query in STORED.items():
        files = [pipeline.folder.root / name] if "*" not in name else list(pipeline.folder.root.glob(name))
        found = {bytes(value) for file in files for value in read(file, query)}
        assert found, query
        planted.secrets |= found


def read(file: Path, query: str) -> Iterator[bytes]:
    with closing(sqlite3.connect(file)) as connection:
        for row in connection.execute(query):
            yield from (value[PAGE_BYTES:] if len(value) > PAGE_BYTES else value for value in row)


def running(pipeline: LocalPipeline) -> Iterator[int]:
    """The services' processes, and those that they started."""
    waiting = [service.pid for service in pipeline.services.values() if service.pid is not None]
    assert len(waiting) == 2
    while waiting:
        yield (pid := waiting.pop())
        waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def look_at_processes(pipeline: LocalPipeline, told: Told) -> None:
    for pid in running(pipeline):
        place = Path(f"/proc/{pid}")
        told.limits.add(resource.prlimit(pid, resource.RLIMIT_CORE))
        shown = place / "environ"
        # Where memory is kept in, this too is shown to nobody but root.
        environment = shown.read_bytes() if os.access(shown, os.R_OK) else b""
        told.processes[f"{pid}"] = (place / "cmdline").read_bytes() + environment


async def crash(pipeline: LocalPipeline, role: Role) -> None:
    """Have a service and its workers die as of a fault in a library, with no limit on core files if that can be."""
    service = pipeline.services[role]
    (pid,) = [each for each in running(pipeline) if each == service.pid]
    with contextlib.suppress(PermissionError):  # it takes privileges to lift what the service has put down
        resource.prlimit(pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.kill(pid, signal.SIGABRT)
    assert "was ended by SIGABRT" in await service.ended()


def look_at_files(pipeline: LocalPipeline, told: Told) -> None:
    """Note the modes of every file that holds a secret, or is SQLite's."""
    planted = told.planted.secrets - {answer.encode() for answer in ANSWERS}  # which the task lists
    for path in pipeline.directory.rglob("*"):
        if path.is_file() and (".db" in path.name or found_in(path.read_bytes(), planted)):
            told.modes[path] = (S_IMODE(path.stat().st_mode), S_IMODE(path.parent.stat().st_mode))


async def look_at_documents(pipeline: LocalPipeline, told: Told, when: str, *commands: tuple[str, ...]) -> None:
    settings = pipeline.folder.of("operator") / "operator.toml"
    text = settings.read_text().replace("127.0.0.1:7302", pipeline.services[Role.SHUFFLER].addresses["control"])
    settings.write_text(text.replace("127.0.0.1:7402", pipeline.services[Role.ANALYZER].addresses["results"]))
    for words in commands:
        ran = await asyncio.to_thread(hubbub, words[0], settings, *words[1:])
        told.documents[f"{when}: {' '.join(words)}"] = (ran.out + ran.err).encode()
    for role in (Role.SHUFFLER, Role.ANALYZER):
        scraped = await asyncio.to_thread(fetch, pipeline.services[role].addresses["metrics"])
        told.documents[f"{when}: metrics of the {role.value}"] = scraped[1].encode()


async def _until_logged(path: Path, words: bytes) -> None:
    async with asyncio.timeout(PATIENCE):
        while words not in await asyncio.to_thread(path.read_bytes):
            await pause()


def test_no_log_holds_an_answer_a_key_or_a_submission(told: Told) -> None:
    assert len(told.planted.secrets) > 5 * DEVICES
    assert found_in(told.logs, told.planted.secrets) == []
    lines = [json.loads(line) for line in told.logs.splitlines()]
    events = {line["event"] for line in lines}
    assert {"serving", "round", "closed by the operator", "not delivered", "commit failed"} <= events
    (failed, *_) = [line for line in lines if line["event"] == "a call failed"]
    assert "Traceback" in failed["exception"]
    assert {line["level"] for line in lines} >= {"info", "warning", "error"}


def test_no_process_shows_a_secret_in_its_arguments_or_its_environment(told: Told) -> None:
    assert len(told.processes) >= 3  # two services, and what opens envelopes
    assert [pid for pid, shown in told.processes.items() if found_in(shown, told.planted.secrets)] == []
    assert any(b"shuffler.toml" in shown for shown in told.processes.values())


def test_nobody_is_shown_a_secret_by_status_results_metrics_or_a_certificate(told: Told) -> None:
    listed = {answer.encode() for answer in ANSWERS}  # as the task lists them, with their counts
    found = {name: found_in(shown, told.planted.secrets - listed) for name, shown in told.documents.items()}
    assert {name: secrets for name, secrets in found.items() if secrets} == {}
    assert all(found_in(told.documents["after: results --json"], [answer]) for answer in listed)
    assert b"hubbub_shuffler" in told.documents["after: metrics of the shuffler"]


def test_every_file_that_holds_a_secret_is_its_owners_alone_without_a_umask(told: Told) -> None:
    names = {path.name for path in told.modes}
    assert names >= {f"{party}.db{ending}" for party in ("shuffler", "analyzer") for ending in ("", "-wal", "-shm")}
    assert names >= {"identity.pem", "authority.key", "operator.key", "planted-device-0.db"}
    assert {path: modes for path, modes in told.modes.items() if modes != (0o600, 0o700)} == {}


def test_a_service_that_crashes_leaves_no_core_file(told: Told) -> None:
    assert told.limits == {(0, 0)}
    assert told.cores == []


def test_the_search_itself_finds_what_is_planted() -> None:
    secret = os.urandom(24)
    for form in forms(secret):
        assert found_in(b"a line with " + form + b" in it", [secret]) == [secret]
    assert found_in(b"a line", [secret]) == []
