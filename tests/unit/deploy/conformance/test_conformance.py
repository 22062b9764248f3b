"""A client is answered, and each thing that it does wrong is said in its own words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import Device
from hubbub.deploy.conformance import judge
from hubbub.deploy.conformance.default import beginning_now, default_draft
from hubbub.deploy.conformance.diagnosis import INNER, OUTER
from hubbub.deploy.conformance.judge import CHECKS, Observation
from hubbub.deploy.conformance.trial import FILE, Trial, trial
from hubbub.protos.enrollment.credentials import Credential
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Redemption, Submission
from hubbub.protos.refusals import Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import OPEN
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
    assert running.verdict.unseen == tuple(CHECKS)
    assert not running.verdict.is_good


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
    "something else": ("outer", "no key and context of this round", {"outer": lambda info: info + b"x"}),
    "another length": ("outer", "the envelope has", {"reports": (bytes(4),)}),
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
        "query 0 (theme): 000000ff is no report of krr with 3 symbols",
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
    assert {each.check for each in told} == set(CHECKS) - {"ticket", "proof", "enroll_again"}


async def test_a_task_that_cannot_be_tried_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one shuffler"):
        async with trial(replace(default_draft(), shufflers=2), tmp_path / "client", "127.0.0.1:0", print):
            pytest.fail("it runs")
