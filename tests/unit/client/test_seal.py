"""A submission opens at shuffler and analyzer, and nowhere else."""

from __future__ import annotations

import os

import pytest

from hubbub.client.seal import seal
from hubbub.protos.codec import write_submission
from hubbub.protos.errors import EnvelopeError
from hubbub.protos.sealing.envelope import Destination, InnerOpener, OuterOpener, Sealer, inner_bytes, outer_bytes
from hubbub.protos.sealing.suites import DEFAULT, SUITES, Suite
from support.queries import INNER_BYTES, report

TO = Destination(b"t" * 32, 3, b"h" * 32)


def test_a_sealed_submission_opens_to_its_reports_in_order() -> None:
    shuffler, analyzer = DEFAULT.generate_key(), DEFAULT.generate_key()
    reports = (report(4), bytes(300), b"\x07")
    submission = seal(Sealer(TO, shuffler[1], analyzer[1]), reports, os.urandom(16))
    lengths = [inner_bytes(len(each)) for each in reports]
    inners = OuterOpener(TO, shuffler[0], lengths).open(submission.envelope, submission.id)
    opened = tuple(InnerOpener(TO, analyzer[0], query).open(inner) for query, inner in enumerate(inners))
    assert opened == reports


def test_all_submissions_have_one_length() -> None:
    sealer = Sealer(TO, DEFAULT.generate_key()[1], DEFAULT.generate_key()[1])
    submissions = [seal(sealer, (report(number), report(number)), os.urandom(16)) for number in range(50)]
    assert {len(submission.envelope) for submission in submissions} == {outer_bytes([INNER_BYTES] * 2)}


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_every_message_with_a_submission_has_one_length_whatever_is_answered(suite: Suite) -> None:
    """As it goes into a call: no answer, device or id makes it longer, in any suite."""
    sealer = Sealer(TO, suite.generate_key()[1], suite.generate_key()[1], suite)
    answers = [(report(0), b"\0"), (report(2**32 - 1), b"\xff"), (report(1), b"\x80")] * 5
    messages = [write_submission(seal(sealer, reports, os.urandom(16))).SerializeToString() for reports in answers]
    assert len({len(message) for message in messages}) == 1


def test_the_id_binds_the_envelope() -> None:
    shuffler = DEFAULT.generate_key()
    submission = seal(Sealer(TO, shuffler[1], DEFAULT.generate_key()[1]), (report(1),), b"i" * 16)
    assert submission.id == b"i" * 16
    with pytest.raises(EnvelopeError):
        OuterOpener(TO, shuffler[0], [INNER_BYTES]).open(submission.envelope, b"j" * 16)
