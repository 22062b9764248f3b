"""A submission opens at shuffler and analyzer, and nowhere else."""

from __future__ import annotations

import os

import pytest

from hubbub.client.seal import seal
from hubbub.protos.envelope import Destination, InnerOpener, OuterOpener, Sealer, generate_key, outer_bytes
from hubbub.protos.errors import EnvelopeError

TO = Destination(b"t" * 32, 3, b"h" * 32)


def test_a_sealed_submission_opens_to_its_reports_in_order() -> None:
    shuffler, analyzer = generate_key(), generate_key()
    submission = seal(Sealer(TO, shuffler[1], analyzer[1]), (4, 0, 7), os.urandom)
    inners = OuterOpener(TO, shuffler[0], 3).open(submission.envelope, submission.id)
    assert [InnerOpener(TO, analyzer[0], query).open(inner) for query, inner in enumerate(inners)] == [4, 0, 7]


def test_all_submissions_have_one_length_and_their_own_id() -> None:
    sealer = Sealer(TO, generate_key()[1], generate_key()[1])
    submissions = [seal(sealer, (number, number), os.urandom) for number in range(50)]
    assert {len(submission.envelope) for submission in submissions} == {outer_bytes(2)}
    assert len({submission.id for submission in submissions}) == 50


def test_the_id_comes_from_the_randomness_handed_in_and_binds_the_envelope() -> None:
    shuffler = generate_key()
    submission = seal(Sealer(TO, shuffler[1], generate_key()[1]), (1,), lambda count: b"i" * count)
    assert submission.id == b"i" * 16
    with pytest.raises(EnvelopeError):
        OuterOpener(TO, shuffler[0], 1).open(submission.envelope, b"j" * 16)
