"""Makes what a client under test needs, answers it on this machine, and says in the end what was right and wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hubbub.deploy.conformance.envelope_mistakes import RoundKeys
from hubbub.deploy.conformance.judge import CHECKS, Judge, Observation
from hubbub.deploy.conformance.observed_port import CountingServer, ReportingRouter
from hubbub.deploy.new_folder import new_folder
from hubbub.deploy.pki.authority import Authority
from hubbub.planning.plan import plan
from hubbub.protos.enrollment.tickets import written_tickets
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeyRecord, KeySet, Role
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Draft, Identities
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
        """Count a finding."""
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

    async def run(self, command: Sequence[str]) -> int:
        """Run a client with the variable that names the trial's file; return its exit status.

        Raises:
            UsageError: if it cannot be started.
        """
        environment = os.environ | {VARIABLE: str(self.folder / FILE)}
        try:
            process = await asyncio.create_subprocess_exec(*command, env=environment)
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
    draft: Draft, folder: Path, address: str, say: Callable[[Observation], None], *, faults: bool = True
) -> AsyncIterator[Trial]:
    """Write the files of a client under test into a new folder, and answer it until the block ends.

    The task has as many hops as the draft has shufflers behind the first one. If the files cannot be written, nothing
    of them is left.

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
    signed = SignedTask(task).signed_by(parties[Role.OPERATOR]).signed_by(parties[Role.SHUFFLER])
    secrets, key_set = _round_keys(signed, parties, hops)
    left_out = set() if task.admission.mode is Mode.ENROLLED else set(OF_ENROLLED)
    left_out |= (set() if faults else set(OF_FAULTS)) | (set() if hops else set(OF_HOPS))
    verdict = Verdict(expected=tuple(check for check in CHECKS if check not in left_out))

    def take(finding: Observation) -> None:
        verdict.take(finding)
        say(finding)

    judge = Judge(task, key_set, secrets, [parties[Role.OPERATOR].public], take, faults=faults)
    router = submission_router(judge, RequestPipeline(), task.outer_bytes, partial(ReportingRouter, judge.refused_call))
    async with contextlib.AsyncExitStack() as serving:
        with new_folder(folder):
            tls = _tls(folder / "tls")
            https = CountingServer(router, ConnectionLimits(Connections()), tls, lambda: 0)
            addresses = await serving.enter_async_context(_served(judge, https, tls, address, task.outer_bytes))
            _write(folder, signed, parties, addresses)
        try:
            yield Trial(folder, addresses, verdict)
        finally:
            verdict.accepted, verdict.without_tls = judge.accepted, https.never_agreed


def _round_keys(
    signed: SignedTask, parties: dict[Role, Identity], hops: Sequence[Identity]
) -> tuple[RoundKeys, KeySet]:
    task, now = signed.task, int(time.time())

    def made(role: Role, identity: Identity, behind: SignedDocument | None = None) -> tuple[bytes, SignedDocument]:
        secret, public = task.hpke.generate_key()
        validity = now - 60, task.schedule.ends(0) + 86_400
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


def _write(folder: Path, signed: SignedTask, parties: dict[Role, Identity], addresses: dict[str, str]) -> None:
    task, files = signed.task, {"task": "task.json", "authority": "tls/authority.pem"}
    (folder / files["task"]).write_bytes(signed.encode())
    for role in (Role.OPERATOR, Role.SHUFFLER):
        files[f"{role}_key"] = f"{role}.pub.pem"
        parties[role].save_public(folder / files[f"{role}_key"])
    if task.admission.mode is Mode.ENROLLED:
        expires = int(time.time()) + 30 * 86_400
        tickets = written_tickets(TICKETS, task.identities.shuffler, expires, [parties[Role.OPERATOR]])
        files |= {"ticket": "ticket", "tickets": "tickets"}
        (folder / files["ticket"]).write_bytes(tickets[0] + b"\n")
        (folder / files["tickets"]).write_bytes(b"\n".join(tickets) + b"\n")
    about = {name: str((folder / path).absolute()) for name, path in files.items()}
    about |= {"https": f"https://{addresses['https']}", "grpc": addresses["grpc"]}
    (folder / FILE).write_text(json.dumps(about, indent=1) + "\n", "utf-8")
