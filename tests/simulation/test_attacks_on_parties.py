"""The attacks of docs/explanation by parties and thieves of their keys, tried against one that released rounds.

Three rounds of enrolled people are released first. Then the analyzer, with its real identity, signs certificates that
leave rounds out; operator and thieves hand services, devices and `hubbub verify` tasks and successions of their own; a
thief of the disk reads the shuffler's files, and a neighbor on the machine its memory. Where somebody else's key would
be needed too, the same attack with that key is seen to succeed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import Terms
from hubbub.client import Device, Fleet, Reason, Refusal, SignatureError, TaskError
from hubbub.deploy.pki.authority import Authority
from hubbub.protos import codec
from hubbub.protos.enrollment.credentials import pseudonyms_of
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.identity.documents import SignedDocument, canonical
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.identity.keys import Identity, KeyRecord, Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.messages import RoundState
from hubbub.protos.records.release_chain import position_after, read_release
from hubbub.protos.sqlite_layout import add_checksums
from hubbub.protos.task.admission import ENROLLED, OPEN
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities, Task
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.v1 import submission_pb2
from hubbub.queries.questions.histogram import Histogram
from hubbub.service.sqlite.secure_delete import unpad
from hubbub.verification.certificate import Pins, VerificationError, verify
from hubbub.verification.history import read_histories
from support.attack_deployment import HOUR, MINIMUM, ROUNDS, Attacked, task_of
from support.certificates import counts
from support.cli import hubbub
from support.identity_thief import Usurper, successions_of
from support.krr_queries import krr_query
from support.man_in_the_middle import Change as Answered
from support.man_in_the_middle import between
from support.memory_reader import UNPRIVILEGED, spied
from support.patience import PATIENCE
from support.planted_secrets import found_in, in_key_files
from support.raw_device import Visitor, keys_ready
from support.restarted_service import (
    AT_MANY,
    AT_MINIMUM,
    PROGRAM,
    STORES,
    Change,
    all_started,
    grown,
    lost,
    made_cheap,
    start_anew,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

RELEASED = ROUNDS - 1
"""Rounds that are released; the last one stays open."""
PEOPLE = [f"planted-person-{number}-heliotrope" for number in range(8)]
THEME = krr_query(Histogram("theme", ("dark", "light")), 2**31)
NOBODY = 65534
"""An account that owns nothing."""
TWO_ROUNDS = 2.0
"""An ε that two rounds at the minimum keep, and three do not."""


def tasks(identities: Identities) -> tuple[Task, ...]:
    kiosks, budgeted = (
        task_of(name, admission, identities, (THEME,)) for name, admission in (("kiosks", ENROLLED), ("budgeted", OPEN))
    )
    return kiosks, replace(budgeted, privacy=replace(budgeted.privacy, epsilon_total=TWO_ROUNDS))


def who(number: int) -> list[str]:
    """Who takes part in a round: in each, half of those who are enrolled."""
    return PEOPLE[number % 2 :: 2]


@dataclass
class ReleasedRounds:
    """A deployment whose first rounds are over, their certificates, and what the shuffler's files told meanwhile."""

    running: Attacked
    certificates: list[bytes]
    taking_part: list[set[bytes]]
    """By round the devices that take part, as the files tell while it lasts."""
    secrets: set[bytes]
    """Pseudonyms, and what they are computed with, of the rounds that are over."""

    @property
    def task(self) -> Task:
        return self.running.task.task

    @property
    def pins(self) -> Pins:
        named = self.task.identities
        return Pins(named.operator, named.shuffler, named.analyzer)

    def content(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.certificates[number])["body"]
        return found

    def signed(self, content: Mapping[str, Any], signer: Identity | None = None) -> bytes:
        """A certificate of that content, signed by the analyzer's real identity or another one."""
        key = (signer or self.running.identity(Role.ANALYZER)).key
        return canonical(SignedDocument.make(CERTIFICATE, dict(content), key).as_json())


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that other accounts come as far as to: pytest's own would be in their way."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployment(folder: Path) -> AsyncIterator[ReleasedRounds]:
    programs = {role: (*PROGRAM, role.value) for role in STORES}
    async with Attacked(tasks, folder / "pipeline", programs=programs) as running:
        yield await released(running)


async def released(running: Attacked) -> ReleasedRounds:
    """Release the first rounds."""
    async with open_channel(running.shuffler, TLS(running.authority)) as channel:
        await keys_ready(channel, [each.task for each in running.tasks])
    deployment = ReleasedRounds(running, [], [], set())
    for number in range(RELEASED):
        await run_round(deployment, number)
    return deployment


async def run_round(deployment: ReleasedRounds, number: int) -> None:
    """Have half of the people answer a round, look at the shuffler's files, and have the round released and erased."""
    running = deployment.running
    people = Fleet(
        running.task.encode(),
        operator_key=running.operator_key,
        shuffler_key=running.shuffler_key,
        state=running.folder.of("client") / "people.db",
        shuffler=running.shuffler,
        authority=running.authority,
        tickets=running.ticket,
    )
    async with people:
        summary = await people.submit_many([(name, {"theme": "dark"}) for name in who(number)], number)
    assert summary.accepted == len(who(number)), summary.messages
    found = taking_part(running)
    deployment.taking_part.append({device for device, _ in found})
    deployment.secrets |= {secret for _, secrets in found for secret in secrets}
    await running.close(running.task.task, number)
    deployment.certificates.append((await running.results(number)).certificate)
    await running.erased(number)


# Who reads the shuffler's disk


def taking_part(running: Attacked) -> list[tuple[bytes, tuple[bytes, bytes]]]:
    """Each device that takes part in a round that lasts, as the files tell, its pseudonym, and what makes it."""
    with closing(sqlite3.connect(running.folder.of("shuffler") / "data" / "shuffler.db")) as connection:
        devices = connection.execute("SELECT device, number FROM ticket").fetchall()
        keys = [
            unpad(key)
            for (key,) in connection.execute("SELECT pseudonym_key FROM round WHERE pseudonym_key IS NOT NULL")
        ]
        held = b"".join(entries for (entries,) in connection.execute("SELECT entries FROM known"))
    pseudonyms = [(device, (pseudonyms_of(key).of(number), key)) for device, number in devices for key in keys]
    return [(device, secrets) for device, secrets in pseudonyms if secrets[0] in held]


async def test_the_shufflers_files_tell_who_takes_part_while_a_round_lasts_and_nothing_once_it_is_over(
    deployment: ReleasedRounds,
) -> None:
    running = deployment.running
    for number, told in enumerate(deployment.taking_part):
        assert told == {Ticket.decode(running.ticket(name)).device for name in who(number)}
    assert taking_part(running) == []
    files = running.files_of("shuffler", "analyzer")
    assert {"shuffler.db", "shuffler.log", "analyzer.db"} <= {path.name for path in files}
    assert len(deployment.secrets) > len(PEOPLE)
    wanted = deployment.secrets | {name.encode() for name in PEOPLE}
    assert {path: found for path, content in files.items() if (found := found_in(content, wanted))} == {}
    # The search finds a name where there is one: on the side of those whose names they are.
    assert any(found_in(content, wanted) for content in running.files_of("client").values())


# The analyzer, with its real identity


def without(deployment: ReleasedRounds, *left_out: int) -> dict[str, Any]:
    """The last certificate as if those places among the releases had not been; its numbers are recomputed."""
    content = deployment.content(RELEASED - 1)
    rounds = [entry for place, entry in enumerate(content["all_rounds"]["history"]) if place not in left_out]
    history = [counts(deployment.task, each["round"], each["queries"][0]["reports"]) for each in rounds]
    releases = [each for place, each in enumerate(content["releases"]) if place not in left_out]
    return {**content, **statement(Terms.of(deployment.task), history), "releases": releases}


def other_records(deployment: ReleasedRounds) -> dict[str, Any]:
    """The last certificate with the records of the first round, before which nothing was released."""
    return {**without(deployment, 0, 1), "batches": deployment.content(0)["batches"]}


def replaced(deployment: ReleasedRounds) -> dict[str, Any]:
    """The last certificate with the second release in the first one's place, too."""
    content = without(deployment)
    content["releases"][0] = content["releases"][1]
    return content


def enlarged(deployment: ReleasedRounds) -> dict[str, Any]:
    """The last certificate with more people in the first round, which costs everybody less."""
    content = deployment.content(RELEASED - 1)
    rounds = [(each["round"], each["queries"][0]["reports"]) for each in content["all_rounds"]["history"]]
    history = [counts(deployment.task, number, reports + 1000 * (not number)) for number, reports in rounds]
    content["releases"][0]["reports"] += 1000
    return {**content, **statement(Terms.of(deployment.task), history)}


LEFT_OUT: dict[str, tuple[Callable[[ReleasedRounds], dict[str, Any]], str]] = {
    "the first": (lambda deployment: without(deployment, 0), "2 rounds were released before it, but 1 are listed"),
    "the second": (lambda deployment: without(deployment, 1), "2 rounds were released before it, but 1 are listed"),
    "all": (lambda deployment: without(deployment, 0, 1), "2 rounds were released before it, but 0 are listed"),
    "from what is composed alone": (
        lambda deployment: {**without(deployment, 0), "releases": deployment.content(RELEASED - 1)["releases"]},
        r"it composes rounds \[1\], but the shuffler released \[0, 1\] before it",
    ),
    "by another in its place": (replaced, "are not those that the shuffler's batch records attest"),
    "by a larger one": (enlarged, "are not those that the shuffler's batch records attest"),
    "by the records of the first round": (other_records, "is of another task, round or query"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
async def test_a_certificate_of_the_analyzer_that_leaves_a_released_round_out_does_not_verify(
    deployment: ReleasedRounds, case: str
) -> None:
    make, says = LEFT_OUT[case]
    last = deployment.content(RELEASED - 1)
    # Signed anew it is what it was: what is refused is refused for what was changed.
    assert deployment.signed(without(deployment)) == deployment.signed(last) == deployment.certificates[-1]
    verify(deployment.certificates[-1], deployment.pins)
    content = make(deployment)
    if "releases" in content and len(content["releases"]) < len(last["releases"]):
        assert content["all_rounds"]["epsilon_upper"] < last["all_rounds"]["epsilon_upper"]
    with pytest.raises(VerificationError, match=says):
        verify(deployment.signed(content), deployment.pins)


async def test_a_round_that_is_left_out_with_the_shufflers_help_is_missed_by_who_has_its_certificate(
    deployment: ReleasedRounds, tmp_path: Path
) -> None:
    """With both identities such a certificate holds by itself; beside the others `hubbub verify DIR` names it."""
    content = without(deployment, 0)
    position = position_after(deployment.task.id, [read_release(each) for each in content["releases"]])
    (record,) = verify(deployment.certificates[-1], deployment.pins).records
    signed = replace(record, position=position).signed_by(deployment.running.identity(Role.SHUFFLER))
    forged = deployment.signed({**content, "batches": [signed.as_json()]})
    verify(forged, deployment.pins)
    kept, doctored = tmp_path / "kept", tmp_path / "doctored"
    for folder, last in ((kept, deployment.certificates[-1]), (doctored, forged)):
        folder.mkdir()
        for number, certificate in enumerate([*deployment.certificates[:-1], last]):
            (folder / f"{number}.json").write_bytes(certificate)
    (tmp_path / "left out.json").write_bytes(deployment.signed(without(deployment, 0)))
    assert read_histories([kept], deployment.pins).problems == ()
    history, alone = await asyncio.gather(
        *(asyncio.to_thread(hubbub, "verify", path) for path in (doctored, tmp_path / "left out.json"))
    )
    assert (history.status, alone.status) == (1, 1)
    assert "it is not of one history with" in history.err
    assert "2 rounds were released before it, but 1 are listed" in alone.err
    (kept / "1.json").unlink()
    (gap,) = read_histories([kept], deployment.pins).problems
    assert "its certificate is missing" in gap.text


# Files that are handed to services


def signed_by(deployment: ReleasedRounds, task: Task, *roles: Role) -> SignedTask:
    document = SignedTask(task)
    for role in roles:
        document = document.signed_by(deployment.running.identity(role))
    return document


def weaker(deployment: ReleasedRounds, **changes: Any) -> Task:
    """The task with less privacy: nearly no answer is hidden, or what else is given."""
    changes = changes or {"queries": (krr_query(Histogram("theme", ("dark", "light")), 1),)}
    return replace(deployment.task, name="weaker", **changes)


def weaker_tasks(deployment: ReleasedRounds) -> dict[str, tuple[bytes, str]]:
    """Tasks that protect less, as somebody may hand them out, and what each is refused with."""
    both = (Role.OPERATOR, Role.SHUFFLER)
    alone = signed_by(deployment, weaker(deployment, minimum_reports=2), Role.OPERATOR)
    forged = replace(alone, shuffler_signature=os.urandom(64))
    privacy = replace(deployment.task.privacy, epsilon=0.01)
    lower = deployment.running.task.encode().replace(b'"minimum_reports":3', b'"minimum_reports":2')
    assert lower != deployment.running.task.encode()
    return {
        "by the operator alone": (alone.encode(), "the shuffler has not signed"),
        "with a forged signature": (forged.encode(), "signature is not by"),
        "changed after it was signed": (lower, "signature is not by"),
        "above its cap": (signed_by(deployment, weaker(deployment), *both).encode(), "add up"),
        "with a promise that is not kept": (
            signed_by(deployment, weaker(deployment, privacy=privacy), *both).encode(),
            "is promised",
        ),
    }


async def test_no_service_and_no_device_takes_a_task_that_protects_less(
    deployment: ReleasedRounds, tmp_path: Path
) -> None:
    """One with another name that both signed is taken, so that it is for what they say that these are refused."""
    cases = weaker_tasks(deployment)
    sound = signed_by(deployment, replace(deployment.task, name="another"), Role.OPERATOR, Role.SHUFFLER).encode()
    files = {case: {"tasks/weaker.json": document} for case, (document, _) in cases.items()}
    said = await all_started(deployment.running, tmp_path / "shuffler", Role.SHUFFLER, files)
    unsigned = {case: files[case] for case in ("by the operator alone",)}
    said_too = await all_started(deployment.running, tmp_path / "analyzer", Role.ANALYZER, unsigned)
    for case, (document, says) in cases.items():
        assert re.search(says, said[case]), (case, said[case])
        assert re.search(says, said_too.get(case, says)), (case, said_too[case])
        # Whether a promise is kept takes the accountant, which devices do not have; the shuffler has refused it.
        if case != "with a promise that is not kept":
            with pytest.raises((SignatureError, TaskError), match=says):
                device(deployment, tmp_path, task=document)
    await device(deployment, tmp_path, task=sound).close()


def device(deployment: ReleasedRounds, folder: Path, **changes: Any) -> Device:
    """A device whose state is in that folder."""
    arguments: dict[str, Any] = {
        "task": deployment.running.task.encode(),
        "operator_key": deployment.running.operator_key,
        "shuffler_key": deployment.running.shuffler_key,
        "state": folder / "device.db",
        "shuffler": deployment.running.shuffler,
        "authority": deployment.running.authority,
        "ticket": deployment.running.ticket(PEOPLE[0]),
    }
    return Device(**{**arguments, **changes})


# Stores that somebody changed


LAST_OF = "DELETE FROM {0} WHERE position = (SELECT max(position) FROM {0}) AND task = (SELECT max(task) FROM {0})"
CHEAPER = "UPDATE ledger SET entry = replace(entry, '{}', '{}')"
FORGOTTEN: dict[str, tuple[Change, str]] = {
    "the last charge left off": (grown("ledger", LAST_OF.format("ledger")), "restore the newest copy of the store"),
    "a charge made smaller": (grown("ledger", CHEAPER.format(AT_MINIMUM, AT_MANY)), "ledger is invalid"),
    "the last release left off": (grown("chain", LAST_OF.format("chain")), "releases"),
    "the whole store lost": (lost, "--create-store"),
}


# tests/unit/shuffler/test_rounds_beyond_the_budget.py: `test_store_whose_ledger_was_changed_is_refused_at_the_start`.
@pytest.mark.exhaustive
async def test_no_service_starts_on_a_store_that_forgets_what_was_spent(
    deployment: ReleasedRounds, tmp_path: Path
) -> None:
    """Nor without one. A store whose charges go with its digests is started on in the next test."""
    for role, cases in ((Role.SHUFFLER, 4), (Role.ANALYZER, 1)):
        tried = dict(list(FORGOTTEN.items())[:cases])
        starts = [
            start_anew(deployment.running, tmp_path / f"{role.value} {case}", role, {}, change)
            for case, (change, _) in tried.items()
        ]
        for (case, (_, says)), said in zip(tried.items(), await asyncio.gather(*starts), strict=True):
            assert re.search(says, said), (role, case, said)


async def test_what_one_service_forgets_with_all_its_digests_the_other_remembers(deployment: ReleasedRounds) -> None:
    """The budget pays for two rounds. By its changed ledger the shuffler releases a third; the analyzer takes none."""
    running, task = deployment.running, deployment.running.named("budgeted").task
    async with open_channel(running.shuffler, TLS(running.authority)) as channel:
        for number in range(RELEASED):
            visitor = await Visitor.at(channel, task, number)
            assert [await visitor.send(visitor.sealed()) for _ in range(MINIMUM)] == [None] * MINIMUM
    await running.close(task, 0)
    await running.erased(0, task)
    await running.stop(Role.SHUFFLER)
    with closing(sqlite3.connect(running.folder.of("shuffler") / "data" / "shuffler.db")) as connection:
        add_checksums(connection)
        made_cheap(connection)
        connection.commit()
    await running.start(Role.SHUFFLER)
    await running.close(task, 1)
    await running.erased(1, task)
    await running.close(task, 2)
    while (status := await running.round_status(task, 2)).state is not RoundState.EXPIRED:
        assert status.state in (RoundState.CUT, RoundState.MIXED)
    assert "the analyzer refused it" in status.waiting_for


# Successions that somebody made up


# tests/unit/service/runtime/test_own_identities.py refuses them; devices and verifiers do so below.
@pytest.mark.exhaustive
async def test_no_service_starts_with_a_succession_that_somebody_made_up(
    deployment: ReleasedRounds, tmp_path: Path
) -> None:
    for role, cases in ((Role.SHUFFLER, 3), (Role.ANALYZER, 1)):
        made_up = dict(list(Usurper(deployment.running, role, Identity.generate()).made_up().items())[:cases])
        files = {case: successions_of(found) for case, (found, _) in made_up.items()}
        said = await all_started(deployment.running, tmp_path / role.value, role, files)
        assert {case: bool(re.search(says, said[case])) for case, (_, says) in made_up.items()} == dict.fromkeys(
            said, True
        )
    sound = Usurper(deployment.running, Role.ANALYZER, Identity.generate()).sound
    assert await start_anew(deployment.running, tmp_path / "sound", Role.SHUFFLER, successions_of([sound])) == ""


def usurped(usurper: Usurper, successions: Sequence[Succession]) -> Answered:
    """Give out keys of one's own for the shuffler's, with the successions by which they would be right."""

    def change(method: str, answer: bytes) -> bytes:
        if method != "GetRound":
            return answer
        task = usurper.running.task.task
        span = (int(time.time()) - HOUR, int(time.time()) + 5 * HOUR)
        record = KeyRecord(Role.SHUFFLER, task.id, ROUNDS - 1, task.suite, task.hpke.generate_key()[1], *span)
        keys = codec.read_key_set(submission_pb2.GetRoundResponse.FromString(answer).key_set)
        stated = tuple(each.encode() for each in successions)
        keys = replace(keys, shuffler=record.signed_by(usurper.new), successions=stated)
        return submission_pb2.GetRoundResponse(key_set=codec.write_key_set(keys)).SerializeToString()

    return change


async def test_no_device_seals_to_who_follows_by_a_succession_that_somebody_made_up(
    deployment: ReleasedRounds, tmp_path: Path
) -> None:
    """The thief has the TLS authority too, and stands between. With all three signatures it is sent the answer."""
    running, operator = deployment.running, deployment.running.folder.of("operator")
    usurper = Usurper(deployment.running, Role.SHUFFLER, Identity.generate())
    authority = Authority.load(operator / "authority.key", operator / "tls" / "authority.pem")
    cases = {**usurper.made_up(), "no succession": ([], "signature")}
    async with between(running.shuffler, TLS(running.authority), authority, tmp_path / "between") as thief:
        for case, (successions, says) in cases.items():
            thief.change = usurped(usurper, successions)
            (tmp_path / case).mkdir()
            async with device(deployment, tmp_path / case, shuffler=thief.address) as robbed:
                with pytest.raises(SignatureError, match=says):
                    await robbed.submit({"theme": "dark"}, ROUNDS - 1)
        assert set(thief.methods) == {"GetRound"}
        thief.change = usurped(usurper, [usurper.sound])
        async with device(deployment, tmp_path, shuffler=thief.address, ticket=running.ticket("robbed")) as robbed:
            with pytest.raises(Refusal) as caught:
                await robbed.submit({"theme": "dark"}, ROUNDS - 1)
        assert caught.value.reason is Reason.KEY_SET_DIFFERS
        assert "Submit" in thief.methods


async def test_no_certificate_verifies_by_a_succession_that_somebody_made_up(
    deployment: ReleasedRounds, tmp_path: Path
) -> None:
    usurper = Usurper(deployment.running, Role.ANALYZER, Identity.generate())
    content = deployment.content(RELEASED - 1)
    for case, (successions, says) in usurper.made_up().items():
        stated = {**content, "successions": [each.as_json() for each in successions]}
        with pytest.raises(VerificationError, match=says):
            verify(deployment.signed(stated, usurper.new), deployment.pins)
        with pytest.raises(VerificationError, match=says):
            verify(deployment.signed(content, usurper.new), deployment.pins, successions)
        assert case
    with pytest.raises(VerificationError, match="signature"):
        verify(deployment.signed(content, usurper.new), deployment.pins)
    sound = {**content, "successions": [usurper.sound.as_json()]}
    assert verify(deployment.signed(sound, usurper.new), deployment.pins).pinned


# Who shares the machine


def master_key(running: Attacked) -> bytes:
    """What the shuffler makes and checks credentials with."""
    with closing(sqlite3.connect(running.folder.of("shuffler") / "data" / "shuffler.db")) as connection:
        ((stored,),) = connection.execute("SELECT secret FROM master")
    return unpad(stored)


def processes(running: Attacked) -> Iterator[int]:
    """The services' processes, and those that they started."""
    waiting = [service.pid for service in running.services.values() if service.pid is not None]
    while waiting:
        yield (pid := waiting.pop())
        waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


KEEP = "from hubbub.service.processes.hardening import disable_core_dumps; disable_core_dumps()"
ALLOW = "import ctypes; ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)"
"""PR_SET_PTRACER: also where Yama would let a process be traced by nobody but its parent."""


def neighbor(secret: bytes, *steps: str) -> subprocess.Popen[bytes]:
    """A program of the same account that has a secret in memory."""
    lines = [*steps, f"secret = bytes.fromhex({secret.hex()!r})", "print(flush=True)", "input()"]
    command = [*UNPRIVILEGED, sys.executable, "-c", "\n".join(lines)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_no_neighbor_of_the_account_reads_the_memory_of_a_running_service(deployment: ReleasedRounds) -> None:
    """Without privileges on either side. The same spy reads a program that does not keep its memory in."""
    master, secret = master_key(deployment.running), os.urandom(16)
    services = list(processes(deployment.running))
    assert len(services) >= 3  # two services, and what opens envelopes
    async with asyncio.timeout(PATIENCE):
        # One that was started a moment ago may still be read, and holds nothing yet.
        while any(got := (await asyncio.to_thread(spied, master, services)).values()):
            assert not any("the secret" in each for each in got)
    for steps, readable in (((ALLOW,), {"memory", "the secret", "maps", "environ", "tracing"}), ((KEEP, ALLOW), set())):
        with neighbor(secret, *steps) as program:
            try:
                assert program.stdout is not None
                assert program.stdout.readline() == b"\n"
                (found,) = (await asyncio.to_thread(spied, secret, [program.pid])).values()
                assert set(found) >= readable
                assert bool(found) is bool(readable)
            finally:
                program.kill()


def readable(folder: Path, account: int) -> set[Path]:
    """The files that an account can read."""
    # By a program of its own: Python would fork this process for another account, where gRPC may abort.
    as_account = ("setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups")
    command = [*as_account, "find", str(folder), "-type", "f", "-readable"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return set(map(Path, done.stdout.splitlines()))


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become another account")
async def test_no_other_account_reads_a_file_that_holds_a_secret(deployment: ReleasedRounds, folder: Path) -> None:
    """Neither behind the parties' folders nor where somebody opened these: then the files' own modes hold."""
    running = deployment.running
    secrets = in_key_files(running.directory) | {master_key(running)}
    assert {path.name for path in readable(running.directory, NOBODY)} >= {"task.json"}
    copy = folder / "opened"
    shutil.copytree(running.directory, copy)
    for each in (copy, *copy.rglob("*")):
        if each.is_dir():
            each.chmod(0o755)
    for root, least in ((running.directory, 2), (copy, 12)):
        files = readable(root, NOBODY)
        assert len(files) >= least
        assert {path: found for path in files if (found := found_in(path.read_bytes(), secrets))} == {}
    assert len([path for path in readable(copy, os.geteuid()) if found_in(path.read_bytes(), secrets)]) >= 8
