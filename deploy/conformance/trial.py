"""Makes what a client under test needs, answers it on this machine, and says in the end what was right and wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hubbub.deploy.conformance.envelope_mistakes import RoundKeys
from hubbub.deploy.conformance.judge import CHECKS, Judge, Observation
from hubbub.deploy.conformance.logged_tasks import LOG_CHECKS, LoggedTasks, LogKeys, RefusedTask, logged_tasks
from hubbub.deploy.conformance.observed_port import CountingServer, ReportingRouter
from hubbub.deploy.new_folder import new_folder
from hubbub.deploy.pki.authority import Authority
from hubbub.planning.plan import plan
from hubbub.protos.enrollment.tickets import written_tickets
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeyRecord, KeySet, Role
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.schedule import DAY
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Draft, Identities, Task
from hubbub.protos.transport.channels import TLS
from hubbub.service.rpc import largest_submissions, serve_submissions, submission_router
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport.grpc_server import Connections, listen, new_server
from hubbub.service.transport.https_server import ConnectionLimits, HttpsServer

TICKETS = 100
"""Tickets that are made: as many devices a client may play."""

HOSTS = ("localhost", "127.0.0.1", "::1")
"""The names in the TLS certificate."""

FILE = "conformance.json"
"""The file that names all others, and the addresses."""

LOG = "log"
"""The folder of the transparency log that a task demands."""

REFUSED = "refused"
"""The folder of the tasks that a client must refuse: for each a folder, by the name of its check, with a file of its
own that names the others."""

REFUSAL_SECONDS = 30.0
"""Seconds after which a client that was given a task to refuse is ended; a refusal needs no call, and so no waiting."""

VARIABLE = "CONFORMANCE"
"""Variable of the environment with the path of that file, for a client that is started here."""


OF_ENROLLED, OF_FAULTS, OF_HOPS = ("ticket", "proof", "enroll_again"), ("again", "enroll_again"), ("hop",)
"""Checks of tasks that are enrolled, those that need first tries to be refused, and those of tasks with hops."""


@dataclass
class Verdict:
    """What was seen: how often each check was right, and the first problem of each that was wrong."""

    seen: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    problems: dict[str, str] = field(default_factory=dict)
    accepted: int = 0
    without_tls: int = 0
    """Connections by HTTPS that ended before TLS was agreed on."""
    expected: tuple[str, ...] = tuple(CHECKS)
    """The checks that a client comes to, by its task, and by whether first tries were refused."""

    def take(self, finding: Observation) -> None:
        """Count a finding. A check that not every client comes to is expected from then on."""
        if finding.check not in self.expected:
            self.expected = (*self.expected, finding.check)
        self.seen[finding.check] += 1
        if not finding.is_good:
            self.wrong[finding.check] += 1
            self.problems.setdefault(finding.check, finding.problem)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The checks that nothing was seen of; none is enough that was not looked at."""
        return tuple(check for check in self.expected if not self.seen[check])

    @property
    def is_good(self) -> bool:
        """Whether everything was seen, and nothing was wrong."""
        return not self.problems and not self.unseen

    def as_json(self) -> dict[str, Any]:
        """Return it as `hubbub conformance --json` prints it."""
        checks = [
            {
                "check": check,
                "what": CHECKS[check],
                "seen": self.seen[check],
                "wrong": self.wrong[check],
                "problem": self.problems.get(check),
            }
            for check in self.expected
        ]
        counts = {"accepted": self.accepted, "without_tls": self.without_tls}
        return {"conforms": self.is_good, **counts, "checks": checks}


@dataclass(frozen=True)
class Trial:
    """A trial that runs: where its files are, its addresses, and what has been seen so far."""

    folder: Path
    addresses: dict[str, str]
    verdict: Verdict
    refused: Sequence[RefusedTask] = ()
    take: Callable[[Observation], None] = field(default=print, repr=False)
    """Counts a finding, and tells it."""
    patience: float = REFUSAL_SECONDS
    """Seconds that a client has to end, for each task that it must refuse."""

    async def run(self, command: Sequence[str]) -> int:
        """Run a client with the variable that names the trial's file; return its exit status.

        It is run again for each task that it must refuse, with the file of that task; what it prints then is not shown,
        as a refusal is an error.

        Raises:
            UsageError: if it cannot be started.
        """
        status = await _run(command, self.folder / FILE)
        for each in self.refused:
            problem = await self._problem(command, each)
            # What names the task is a finding already, and says more.
            if not self.verdict.wrong[each.check]:
                self.take(Observation(each.check, problem))
        return status

    async def _problem(self, command: Sequence[str], refused: RefusedTask) -> str:
        """Run a client with a task that it must refuse; return what it did wrong, or nothing."""
        calls, file = self.verdict.seen["call"], self.folder / REFUSED / refused.check / FILE
        try:
            async with asyncio.timeout(self.patience):
                await _run(command, file, output=asyncio.subprocess.DEVNULL)
        except TimeoutError:
            return (
                f"it had not ended {self.patience:g} s after it was given task {refused.signed.task.name}: "
                f"{refused.fault}; end the program, so that one can see that it does nothing"
            )
        # A call may be so wrong that it names no task.
        if self.verdict.seen["call"] > calls:
            return f"it made a call, and must make none for task {refused.signed.task.name}: {refused.fault}"
        return ""


async def _run(command: Sequence[str], file: Path, output: int | None = None) -> int:
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=os.environ | {VARIABLE: str(file)}, stdout=output, stderr=output
        )
    except OSError as error:
        raise UsageError(
            f"{command[0]} cannot be started: {error.strerror}; give a command and its arguments"
        ) from error
    try:
        return await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


@contextlib.asynccontextmanager
async def trial(
    draft: Draft,
    folder: Path,
    address: str,
    say: Callable[[Observation], None],
    *,
    faults: bool = True,
    logged: bool = False,
) -> AsyncIterator[Trial]:
    """Write the files of a client under test into a new folder, and answer it until the block ends.

    The task has as many hops as the draft has shufflers behind the first one. If the draft demands a transparency log,
    or if it is `logged`, the task demands one that is made here. Then there are tasks that a client must refuse, too.
    If the files cannot be written, nothing of them is left.

    Raises:
        UsageError: if the task admits by certificates.
        TaskError: if the task cannot be planned.
        HubbubError: if the address cannot be used, or the folder is not empty.
        OSError: naming the folder, if the files cannot be written.
    """
    if draft.admission.mode is Mode.MTLS:
        raise UsageError("a client is tried with a task that is enrolled or open; change the draft")
    parties = {role: Identity.generate() for role in (Role.OPERATOR, Role.SHUFFLER, Role.ANALYZER)}
    hops = tuple(Identity.generate() for _ in range(draft.shufflers - 1))
    planned = await asyncio.to_thread(plan, draft)
    operator, shuffler, analyzer = (each.public for each in parties.values())
    task = planned.task(Identities(operator, shuffler, analyzer, tuple(hop.public for hop in hops)))
    left_out = set() if task.admission.mode is Mode.ENROLLED else set(OF_ENROLLED)
    # Those of a log are expected once a client is run: whoever does nothing has not refused yet.
    left_out |= (set() if faults else set(OF_FAULTS)) | (set() if hops else set(OF_HOPS)) | set(LOG_CHECKS)
    verdict = Verdict(expected=tuple(check for check in CHECKS if check not in left_out))

    def take(finding: Observation) -> None:
        verdict.take(finding)
        say(finding)

    async with contextlib.AsyncExitStack() as serving:
        with new_folder(folder):
            handed = _handed(folder, task, parties, LogKeys.like(draft.log) if draft.log or logged else None)
            task = handed.signed.task
            secrets, key_set = _round_keys(task, parties, hops)
            named = [parties[Role.OPERATOR].public]
            judge = Judge(task, key_set, secrets, named, take, faults=faults, refused=handed.refused)
            told = partial(ReportingRouter, judge.refused_call)
            router = submission_router(judge, RequestPipeline(), task.outer_bytes, told)
            tls = _tls(folder / "tls")
            https = CountingServer(router, ConnectionLimits(Connections()), tls, lambda: 0)
            addresses = await serving.enter_async_context(_served(judge, https, tls, address, task.outer_bytes))
            _write(folder, handed, parties, addresses)
        try:
            yield Trial(folder, addresses, verdict, handed.refused, take)
        finally:
            verdict.accepted, verdict.without_tls = judge.accepted, https.never_agreed


@dataclass(frozen=True)
class _Handed:
    """What a client is given: a task, the proof beside it if it demands a log, its tickets, and tasks to refuse."""

    signed: SignedTask
    log_proof: bytes | None
    tickets: list[bytes] = field(repr=False)
    refused: Sequence[RefusedTask]


def _handed(folder: Path, task: Task, parties: dict[Role, Identity], log: LogKeys | None) -> _Handed:
    signers, now = (parties[Role.OPERATOR], parties[Role.SHUFFLER]), int(time.time())
    if log is None:
        found = LoggedTasks(SignedTask(task).signed_by(signers[0]).signed_by(signers[1]), None, ())
    else:
        found = logged_tasks(folder / LOG, replace(task, log=log.policy), log, signers, now)
    if task.admission.mode is not Mode.ENROLLED:
        return _Handed(found.good, found.log_proof, [], found.refused)
    count = TICKETS + len(found.refused)
    tickets = written_tickets(count, task.identities.shuffler, now + 30 * DAY, signers[:1])
    pairs = zip(found.refused, tickets[TICKETS:], strict=True)
    return _Handed(found.good, found.log_proof, tickets[:TICKETS], [replace(each, ticket=one) for each, one in pairs])


def _round_keys(task: Task, parties: dict[Role, Identity], hops: Sequence[Identity]) -> tuple[RoundKeys, KeySet]:
    now = int(time.time())

    def made(role: Role, identity: Identity, behind: SignedDocument | None = None) -> tuple[bytes, SignedDocument]:
        secret, public = task.hpke.generate_key()
        validity = now - 60, task.schedule.ends(0) + DAY
        record = KeyRecord(role, task.id, 0, task.suite, public, *validity, behind)
        return secret, record.signed_by(identity)

    of_shuffler, first = made(Role.SHUFFLER, parties[Role.SHUFFLER])
    of_analyzer, behind = made(Role.ANALYZER, parties[Role.ANALYZER])
    of_hops = []
    # The last hop's record has the analyzer's inside, and each other one the next hop's.
    for identity in reversed(hops):
        secret, behind = made(Role.HOP, identity, behind)
        of_hops.append(secret)
    return RoundKeys(of_shuffler, of_analyzer, tuple(reversed(of_hops))), KeySet(first, behind)


def _tls(folder: Path) -> TLS:
    folder.mkdir(parents=True, mode=0o700)
    authority, certificate, key = folder / "authority.pem", folder / "shuffler.pem", folder / "shuffler.key"
    made = Authority.generate()
    made.save_certificate(authority)
    made.issue(Role.SHUFFLER, HOSTS, certificate, key)
    return TLS(authority, certificate, key)


@contextlib.asynccontextmanager
async def _served(
    judge: Judge, https: HttpsServer, tls: TLS, address: str, envelope_bytes: int
) -> AsyncIterator[dict[str, str]]:
    """Answer by HTTPS at that address, and by gRPC at a free port of the same host."""
    host = address.rpartition(":")[0]
    server = new_server(largest=largest_submissions(envelope_bytes))
    serve_submissions(server, judge, None, envelope_bytes)
    by_grpc = listen(server, f"{host}:0", tls.server(mutual=False))
    by_https = https.listen(address)
    https.serving = True
    await server.start()
    try:
        yield {"grpc": f"{host}:{by_grpc}", "https": f"{host}:{by_https}"}
    finally:
        await asyncio.gather(server.stop(None), https.close(None))


def _write(folder: Path, handed: _Handed, parties: dict[Role, Identity], addresses: dict[str, str]) -> None:
    common = {"authority": folder / "tls" / "authority.pem"}
    for role in (Role.OPERATOR, Role.SHUFFLER):
        common[f"{role}_key"] = folder / f"{role}.pub.pem"
        parties[role].save_public(common[f"{role}_key"])
    if handed.refused:
        common["refused"] = folder / REFUSED
    about = {name: str(path.absolute()) for name, path in common.items()}
    about |= {"https": f"https://{addresses['https']}", "grpc": addresses["grpc"]}
    _write_task(folder, about, handed.signed, handed.log_proof, handed.tickets)
    for each in handed.refused:
        (folder / REFUSED / each.check).mkdir(parents=True)
        tickets = [] if each.ticket is None else [each.ticket]
        _write_task(folder / REFUSED / each.check, about, each.signed, each.log_proof, tickets)


def _write_task(
    folder: Path, about: dict[str, str], signed: SignedTask, proof: bytes | None, tickets: Sequence[bytes]
) -> None:
    """Write a task and what goes with it into a folder, and the file that names all of it."""
    files = {"task": ("task.json", signed.encode())}
    if proof is not None:
        files["log_proof"] = "task.tlog-proof", proof
    if tickets:
        files |= {"ticket": ("ticket", tickets[0] + b"\n"), "tickets": ("tickets", b"\n".join(tickets) + b"\n")}
    for name, content in files.values():
        (folder / name).write_bytes(content)
    named = {member: str((folder / name).absolute()) for member, (name, _content) in files.items()}
    (folder / FILE).write_text(json.dumps(named | about, indent=1) + "\n", "utf-8")
