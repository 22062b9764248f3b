"""Writes the signed documents of tests/vectors/signed as this version of hubbub writes them, one of each form.

    python tests/vectors/make_signed.py

Run it after a form was given a new version, and commit the new files beside the old ones: those stay, so that tests see
that they are still read and verified. The keys are in `PARTIES`; they were made for the vectors and protect nothing.
Nothing is written over.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.accountant.certificate.members import CERTIFICATE_FORMAT  # noqa: E402
from hubbub.protos.identity.documents import SignedDocument, canonical  # noqa: E402
from hubbub.protos.identity.keys import Identity, Role  # noqa: E402
from hubbub.protos.identity.successions import SUCCESSION_FORMAT, Succession  # noqa: E402
from hubbub.protos.records.batch import BATCH_RECORD_FORMAT, BatchId, BatchRecord, HopRecord  # noqa: E402
from hubbub.protos.records.release_chain import HOP_RECORD_FORMAT, Place  # noqa: E402
from hubbub.protos.task.admission import ENROLLED  # noqa: E402
from hubbub.protos.task.signed_task import SignedTask  # noqa: E402
from hubbub.protos.task.task import TASK_FORMAT, Task  # noqa: E402
from support.certificates import content_of, counts, encode  # noqa: E402
from support.samples import Parties, signed  # noqa: E402

FOLDER = Path(__file__).parent / "signed"


def identity(number: int) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


PARTIES = Parties(identity(11), identity(12), identity(13))


def vector_task() -> Task:
    """The task of version 1, in the newest form.

    Its numbers are written differently by Python and ECMAScript (1e-06, 1e+16, 4.0), and its text is not all ASCII.
    """
    first = SignedTask.decode((FOLDER / "hubbub-task-1.json").read_bytes()).task
    privacy = replace(first.privacy, large_delta="a vector – these are nobody's answers")
    return replace(first, format=TASK_FORMAT, stated=ENROLLED, maximum_reports=2_000_000, privacy=privacy)


def vector_succession() -> Succession:
    """A new identity of the shuffler, from 2026-12-01 on."""
    new, signers = identity(14), (PARTIES.shuffler, identity(14), PARTIES.operator)
    made = Succession(Role.SHUFFLER, PARTIES.shuffler.public, new.public, PARTIES.operator.public, 1_796_083_200)
    for each in signers:
        made = made.signed_by(each)
    return made


def vector_records() -> tuple[SignedDocument, SignedDocument]:
    """The record of a batch beside dummies, released after three rounds; and that of a hop that it came through."""
    batch, place = BatchId(vector_task().id, 1, 0), Place(3, bytes([5]) * 32)
    record = BatchRecord(
        *(batch, 120, bytes([6]) * 32, bytes([7]) * 32, "schedule", {"too_late": 2}, 30),
        admission="enrolled",
        place=place,
    )
    released = record.signed_by(PARTIES.shuffler)
    return released, HopRecord(2, released, 150, {"unopenable": 1}, bytes([8]) * 32).signed_by(identity(15))


def keep(form: str, document: bytes) -> None:
    """Write a document into the file that its form names, such as hubbub-task-1.json for hubbub-task/1."""
    path = FOLDER / f"{form.replace('/', '-')}.json"
    if path.exists():
        sys.stderr.write(f"{path.name} is there already and stays as it is\n")
        return
    path.write_bytes(document)


def main() -> None:
    task = vector_task()
    keep(TASK_FORMAT, signed(task, PARTIES).encode())
    history = [counts(task, 0, 120), counts(task, 2, 130, left_out=4)]
    keep(CERTIFICATE_FORMAT, encode(content_of(task, PARTIES, history), PARTIES))
    keep(SUCCESSION_FORMAT, vector_succession().encode())
    batch, hop = vector_records()
    keep(BATCH_RECORD_FORMAT, canonical(batch.as_json()))
    keep(HOP_RECORD_FORMAT, canonical(hop.as_json()))


if __name__ == "__main__":
    main()
