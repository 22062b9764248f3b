"""Verification follows the successions in a certificate, and the pinned identities they lead to; nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hubbub.client.privacy.certificates import read_certificate
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import CORE_ROLES, Identity, Role
from hubbub.protos.identity.successions import WITNESSES, Succession
from hubbub.protos.task.schedule import prepared_from
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.certificates import batch_records, content_of, counts, encode, releases_of
from support.samples import Parties, sample_task

PARTIES = Parties.generate()
TASK = sample_task(PARTIES, minimum_reports=100)
HISTORY = [counts(TASK, 0, 120), counts(TASK, 1, 130)]
LATER = Parties(PARTIES.operator, Identity.generate(), Identity.generate())
"""The parties from round 1 on: shuffler and analyzer have new identities."""


def succession(role: Role, old: Parties = PARTIES, new: Parties = LATER, begins: int | None = None) -> Succession:
    moment = prepared_from(TASK.schedule, 1) if begins is None else begins
    witness = PARTIES.of(WITNESSES[role])
    made = Succession(role, old.of(role).public, new.of(role).public, witness.public, moment)
    return made.signed_by(old.of(role)).signed_by(new.of(role)).signed_by(witness)


FOLLOWED = (succession(Role.SHUFFLER), succession(Role.ANALYZER))


def pins(parties: Parties) -> Pins:
    return Pins(parties.operator.public, parties.shuffler.public, parties.analyzer.public)


def certificate(
    successions: Sequence[Succession] = FOLLOWED, batches: Parties = LATER, analyzer: Parties = LATER
) -> bytes:
    """That of round 1, whose batches and which itself are signed by those parties; round 0 is the old ones'."""
    content: dict[str, Any] = content_of(TASK, PARTIES, HISTORY)
    before = releases_of(TASK, PARTIES, HISTORY[:-1])
    content["batches"] = [record.as_json() for record in batch_records(TASK, batches, HISTORY[-1], before=before)]
    content["successions"] = [each.as_json() for each in successions]
    return encode(content, analyzer)


@pytest.mark.parametrize("known", [PARTIES, LATER], ids=["before", "after"])
def test_a_round_after_a_succession_holds_for_who_knows_the_identities_before_or_after(known: Parties) -> None:
    verified = verify(certificate(), pins(known))
    assert verified.pinned
    assert verified.fingerprints == {role.value: fingerprint(LATER.of(role).public) for role in CORE_ROLES}
    assert read_certificate(certificate(), TASK).round == 1


def test_a_round_before_it_was_signed_by_the_identities_before() -> None:
    content = content_of(TASK, PARTIES, HISTORY[:1])
    documents = [each.as_json() for each in FOLLOWED]
    assert verify(encode({**content, "successions": documents}, PARTIES), pins(LATER)).pinned
    by_the_new = [record.as_json() for record in batch_records(TASK, LATER, HISTORY[0])]
    with pytest.raises(VerificationError, match="the batch record's signature is not by"):
        verify(encode({**content, "successions": documents, "batches": by_the_new}, PARTIES), pins(PARTIES))


def test_retired_identities_sign_no_later_round() -> None:
    for wrong in (certificate(batches=PARTIES), certificate(analyzer=PARTIES)):
        with pytest.raises(VerificationError, match="signature is not by"):
            verify(wrong, pins(PARTIES))
        with pytest.raises(SignatureError, match="signature is not by"):
            read_certificate(wrong, TASK)


def test_a_succession_that_the_reader_knows_counts_where_the_certificate_hides_it() -> None:
    by_thieves = certificate((), batches=PARTIES, analyzer=PARTIES)
    assert verify(by_thieves, pins(PARTIES)).pinned
    with pytest.raises(VerificationError, match="signature is not by"):
        verify(by_thieves, pins(PARTIES), FOLLOWED)


FORK = succession(Role.SHUFFLER, new=replace(LATER, shuffler=Identity.generate()))
BACK = succession(Role.SHUFFLER, LATER, replace(LATER, shuffler=Identity.generate()), begins=1)
LOOP = succession(Role.SHUFFLER, LATER, PARTIES, begins=2_000_000_000)


@pytest.mark.parametrize(
    ("successions", "says"),
    [
        ((), "signature is not by"),
        (FOLLOWED[:1], "the certificate's signature is not by"),
        ((*FOLLOWED, FORK), "is a fork"),
        ((*FOLLOWED, BACK), "goes backward"),
        ((*FOLLOWED, LOOP), "loop|follows an identity that"),
        ((replace(FOLLOWED[0], signatures=FOLLOWED[0].signatures[1:]), FOLLOWED[1]), "is not signed by"),
    ],
    ids=["none", "one of two", "fork", "backward", "loop", "unsigned"],
)
def test_successions_that_make_no_chain_do_not_hold(successions: Sequence[Succession], says: str) -> None:
    with pytest.raises(VerificationError, match=says):
        verify(certificate(successions), pins(PARTIES))


@pytest.mark.parametrize("found", [None, {}, [1], "x", [{"body": {}, "signatures": {}}]])
def test_what_is_no_list_of_successions_is_refused(found: Any) -> None:
    content = content_of(TASK, PARTIES, HISTORY)
    with pytest.raises(VerificationError):
        verify(encode({**content, "successions": found}, PARTIES), pins(PARTIES))


def test_a_task_that_names_a_successor_holds_for_who_knows_the_one_before_by_a_succession() -> None:
    task = sample_task(LATER, minimum_reports=100)
    document = encode(content_of(task, LATER, [counts(task, 0, 120)]), LATER)
    assert verify(document, pins(PARTIES), FOLLOWED).pinned
    with pytest.raises(VerificationError, match="give its succession with --succession"):
        verify(document, pins(PARTIES))
