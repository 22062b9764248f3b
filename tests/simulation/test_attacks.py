"""The attacks of docs/explanation that somebody who can reach the ports can try, on real services, in one round.

Strangers, enrolled devices that cheat, whoever recorded what was on the wire, and parties at ports that are not theirs
all try, before, among and after twenty honest people. The round counts the twenty; every refusal has its reason, is
counted by it, and is explained in docs/reference/refusals.md; and once it is over, no file holds what it hung on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from hubbub.client import Retrying
from hubbub.client.encode import seal
from hubbub.client.session.rounds import VerifiedRoundKeys
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.enrollment.credentials import Credential
from hubbub.protos.enrollment.tickets import Ticket, new_tickets
from hubbub.protos.errors import EnvelopeError, Unreachable
from hubbub.protos.identity.keys import Identity, KeySet, Role
from hubbub.protos.merkle import NODE_BYTES, InclusionProof, leaf_hash
from hubbub.protos.messages import Answer, Committed, Receipt, Redemption, RoundState, RoundStatus, Submission
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import Release, ReleaseChunk, position_after
from hubbub.protos.records.results import RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, DeliveryCaller, ResultsCaller, SubmissionCaller
from hubbub.protos.sealing.envelope import Destination, InnerOpener, Sealer
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from hubbub.service.sqlite.secure_delete import PAGE_BYTES
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.patience import CALL_SECONDS, pause
from support.planted_secrets import found_in
from support.samples import FEW
from support.source_tree import ROOT

PEOPLE = 20
HOUR = 3600
DRAFT = Draft(
    "kiosks",
    Schedule(int(time.time()), length=HOUR, grace=HOUR, rounds=1, close="operator"),
    PEOPLE,
    Privacy(epsilon=10.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW),
    (Histogram("theme", ("dark", "light")),),
)
ROUND_KEYS = {"shuffler": "SELECT private_key FROM round", "analyzer": "SELECT private_key FROM private_key"}
ELSEWHERE = b"another task, of 32 bytes and no more"[:32]


@dataclass
class Seen:
    """What came of it all. Attacks by their names, as `SUBMITTING`, `REDEEMING` and the rest have them."""

    reasons: dict[str, Reason | None] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    """How many of the inner envelopes that the shuffler held could be opened with whose keys."""
    status: RoundStatus | None = None
    results: RoundResults | None = None
    committed: list[Committed] = field(default_factory=list)
    secrets: set[bytes] = field(default_factory=set)
    files: dict[str, bytes] = field(default_factory=dict)


class Attack:
    """A round under attack: who is enrolled, what they seal, and the calls."""

    def __init__(self, pipeline: LocalPipeline, caller: SubmissionCaller, keys: KeySet, seen: Seen) -> None:
        self.pipeline, self.caller, self.keys, self.seen = pipeline, caller, keys, seen
        self.task = pipeline.task.task
        self.here = Destination(self.task.id, 0, keys.hash)
        self.sealer: Sealer = VerifiedRoundKeys.read(keys, self.task, 0).sealer(time.time())

    def sealed(self) -> Submission:
        """A submission as honest devices make them."""
        (query,) = self.task.queries
        report = query.randomize(query.encode("dark", os.urandom), os.urandom)
        made = seal(self.sealer, [report], os.urandom(16))
        self.seen.secrets |= {made.id, made.envelope[:16], made.envelope[-16:]}
        return made

    async def redeem(self, name: str, ticket: bytes, secret: bytes) -> Credential | None:
        (answer,) = await self.caller.enroll([Redemption(ticket, secret)], CALL_SECONDS)
        self.seen.reasons[name] = answer.reason if isinstance(answer, Refusal) else None
        return answer if isinstance(answer, Credential) else None

    async def send(self, name: str, to: Destination, submission: Submission) -> None:
        (answer,) = await self.caller.submit_batch(to, [submission], CALL_SECONDS)
        self.seen.answers[name] = answer
        self.seen.reasons[name] = answer.reason if isinstance(answer, Refusal) else None
        if isinstance(answer, Refusal) and to.task_id == self.task.id:
            self.seen.refused[answer.reason.value] += 1


SUBMITTING = {
    "a stranger sends": Reason.NOT_ENROLLED,
    "a stranger shows somebody else's credential and proof": Reason.NOT_ENROLLED,
    "a stranger makes a credential up": Reason.NOT_ENROLLED,
    "a device sends twice": Reason.ID_CONFLICT,
    "a device is sent to another key set": Reason.KEY_SET_DIFFERS,
    "a device is sent to another task": Reason.UNKNOWN_TASK,
    "a device changes a bit of what it sealed": Reason.UNOPENABLE,
    "a device sends another length": Reason.WRONG_SIZE,
    "a device takes an envelope for its own under another id": Reason.UNOPENABLE,
}
REDEEMING = {
    "a ticket is copied": Reason.TICKET_REDEEMED,
    "a ticket is signed by a stranger": Reason.BAD_TICKET,
    "a ticket is for another shuffler": Reason.BAD_TICKET,
    "a ticket is changed": Reason.BAD_TICKET,
    "a ticket is made of another one of its list": Reason.BAD_TICKET,
    "a ticket is moved in its list": Reason.BAD_TICKET,
    "a ticket is shown in a smaller list": Reason.BAD_TICKET,
}
AT_PORTS = {
    "a device closes the round": None,
    "the analyzer closes the round": Reason.NOT_ALLOWED,
    "the shuffler closes the round": Reason.NOT_ALLOWED,
    "the operator closes the round under its minimum": Reason.BELOW_MINIMUM,
    "a device delivers": None,
    "the operator delivers": Reason.NOT_ALLOWED,
    "a device reads results": None,
    "the shuffler reads results": Reason.NOT_ALLOWED,
}
"""None where the connection itself fails: who has no certificate of the authority does not get as far as a refusal."""
DELIVERING = {
    "a record is signed by the operator": Reason.BAD_RECORD,
    "a record is under the minimum": Reason.BELOW_MINIMUM,
    "a record is of another key set": Reason.KEY_SET_DIFFERS,
    "the round is delivered again with another list": Reason.FORKED,
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    seen = Seen()
    asyncio.run(asyncio.wait_for(_play(seen, tmp_path_factory.mktemp("attacks") / "pipeline"), 240))
    return seen


async def _play(seen: Seen, folder: Path) -> None:
    async with LocalPipeline(DRAFT, folder) as pipeline:
        async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
            caller = SubmissionCaller(channel)
            keys = await Retrying().retry(partial(caller.get_round, pipeline.task.task.id, 0))
            attack = Attack(pipeline, caller, keys, seen)
            await at_ports(attack)
            people = await enrolled(attack)
            _keep_keys(pipeline, seen)
            await deliver_falsely(attack)
            await submit_falsely(attack, people)
        seen.status = await pipeline.close_round()
        seen.results = await pipeline.results()
        await deliver_again(attack)
        await _erased(pipeline)
    seen.files = files_of_services(folder)


def files_of_services(folder: Path) -> dict[str, bytes]:
    """The content of all files of both stores."""
    return {path.name: path.read_bytes() for path in folder.rglob("*.db*") if "client" not in path.parts}


async def enrolled(attack: Attack) -> list[Credential]:
    """Enroll twenty honest people and one who cheats; try to redeem what is no ticket of theirs."""
    tickets = attack.pipeline.tickets(PEOPLE + 1)
    people = [await attack.redeem(f"person {number}", each, os.urandom(32)) for number, each in enumerate(tickets)]
    stranger, operator = Identity.generate(), Identity.load(attack.pipeline.folder.identity(Role.OPERATOR))
    expires = int(time.time()) + HOUR
    (forged,) = new_tickets(1, attack.pipeline.shuffler_key, expires, [stranger])
    (elsewhere,) = new_tickets(1, stranger.public, expires, [operator])
    first, second = (Ticket.decode(each) for each in tickets[:2])
    changed = replace(first, device=os.urandom(16)).encode()
    beside, last = new_tickets(2, attack.pipeline.shuffler_key, expires, [operator])
    # All that a device of the same list knows of another one whose number it has: its own ticket has the other's hash.
    place = InclusionProof(1 - beside.inclusion.index, 2, leaf_hash(beside.body))
    guessed = replace(beside, device=last.device, inclusion=place)
    node = replace(first, inclusion=InclusionProof(0, 2, first.inclusion.path[:NODE_BYTES]))
    await attack.redeem("a ticket is copied", tickets[0], os.urandom(32))
    await attack.redeem("a ticket is signed by a stranger", forged.encode(), os.urandom(32))
    await attack.redeem("a ticket is for another shuffler", elsewhere.encode(), os.urandom(32))
    await attack.redeem("a ticket is changed", changed, os.urandom(32))
    await attack.redeem("a ticket is made of another one of its list", guessed.encode(), os.urandom(32))
    await attack.redeem("a ticket is moved in its list", replace(first, inclusion=second.inclusion).encode(), bytes(32))
    await attack.redeem("a ticket is shown in a smaller list", node.encode(), os.urandom(32))
    return [each for each in people if each is not None]


async def submit_falsely(attack: Attack, people: Sequence[Credential]) -> None:
    *honest, cheat = people
    here, proven = attack.here, [each.proven(attack.here, attack.sealed()) for each in honest]
    first = proven[0]
    for number, each in enumerate(proven):
        await attack.send(f"honest {number}", here, each)
    await attack.send("a stranger sends", here, attack.sealed())
    stolen = replace(attack.sealed(), credential=first.credential, proof=first.proof)
    await attack.send("a stranger shows somebody else's credential and proof", here, stolen)
    made_up = Credential(os.urandom(len(first.credential)), os.urandom(32)).proven(here, attack.sealed())
    await attack.send("a stranger makes a credential up", here, made_up)
    await attack.send("what was recorded is sent again", here, first)
    await attack.send("a device sends twice", here, honest[0].proven(here, attack.sealed()))
    other = Destination(here.task_id, 0, bytes(32))
    await attack.send("a device is sent to another key set", other, cheat.proven(other, attack.sealed()))
    nowhere = Destination(ELSEWHERE, 0, here.key_set_hash)
    await attack.send("a device is sent to another task", nowhere, cheat.proven(nowhere, attack.sealed()))
    made = attack.sealed()
    flipped = replace(made, envelope=made.envelope[:-1] + bytes([made.envelope[-1] ^ 1]))
    await attack.send("a device changes a bit of what it sealed", here, cheat.proven(here, flipped))
    longer = replace(made, envelope=made.envelope + b"\0")
    await attack.send("a device sends another length", here, cheat.proven(here, longer))
    taken = Submission(os.urandom(16), proven[1].envelope)
    await attack.send("a device takes an envelope for its own under another id", here, cheat.proven(here, taken))
    _open_as_shuffler(attack)


def _keep_keys(pipeline: LocalPipeline, seen: Seen) -> None:
    """Note the secrets that the round hangs on, as both stores hold them."""
    for party, query in (
        *ROUND_KEYS.items(),
        ("shuffler", "SELECT pseudonym_key FROM round WHERE pseudonym_key IS NOT NULL"),
    ):
        with closing(sqlite3.connect(stored(pipeline, party))) as connection:
            found = {key[PAGE_BYTES:] for (key,) in connection.execute(query)}
        assert found
        seen.secrets |= found


def stored(pipeline: LocalPipeline, party: str) -> Path:
    return pipeline.folder.of(party) / "data" / f"{party}.db"


def _open_as_shuffler(attack: Attack) -> None:
    """Try the round keys of both services on all inner envelopes that the shuffler's store holds."""
    with closing(sqlite3.connect(stored(attack.pipeline, "shuffler"))) as connection:
        held = b"".join(inners for (inners,) in connection.execute("SELECT inners FROM arrived"))
    (width,) = attack.task.inner_bytes
    envelopes = [held[start : start + width] for start in range(0, len(held), width)]
    assert len(envelopes) == PEOPLE
    for party, query in ROUND_KEYS.items():
        with closing(sqlite3.connect(stored(attack.pipeline, party))) as connection:
            ((key,),) = connection.execute(query)
        opener = InnerOpener(attack.here, key[PAGE_BYTES:], 0)
        for envelope in envelopes:
            with contextlib.suppress(EnvelopeError):
                opener.open(envelope)
                attack.seen.opened[party] += 1


async def at_ports(attack: Attack) -> None:
    """Knock at every port with every certificate, before anybody has submitted."""
    pipeline, task = attack.pipeline, attack.task
    addresses = pipeline.services[Role.SHUFFLER].addresses | pipeline.services[Role.ANALYZER].addresses
    calls: dict[str, tuple[str, Callable[..., Awaitable[object]]]] = {
        "closes the round": ("control", lambda channel: ControlCaller(channel).close_round(task.id, 0, CALL_SECONDS)),
        "delivers": ("delivery", lambda channel: DeliveryCaller(channel).get_key(task.id, 0, CALL_SECONDS)),
        "reads results": ("results", lambda channel: ResultsCaller(channel).list_results(task.id, CALL_SECONDS)),
    }
    for name in AT_PORTS:
        _the, party, what = name.removesuffix(" under its minimum").split(" ", 2)
        tls = TLS(pipeline.authority) if party == "device" else pipeline._tls(party)
        port, knock = calls[what]
        async with open_channel(addresses[port], tls) as channel:
            attack.seen.reasons[name] = await reason_of(knock(channel))


async def reason_of(call: Awaitable[object]) -> Reason | None:
    try:
        answer = await call
    except Refusal as refusal:
        return refusal.reason
    except Unreachable:
        return None
    raise AssertionError(f"it was answered: {answer!r}")


async def deliver_falsely(attack: Attack) -> None:
    """Announce batches to the analyzer over the shuffler's own connection, as somebody who took its host might."""
    shuffler, operator = (
        Identity.load(attack.pipeline.folder.identity(role)) for role in (Role.SHUFFLER, Role.OPERATOR)
    )
    record = BatchRecord(
        *(BatchId(attack.task.id, 0, 0), PEOPLE, bytes(32), attack.keys.hash, "operator"),
        admission="enrolled",
        position=position_after(attack.task.id, []),
    )
    await _announce(attack, "a record is signed by the operator", record, operator)
    await _announce(attack, "a record is under the minimum", replace(record, reports=PEOPLE - 1), shuffler)
    await _announce(attack, "a record is of another key set", replace(record, key_set_hash=bytes(32)), shuffler)


async def deliver_again(attack: Attack) -> None:
    """Deliver a round that is over once more: another list, and the same."""
    assert attack.seen.results is not None
    shuffler = Identity.load(attack.pipeline.folder.identity(Role.SHUFFLER))
    content = verify(attack.seen.results.certificate, Pins()).records[0]
    other = replace(content, digest=released_digest([b"another list"]))
    await _announce(attack, "the round is delivered again with another list", other, shuffler)
    address = attack.pipeline.services[Role.ANALYZER].addresses["delivery"]
    async with open_channel(address, attack.pipeline._tls("shuffler")) as channel:
        for _ in range(2):
            attack.seen.committed.append(
                await DeliveryCaller(channel).commit(content.batch, content.digest, CALL_SECONDS)
            )


async def _announce(attack: Attack, name: str, record: BatchRecord, signer: Identity) -> None:
    address = attack.pipeline.services[Role.ANALYZER].addresses["delivery"]
    async with open_channel(address, attack.pipeline._tls("shuffler")) as channel:
        signed = record.signed_by(signer)
        released = ReleaseChunk(0, (Release.signed(0, record.reports, record.dummies, [signed]),))
        call = DeliveryCaller(channel).begin(signed, attack.keys, released, CALL_SECONDS)
        attack.seen.reasons[name] = await reason_of(call)


async def _erased(pipeline: LocalPipeline) -> None:
    while (await pipeline.status())[0].state is not RoundState.ERASED:
        await pause()


ATTACKS = SUBMITTING | REDEEMING | AT_PORTS | DELIVERING


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_is_refused_with_its_reason(seen: Seen, name: str) -> None:
    assert seen.reasons[name] is ATTACKS[name]


def test_what_was_recorded_and_sent_again_is_the_same_submission(seen: Seen) -> None:
    again, first = seen.answers["what was recorded is sent again"], seen.answers["honest 0"]
    assert isinstance(again, Receipt)
    assert again == first


def test_the_round_counts_the_honest_people_and_nobody_else(seen: Seen) -> None:
    assert seen.status is not None
    assert seen.results is not None
    assert seen.status.submissions == PEOPLE
    assert [query.valid for query in seen.results.queries] == [PEOPLE]


def test_every_refusal_is_counted_by_its_reason_and_attested(seen: Seen) -> None:
    assert seen.status is not None
    assert seen.results is not None
    refused = {name: count for name, count in seen.status.refusals.items() if count and name != "retried"}
    assert refused == seen.refused
    assert seen.refused.total() == len(SUBMITTING) - 1  # of a task that is not known no round can count
    (record,) = verify(seen.results.certificate, Pins()).records
    assert record.refusals == seen.refused


def test_every_reason_is_explained_to_the_operator() -> None:
    explained = set(re.findall(r"^## (\w+)$", (ROOT / "docs" / "reference" / "refusals.md").read_text(), re.M))
    assert {reason.value for reason in ATTACKS.values() if reason is not None} <= explained


def test_a_batch_that_is_committed_again_is_answered_the_same_and_counts_once(seen: Seen) -> None:
    assert seen.committed == [Committed(PEOPLE, {})] * 2


def test_the_shuffler_opens_no_report_with_all_that_it_holds(seen: Seen) -> None:
    assert seen.opened == {"analyzer": PEOPLE}


def test_the_certificate_holds_and_no_changed_bit_of_it_does(seen: Seen) -> None:
    assert seen.results is not None
    certificate = seen.results.certificate
    assert verify(certificate, Pins()).records[0].reports == PEOPLE
    for place in range(0, len(certificate), 97):
        changed = bytearray(certificate)
        changed[place] ^= 1 << (place % 8)
        with pytest.raises(VerificationError):
            verify(bytes(changed), Pins())


def test_once_a_round_is_over_no_file_of_a_service_holds_its_keys_ids_or_envelopes(seen: Seen) -> None:
    assert {"shuffler.db", "analyzer.db"} <= set(seen.files)
    assert len(seen.secrets) > 3 * PEOPLE
    assert {name: found for name, content in seen.files.items() if (found := found_in(content, seen.secrets))} == {}
