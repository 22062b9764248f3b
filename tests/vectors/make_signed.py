"""Writes the signed documents of tests/vectors/signed as this version of hubbub writes them, one of each format.

    python tests/vectors/make_signed.py

Run it after a kind of document was given a new format, and commit the new files beside the old ones: those stay, so
that tests see that they are still read and verified. The keys are in `PARTIES`; they were made for the vectors and
protect nothing. Nothing is written over.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.protos.enrollment.tickets import Ticket  # noqa: E402
from hubbub.protos.enrollment.tickets import signed as signed_tickets  # noqa: E402
from hubbub.protos.identity.documents import SignedDocument, canonical  # noqa: E402
from hubbub.protos.identity.formats import (  # noqa: E402
    BATCH_RECORD,
    CERTIFICATE,
    FEED_ENTRY,
    HOP_RECORD,
    KEY_RECORD,
    OBLIVIOUS_KEY,
    SUCCESSION,
    TASK,
    TICKET,
)
from hubbub.protos.identity.keys import Identity, KeyRecord, Role  # noqa: E402
from hubbub.protos.identity.successions import Succession  # noqa: E402
from hubbub.protos.oblivious.encapsulation import KeyConfiguration  # noqa: E402
from hubbub.protos.oblivious.key_records import ObliviousRecord  # noqa: E402
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord  # noqa: E402
from hubbub.protos.records.release_chain import ChainPosition  # noqa: E402
from hubbub.protos.task.admission import ENROLLED  # noqa: E402
from hubbub.protos.task.feed.entry import FeedEntry  # noqa: E402
from hubbub.protos.task.feed.feed import Feed  # noqa: E402
from hubbub.protos.task.task import Privacy, Task  # noqa: E402
from hubbub.queries.questions.histogram import Histogram  # noqa: E402
from hubbub.queries.questions.number import Number  # noqa: E402
from support.certificates import content_of, counts, encode  # noqa: E402
from support.krr_queries import krr_query  # noqa: E402
from support.samples import HALF, Parties, sample_task, signed  # noqa: E402

FOLDER = Path(__file__).parent / "signed"


def identity(number: int) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


PARTIES = Parties(identity(11), identity(12), identity(13))


def vector_task() -> Task:
    """A task whose numbers Python and ECMAScript write differently (1e-06, 1e+16, 4.0), and with texts beyond ASCII."""
    carrier = Histogram("carrier", ("AA", "Ö", "\u05d3\u05bc", "😀"), weight=1e-6)
    delay = Number("delay", -1e-7, 1e16, "µs", optional=True, weight=4.0)
    return sample_task(
        PARTIES,
        minimum_reports=100,
        queries=(krr_query(carrier, HALF), krr_query(delay, HALF, levels=7)),
        privacy=Privacy(10.0, 1e-6, 20.0, 0.9, 1e6, large_delta="a vector – these are nobody's answers"),
        admission=ENROLLED,
        maximum_reports=2_000_000,
    )


def vector_key() -> SignedDocument:
    """The analyzer's key record of round 1."""
    task = vector_task()
    record = KeyRecord(Role.ANALYZER, task.id, 1, task.suite, bytes([9]) * 32, 1_767_229_000, 1_767_240_000)
    return record.signed_by(PARTIES.analyzer)


def vector_ticket() -> Ticket:
    """A ticket that the operator signed, a list of its own."""
    bare = Ticket(bytes(range(16)), PARTIES.shuffler.public, 1_800_000_000, salt=bytes(range(16, 32)))
    (made,) = signed_tickets([bare], [PARTIES.operator])
    return made


def vector_succession() -> Succession:
    """A new identity of the shuffler, from 2026-12-01 on."""
    new, signers = identity(14), (PARTIES.shuffler, identity(14), PARTIES.operator)
    made = Succession(Role.SHUFFLER, PARTIES.shuffler.public, new.public, PARTIES.operator.public, 1_796_083_200)
    for each in signers:
        made = made.signed_by(each)
    return made


def vector_feed_entry() -> FeedEntry:
    """The first entry of a feed, which publishes the task."""
    entry = Feed().publishing(signed(vector_task(), PARTIES))
    return entry.signed_by(PARTIES.operator).signed_by(PARTIES.shuffler)


def vector_records() -> tuple[SignedDocument, SignedDocument]:
    """The record of a batch beside dummies, released after three rounds; and that of a hop that added noise to it."""
    batch, position = BatchId(vector_task().id, 1, 0), ChainPosition(3, bytes([5]) * 32)
    record = BatchRecord(
        *(batch, 120, bytes([6]) * 32, bytes([7]) * 32, "schedule", {"too_late": 2}, 30),
        admission="enrolled",
        position=position,
    )
    released = record.signed_by(PARTIES.shuffler)
    return released, HopRecord(2, released, 150, {"unopenable": 1}, bytes([8]) * 32, 7).signed_by(identity(15))


def vector_oblivious() -> SignedDocument:
    """The key of the example of RFC 9458, appendix A, as the shuffler would sign it."""
    example = json.loads((FOLDER.parent / "oblivious.json").read_text())["ohttp"]
    configuration = KeyConfiguration.decode(bytes.fromhex(example["key_configuration"]))
    return ObliviousRecord.at(configuration, 1_800_086_400).signed_by(PARTIES.shuffler)


def keep(format_: str, document: bytes) -> None:
    """Write a document into the file that its format names, such as hubbub-task-1.json for hubbub-task/1."""
    path = FOLDER / f"{format_.replace('/', '-')}.json"
    if path.exists():
        sys.stderr.write(f"{path.name} is there already and stays as it is\n")
        return
    path.write_bytes(document)


def main() -> None:
    task = vector_task()
    keep(TASK.format, signed(task, PARTIES).encode())
    history = [counts(task, 0, 120), counts(task, 2, 130, left_out=4)]
    keep(CERTIFICATE.format, encode(content_of(task, PARTIES, history), PARTIES))
    keep(SUCCESSION.format, vector_succession().encode())
    keep(KEY_RECORD.format, canonical(vector_key().as_json()))
    keep(TICKET.format, vector_ticket().encode())
    keep(FEED_ENTRY.format, vector_feed_entry().encode())
    keep(OBLIVIOUS_KEY.format, canonical(vector_oblivious().as_json()))
    batch, hop = vector_records()
    keep(BATCH_RECORD.format, canonical(batch.as_json()))
    keep(HOP_RECORD.format, canonical(hop.as_json()))


if __name__ == "__main__":
    main()
