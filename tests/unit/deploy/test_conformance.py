"""A client is answered, and each thing that it does wrong is said in its own words."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import hashlib
import http.client
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import Device
from hubbub.deploy.conformance import judge
from hubbub.deploy.conformance import trial as trial_module
from hubbub.deploy.conformance.default_draft import beginning_now, default_draft
from hubbub.deploy.conformance.envelope_mistakes import INNER, OUTER, RoundKeys, why_hop
from hubbub.deploy.conformance.judge import CHECKS, Observation
from hubbub.deploy.conformance.logged_tasks import LOG_CHECKS
from hubbub.deploy.conformance.proof_mistakes import LABEL, RIGHT, why_proof
from hubbub.deploy.conformance.trial import FILE, Trial, trial
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.enrollment.credentials import Credential
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Redemption, Submission
from hubbub.protos.refusals import Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.sealing.suites import X25519
from hubbub.protos.task.admission import OPEN, AdmissionPolicy, Mode
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.protos.transport.channels import TLS, open_channel
from support.patience import CALL_SECONDS

ANSWER = {"theme": "dark", "session": 12.5}


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Trial]:
    async with trial(default_draft(), tmp_path / "client", "127.0.0.1:0", lambda _finding: None) as found:
        yield found


def about(found: Trial) -> dict[str, str]:
    content: dict[str, str] = json.loads((found.folder / FILE).read_text())
    return content


def content(found: Trial, name: str) -> bytes:
    return Path(about(found)[name]).read_bytes()


def device(found: Trial, folder: Path, by: str) -> Device:
    of = about(found)
    return Device(
        content(found, "task"),
        operator_key=content(found, "operator_key"),
        shuffler_key=content(found, "shuffler_key"),
        state=folder / "state.db",
        shuffler=of[by],
        authority=Path(of["authority"]),
        ticket=Path(of["ticket"]) if "ticket" in of else None,
    )


@pytest.mark.parametrize("by", ["https", "grpc"])
async def test_the_device_of_this_package_conforms(running: Trial, tmp_path: Path, by: str) -> None:
    async with device(running, tmp_path, by) as each:
        await each.submit(ANSWER, timeout=CALL_SECONDS)
    assert running.verdict.problems == {}
    assert running.verdict.unseen == ()
    assert running.verdict.is_good


async def test_what_was_not_seen_is_no_success(running: Trial) -> None:
    assert running.verdict.unseen == tuple(check for check in CHECKS if check not in {"hop", *LOG_CHECKS})
    assert not running.verdict.is_good


async def test_a_full_disk_is_named_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(trial_module, "_write", fail)
    with pytest.raises(OSError, match="No space left") as failed:
        async with trial(default_draft(), tmp_path / "client", "127.0.0.1:0", lambda _finding: None):
            raise AssertionError("nothing is tried")
    assert failed.value.filename == str(tmp_path / "client")
    assert await asyncio.to_thread(os.listdir, tmp_path) == []


@dataclass
class HandMade:
    """A client that does what a test says, by calls alone."""

    task: Task
    keys: KeySet
    caller: SubmissionCaller
    credential: Credential
    to: Destination

    def info(self, label: bytes, rest: bytes) -> bytes:
        return label + self.to.task_id + self.to.round.to_bytes(4, "big") + self.to.key_set_hash + rest

    def sealed(
        self,
        submission_id: bytes,
        outer: Callable[[bytes], bytes] = lambda info: info,
        inner: Callable[[bytes], bytes] = lambda info: info,
        reports: tuple[bytes, ...] = (bytes(4), bytes(4)),
        swapped: bool = False,
    ) -> Submission:
        """A submission whose contexts are changed; `swapped` seals to the other party's key."""
        suite = self.task.hpke
        shuffler, analyzer = (
            suite.public_key(bytes.fromhex(json.loads(each.body)["public_key"]))
            for each in (self.keys.shuffler, self.keys.analyzer)
        )
        if swapped:
            shuffler, analyzer = analyzer, shuffler
        inners = [
            suite.encrypt(report, analyzer, inner(self.info(INNER, place.to_bytes(4, "big"))))
            for place, report in enumerate(reports)
        ]
        envelope = suite.encrypt(b"".join(inners), shuffler, outer(self.info(OUTER, submission_id)))
        return Submission(submission_id, envelope)

    async def send(self, submission: Submission, to: Destination | None = None) -> Any:
        to = to or self.to
        (answer,) = await self.caller.submit_batch(to, [self.credential.proven(to, submission)], CALL_SECONDS)
        return answer


@pytest.fixture
async def by_hand(running: Trial) -> AsyncIterator[HandMade]:
    of = about(running)
    task = SignedTask.decode(content(running, "task")).task
    async with open_channel(of["grpc"], TLS(Path(of["authority"]))) as channel:
        caller = SubmissionCaller(channel)
        keys = await caller.get_round(task.id, 0, CALL_SECONDS)
        ticket = content(running, "ticket").strip()
        (credential,) = await caller.enroll([Redemption(ticket, bytes(32))], CALL_SECONDS)
        assert isinstance(credential, Credential)
        yield HandMade(task, keys, caller, credential, Destination(task.id, 0, keys.hash))


ID = bytes(range(16))
ROUND = 32 + len(OUTER)
WRONG: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an outer context without the id": ("outer", "id is missing", {"outer": lambda info: info[:-16]}),
    "the id in hex": ("outer", "in hex", {"outer": lambda info: info[:-16] + info[-16:].hex().encode()}),
    "no label": ("outer", "the label is missing", {"outer": lambda info: info[len(OUTER) :]}),
    "the other label": (
        "outer",
        "its label is 'hubbub/v1 analyzer'",
        {"outer": lambda info: INNER + info[len(OUTER) :]},
    ),
    "a round of eight bytes": (
        "outer",
        "the round has eight bytes",
        {"outer": lambda info: info[:ROUND] + bytes(4) + info[ROUND:]},
    ),
    "no context": ("outer", "without any info", {"outer": lambda _info: b""}),
    "the other's key": ("outer", "with the analyzer's key", {"swapped": True}),
    "something else": ("outer", "info is the label 'hubbub/v1 shuffler', the", {"outer": lambda info: info + b"x"}),
    "another length": ("outer", "reports (4 + 4), and 48 of each of 3 layers", {"reports": (bytes(4),)}),
    "an index in little-endian": (
        "inner",
        "query 1 (session): it opens, but the query's index is little-endian",
        {"inner": lambda info: info[:-4] + info[-4:][::-1]},
    ),
    "an index from 1": (
        "inner",
        "the index is 1, and this query has 0",
        {"inner": lambda info: info[:-1] + bytes([info[-1] + 1])},
    ),
    "no index": ("inner", "the query's index is missing", {"inner": lambda info: info[:-4]}),
    "no hash of the keys": ("inner", "hash of the key set is missing", {"inner": lambda info: info[:-36] + info[-4:]}),
    "a report that is none": (
        "report",
        "query 0 (theme): 000000ff is no report of krr with 3 symbols, which is a number of 4 bytes, big-endian",
        {"reports": (b"\0\0\0\xff", bytes(4))},
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_each_mistake_is_named(running: Trial, by_hand: HandMade, name: str) -> None:
    check, says, changed = WRONG[name]
    assert isinstance(await by_hand.send(by_hand.sealed(ID, **changed)), Refusal)
    assert says in running.verdict.problems[check]
    assert set(running.verdict.problems) == {check}


async def test_other_bytes_under_an_id_and_a_second_answer_are_named(running: Trial, by_hand: HandMade) -> None:
    first = by_hand.sealed(ID)
    await by_hand.send(first)
    await by_hand.send(by_hand.sealed(ID))
    assert "the id came with other bytes before" in running.verdict.problems["again"]
    await by_hand.send(first)
    await by_hand.send(by_hand.sealed(bytes(16)))
    assert "has sent another submission of this round" in running.verdict.problems["once"]


async def test_an_old_credential_after_not_enrolled_is_named(running: Trial, by_hand: HandMade) -> None:
    first = by_hand.sealed(ID)
    reasons = [(await by_hand.send(first)).reason for _ in range(4)]
    assert [*reasons[:3]] == list(judge.FAULTS)
    assert "redeem the ticket again first" in running.verdict.problems["enroll_again"]
    assert running.verdict.accepted == 0


async def test_another_device_key_a_foreign_ticket_and_a_wrong_proof_are_named(
    running: Trial, by_hand: HandMade
) -> None:
    ticket = content(running, "ticket")
    await by_hand.caller.enroll([Redemption(ticket.strip(), bytes([1]) * 32)], CALL_SECONDS)
    assert "another device_key than before" in running.verdict.problems["ticket"]
    credential = Credential(by_hand.credential.id, bytes(32))
    await replace(by_hand, credential=credential).send(by_hand.sealed(ID))
    assert "the proof is not that of this credential" in running.verdict.problems["proof"]
    (answer,) = await by_hand.caller.enroll([Redemption(ticket, bytes(32))], CALL_SECONDS)
    assert isinstance(answer, Refusal)


PROOF = LABEL + b"\0"


def digest(message: bytes, key: bytes, size: int = 16) -> bytes:
    return hashlib.blake2b(message, key=key, digest_size=size).digest()[:16]


PROOFS: dict[str, Callable[[bytes, bytes, Submission], bytes]] = {
    "the beginning of a digest of 64 bytes": lambda key, to, one: digest(PROOF + to + one.id + one.envelope, key, 64),
    "it has no key": lambda _key, to, one: digest(PROOF + to + one.id + one.envelope, b""),
    "no zero byte behind the label": lambda key, to, one: digest(LABEL + to + one.id + one.envelope, key),
    "the destination is missing": lambda key, _to, one: digest(PROOF + one.id + one.envelope, key),
    "the round is reversed": lambda key, to, one: digest(
        PROOF + to[:32] + to[35:31:-1] + to[36:] + one.id + one.envelope, key
    ),
    "the envelope is missing": lambda key, to, one: digest(PROOF + to + one.id, key),
    "the envelope is before the submission id": lambda key, to, one: digest(PROOF + to + one.envelope + one.id, key),
    "the proof has 8 bytes": lambda _key, _to, _one: bytes(8),
    "the proof is not that of this credential": lambda _key, _to, _one: bytes(16),
}


@pytest.mark.parametrize("says", PROOFS)
def test_each_mistake_in_a_proof_is_named(says: str) -> None:
    to, key = Destination(bytes(32), 7, bytes([1]) * 32), bytes([2]) * 32
    submission = Submission(ID, b"sealed", bytes(44))
    written = to.task_id + to.round.to_bytes(4, "big") + to.key_set_hash
    found = why_proof(key, to, replace(submission, proof=PROOFS[says](key, written, submission)))
    assert says in found
    assert found.endswith(RIGHT)


async def posted(of: dict[str, str], path: str, body: bytes, kind: str = "application/proto") -> int:
    """The status of a request that is made with nothing of hubbub; 0 if TLS is not agreed on."""
    host, port = of["https"].removeprefix("https://").split(":")
    trusted = ssl.create_default_context(cafile=of["authority"])

    def ask() -> int:
        calls = http.client.HTTPSConnection(host, int(port), timeout=CALL_SECONDS, context=trusted)
        with contextlib.closing(calls):
            calls.request("POST", path, body, {"Content-Type": kind})
            return calls.getresponse().status

    return await asyncio.to_thread(ask)


GET_ROUND = "/hubbub.v1.SubmissionService/GetRound"


@pytest.mark.parametrize(
    ("path", "body", "kind", "status", "says"),
    [
        ("/GetRound", b"", "application/proto", 404, "POST /GetRound is answered 404: this service has no such call"),
        (GET_ROUND, b"", "text/plain", 415, "content-type is neither application/proto nor application/json"),
        (GET_ROUND, b"\x07", "application/proto", 400, "GetRound is answered 400: "),
        (GET_ROUND, b'{"roundd": 1}', "application/json", 400, "GetRound is answered 400: the JSON is no"),
        (GET_ROUND, bytes(10_000), "application/proto", 400, "GetRound is answered 400: 10000 bytes"),
    ],
)
async def test_a_request_that_is_no_call_is_named(
    running: Trial, path: str, body: bytes, kind: str, status: int, says: str
) -> None:
    assert await posted(about(running), path, body, kind) == status
    assert says in running.verdict.problems["call"]
    assert running.verdict.wrong["call"] == 1


async def test_what_the_judge_refused_is_no_wrong_call(running: Trial, by_hand: HandMade) -> None:
    submission = by_hand.credential.proven(by_hand.to, by_hand.sealed(ID, reports=(bytes([0, 0, 0, 9]), bytes(4))))

    def text(content: bytes) -> str:
        return base64.b64encode(content).decode()

    message = {
        "destination": {"taskId": text(by_hand.to.task_id), "keySetHash": text(by_hand.to.key_set_hash)},
        "submission": {
            "id": text(submission.id),
            "envelope": text(submission.envelope),
            "credential": text(submission.credential),
            "proof": text(submission.proof),
        },
    }
    path = GET_ROUND.replace("GetRound", "Submit")
    assert await posted(about(running), path, json.dumps(message).encode(), "application/json") == 400
    assert set(running.verdict.problems) == {"report"}


async def test_connections_that_never_agree_on_tls_are_counted(tmp_path: Path) -> None:
    async with trial(default_draft(), tmp_path / "client", "127.0.0.1:0", lambda _finding: None) as found:
        of = about(found)
        other = tmp_path / "other.pem"
        Authority.generate().save_certificate(other)
        with pytest.raises(ssl.SSLCertVerificationError):
            await posted(of | {"authority": str(other)}, GET_ROUND, b"")
        assert await posted(of, "/GetRound", b"") == 404
    assert found.verdict.without_tls == 1
    assert found.verdict.as_json()["without_tls"] == 1


async def test_another_destination_and_another_round_s_keys_are_named(running: Trial, by_hand: HandMade) -> None:
    await by_hand.send(by_hand.sealed(ID), replace(by_hand.to, key_set_hash=bytes(32)))
    assert "key_set_hash is not that of these keys" in running.verdict.problems["destination"]
    for task_id, number, says in ((bytes(32), 0, "the task id is"), (by_hand.task.id, 1, "the round is 1")):
        running.verdict.problems.clear()
        with pytest.raises(Refusal):
            await by_hand.caller.get_round(task_id, number, CALL_SECONDS)
        assert says in running.verdict.problems["keys"]


async def test_an_open_task_needs_no_ticket(tmp_path: Path) -> None:
    told: list[Observation] = []
    draft = beginning_now(
        replace(default_draft(), admission=OPEN, privacy=replace(default_draft().privacy, honest_share=0.9))
    )
    async with trial(draft, tmp_path / "client", "127.0.0.1:0", told.append) as found:
        assert "ticket" not in about(found)
        async with device(found, tmp_path, "https") as each:
            await each.submit(ANSWER, timeout=CALL_SECONDS)
    assert found.verdict.is_good
    assert {each.check for each in told} == set(CHECKS) - {"ticket", "proof", "enroll_again", "hop", *LOG_CHECKS}


async def test_a_device_is_tried_with_a_chain(tmp_path: Path) -> None:
    draft = replace(default_draft(), shufflers=3)
    async with (
        trial(draft, tmp_path / "client", "127.0.0.1:0", print) as found,
        device(found, tmp_path, "https") as each,
    ):
        await each.submit(ANSWER, timeout=CALL_SECONDS)
    assert found.verdict.is_good
    # Two queries, each with a layer for each of two hops.
    assert (found.verdict.accepted, found.verdict.seen["hop"]) == (1, 4)


async def test_a_device_that_forgets_the_hops_is_told_so(tmp_path: Path) -> None:
    async with trial(replace(default_draft(), shufflers=2), tmp_path / "client", "127.0.0.1:0", print) as found:
        of = about(found)
        task = SignedTask.decode(content(found, "task")).task
        async with open_channel(of["grpc"], TLS(Path(of["authority"]))) as channel:
            to = Destination(task.id, 0, (await SubmissionCaller(channel).get_round(task.id, 0, CALL_SECONDS)).hash)
            submission = Submission(bytes(16), bytes(2 * 52 + 48))
            await SubmissionCaller(channel).submit_batch(to, [submission], CALL_SECONDS)
    assert "the envelope has 152 bytes, and this task's have 248" in found.verdict.problems["outer"]
    assert "48 of each of 5 layers" in found.verdict.problems["outer"]


HOPS = [X25519.generate_key() for _ in range(2)]
ROUND_KEYS = RoundKeys(X25519.generate_key()[0], X25519.generate_key()[0], tuple(private for private, _ in HOPS))
HERE = Destination(b"t" * 32, 258, b"k" * 32)
WHERE, SECOND, INDEX = HERE._encode(), (2).to_bytes(4, "big"), (1).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("info", "to", "says"),
    [
        (b"hubbub/v1 hop" + (1).to_bytes(4, "big") + WHERE + INDEX, 0, "the position is 1, and this hop is in"),
        (b"hubbub/v1 hop" + (3).to_bytes(4, "big") + WHERE + INDEX, 1, "layer of the hop in position 3, so the order"),
        (b"hubbub/v1 hop" + SECOND + WHERE + INDEX, 1, "it is sealed with the key of position 3"),
        (b"hubbub/v1 hop" + WHERE + INDEX, 0, "the position is missing"),
        (b"hubbub/v1 hop\2" + WHERE + INDEX, 0, "the position has one byte"),
        (b"hubbub/v1 hop" + SECOND[::-1] + WHERE + INDEX, 0, "the position is little-endian"),
        (b"hubbub/v1 hop" + WHERE + SECOND + INDEX, 0, "the position is behind the destination"),
        (b"hubbub/v1 hop" + SECOND + WHERE, 0, "the query's index is missing"),
        (b"hubbub/v1 hop" + SECOND + WHERE[:32] + WHERE[36:] + INDEX, 0, "the round is missing"),
        (INNER + WHERE + INDEX, 0, "its label is 'hubbub/v1 analyzer', not 'hubbub/v1 hop'"),
        (b"", 0, "without any info"),
        (b"else", 0, "no key and context of this round; info is the label 'hubbub/v1 hop', the position in 4 bytes"),
    ],
)
def test_each_mistake_in_a_hop_s_layer_is_named(info: bytes, to: int, says: str) -> None:
    sealed = X25519.encrypt(b"inner", X25519.public_key(HOPS[to][1]), info)
    assert says in why_hop(X25519, ROUND_KEYS, HERE, 1, 2, sealed)


async def test_a_task_that_cannot_be_tried_is_refused(tmp_path: Path) -> None:
    draft = replace(default_draft(), admission=AdmissionPolicy(Mode.MTLS))
    with pytest.raises(UsageError, match="enrolled or open"):
        async with trial(draft, tmp_path / "client", "127.0.0.1:0", print):
            pytest.fail("it runs")
