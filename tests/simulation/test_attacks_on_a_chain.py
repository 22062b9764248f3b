"""The attacks of docs/explanation by shufflers of a chain, tried against one that runs: two shufflers and an analyzer.

The attackers have their parties' real identities and TLS certificates. An honest round goes through between.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio

from hubbub.client import Reason, Refusal
from hubbub.protos.identity.documents import SignedDocument, canonical
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.identity.keys import Identity, KeySet, Role
from hubbub.protos.messages import Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord, released_digest
from hubbub.protos.records.release_chain import Release, ReleaseChunk, position_after
from hubbub.protos.rpc import DeliveryCaller, SubmissionCaller
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.task import Identities, Task
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import Pins, VerificationError, Verified, verify
from support.attack_deployment import MINIMUM, Attacked, task_of
from support.krr_queries import krr_query
from support.patience import CALL_SECONDS
from support.raw_device import Visitor, keys_ready

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOP = "hop-2"
THEME = krr_query(Histogram("theme", ("dark", "light")), 2**31)


def tasks(identities: Identities) -> tuple[Task, ...]:
    return (task_of("kiosks", OPEN, identities, (THEME,)),)


@dataclass
class AttackedChain:
    """A chain that released round 0, with its certificate, and why lies about that round were refused before."""

    running: Attacked
    refused: dict[str, Reason]
    certificate: bytes
    verified: Verified

    @property
    def hop_record(self) -> HopRecord:
        """What the hop said of the round that was released."""
        return HopRecord.read(
            SignedDocument.from_json(self.verified.content["batches"][0]), hop_of(self.running).public
        )

    def signed(self, **changes: Any) -> bytes:
        """The certificate with other content, signed by the analyzer's real identity."""
        content = {**self.verified.content, **changes}
        key = self.running.identity(Role.ANALYZER).key
        return canonical(SignedDocument.make(CERTIFICATE, content, key).as_json())


def hop_of(running: Attacked) -> Identity:
    return Identity.load(running.folder.of(HOP) / "identity.pem")


@dataclass(frozen=True)
class Made:
    """A batch that was made up: the shuffler's record of it, and what the hop would say around that."""

    keys: KeySet
    releases: ReleaseChunk
    first: SignedDocument
    hop: HopRecord


def made_up(running: Attacked, keys: KeySet, number: int, envelopes: list[bytes], before: tuple[Release, ...]) -> Made:
    task, digest = running.task.task, released_digest(envelopes)
    record = BatchRecord(
        *(BatchId(task.id, number, 0), len(envelopes), digest, keys.hash, "operator"),
        admission="open",
        position=position_after(task.id, before),
    )
    first = record.signed_by(running.identity(Role.SHUFFLER))
    released = ReleaseChunk(0, (*before, Release.signed(number, record.reports, 0, [first])))
    return Made(keys, released, first, HopRecord(2, first, record.reports, {}, digest))


LIES: dict[str, tuple[str, Callable[[Attacked, Made], SignedDocument]]] = {
    "the shuffler passes the hop by": ("shuffler", lambda _running, made: made.first),
    "the hop delivers what it did not sign": (HOP, lambda _running, made: made.first),
    "the shuffler speaks for the hop": (
        "shuffler",
        lambda running, made: made.hop.signed_by(running.identity(Role.SHUFFLER)),
    ),
    "a stranger speaks for the hop": (HOP, lambda _running, made: made.hop.signed_by(Identity.generate())),
    "the hop drops one in silence": (
        HOP,
        lambda running, made: replace(made.hop, received=made.hop.received - 1).signed_by(hop_of(running)),
    ),
    "the hop takes another position": (
        HOP,
        lambda running, made: replace(made.hop, position=3).signed_by(hop_of(running)),
    ),
    "the hop speaks for the shuffler": (
        HOP,
        lambda running, made: replace(made.hop, previous=SignedDocument(made.first.body, os.urandom(64))).signed_by(
            hop_of(running)
        ),
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attacked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AttackedChain]:
    async with Attacked(tasks, tmp_path_factory.mktemp("chain") / "pipeline", hops=2) as running:
        task, refused = running.task.task, {}
        async with open_channel(running.shuffler, TLS(running.authority)) as channel:
            await keys_ready(channel, [task])
            keys = await SubmissionCaller(channel).get_round(task.id, 0, CALL_SECONDS)
            made = made_up(running, keys, 0, [os.urandom(99)] * MINIMUM, ())
            for name, (party, lie) in LIES.items():
                refused[name] = await announced(running, party, Role.ANALYZER, made, lie(running, made))
            strange = BatchRecord.read(made.first, running.shuffler_key).signed_by(running.identity(Role.OPERATOR))
            refused["a stranger speaks to the hop"] = await announced(running, "shuffler", HOP, made, strange)
            visitor = await Visitor.at(channel, task)
            assert [await visitor.send(visitor.sealed()) for _ in range(MINIMUM)] == [None] * MINIMUM
        await running.close_round()
        certificate = (await running.results()).certificate
        yield AttackedChain(running, refused, certificate, verify(certificate, pins(running)))


def pins(running: Attacked) -> Pins:
    named = running.task.task.identities
    return Pins(named.operator, named.shuffler, named.analyzer, named.hops)


async def announced(running: Attacked, party: str, to: str, made: Made, record: SignedDocument) -> Reason:
    """Announce a batch with a party's own TLS certificate; return why it was refused."""
    async with open_channel(running.services[to].addresses["delivery"], running._tls(party)) as channel:
        with pytest.raises(Refusal) as caught:
            await DeliveryCaller(channel).begin(record, made.keys, made.releases, CALL_SECONDS)
    return caught.value.reason


async def test_no_lie_about_a_chain_gets_past_the_next_of_it_and_the_honest_round_is_certified(
    attacked: AttackedChain,
) -> None:
    assert set(attacked.refused.values()) == {Reason.BAD_RECORD}
    assert len(attacked.refused) == len(LIES) + 1
    (record,) = attacked.verified.records
    assert [(hop.position, hop.received, hop.released) for hop in record.hops] == [(2, MINIMUM, MINIMUM)]


async def test_no_certificate_of_the_analyzer_leaves_a_hop_out_or_speaks_for_it(attacked: AttackedChain) -> None:
    """Signed anew as it is, the certificate is the same."""
    assert attacked.signed() == attacked.certificate
    said = attacked.hop_record
    analyzer = attacked.running.identity(Role.ANALYZER)
    for record in (
        said.previous,
        said.signed_by(analyzer),
        replace(said, digest=os.urandom(32)).signed_by(analyzer),
        replace(said, previous=said.signed_by(hop_of(attacked.running))).signed_by(hop_of(attacked.running)),
    ):
        with pytest.raises(VerificationError):
            verify(attacked.signed(batches=[record.as_json()]), pins(attacked.running))
    stranger = replace(pins(attacked.running), hops=(Identity.generate().public,))
    with pytest.raises(VerificationError, match=r"hops are .*not .*as pinned by --hop-key"):
        verify(attacked.certificate, stranger)


async def test_a_hop_that_delivers_other_bytes_than_it_signed_is_refused(attacked: AttackedChain) -> None:
    running, task = attacked.running, attacked.running.task.task
    async with open_channel(running.shuffler, TLS(running.authority)) as channel:
        keys = await SubmissionCaller(channel).get_round(task.id, 1, CALL_SECONDS)
    (width,) = task.counted_bytes
    signed, others = ([os.urandom(width) for _ in range(MINIMUM)] for _ in range(2))
    assert attacked.verified.release is not None
    made = made_up(running, keys, 1, signed, (attacked.verified.release,))
    batch = BatchId(task.id, 1, 0)
    async with open_channel(running.services[Role.ANALYZER].addresses["delivery"], running._tls(HOP)) as channel:
        caller = DeliveryCaller(channel)
        assert await caller.begin(made.hop.signed_by(hop_of(running)), keys, made.releases, CALL_SECONDS) == 0
        assert await caller.put(Envelopes(batch, 0, tuple(others)), CALL_SECONDS) == MINIMUM
        for digest in (released_digest(signed), released_digest(others)):
            with pytest.raises(Refusal) as caught:
                await caller.commit(batch, digest, CALL_SECONDS)
            assert caught.value.reason is Reason.DIGEST_DIFFERS
