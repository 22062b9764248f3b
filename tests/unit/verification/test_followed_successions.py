"""Verification follows the successions in a certificate, and the pinned identities they lead to; nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.client.privacy.certificates import read_certificate
from hubbub.pages.dashboard.shown_task import ShownTask
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import CORE_ROLES, Identity, Role
from hubbub.protos.identity.successions import WITNESSES, Succession
from hubbub.protos.records.results import RoundId, RoundResults
from hubbub.protos.task.schedule import prepared_from
from hubbub.results.checked import NotVerified, check_signed, check_task_signed
from hubbub.verification.certificate import NotAsPinned, Pins, VerificationError, verify
from hubbub.verification.history import read_histories
from support.certificates import batch_records, content_of, counts, encode, releases_of
from support.messages import NOT_SIGNED_BY, NOT_TRUSTED_HERE
from support.samples import Parties, sample_task, signed

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
    with pytest.raises(VerificationError, match=f"the batch record's {NOT_SIGNED_BY}"):
        verify(encode({**content, "successions": documents, "batches": by_the_new}, PARTIES), pins(PARTIES))


def test_retired_identities_sign_no_later_round() -> None:
    for wrong in (certificate(batches=PARTIES), certificate(analyzer=PARTIES)):
        with pytest.raises(VerificationError, match=NOT_SIGNED_BY):
            verify(wrong, pins(PARTIES))
        with pytest.raises(SignatureError, match=NOT_SIGNED_BY):
            read_certificate(wrong, TASK)


def before(successions: Sequence[Succession] = ()) -> bytes:
    """The certificate of round 0, which the identities before signed, and when nobody knew of a succession."""
    documents = [each.as_json() for each in successions]
    return encode({**content_of(TASK, PARTIES, HISTORY[:1]), "successions": documents}, PARTIES)


def saved(folder: Path, **certificates: bytes) -> Path:
    for name, document in certificates.items():
        (folder / f"{name}.json").write_bytes(document)
    return folder


def test_who_knows_the_new_identities_alone_verifies_the_rounds_before_by_a_later_certificate(tmp_path: Path) -> None:
    """A longitudinal round follows from the rounds before it, so these must hold too."""
    with pytest.raises(NotAsPinned):
        verify(before(), pins(LATER))
    found = read_histories([saved(tmp_path, first=before(), second=certificate())], pins(LATER))
    assert found.problems == ()
    assert [each.round for each in found.histories[0].certificates] == [0, 1]
    # By itself it names nobody whom the reader knows.
    (alone,) = read_histories([tmp_path / "first.json"], pins(LATER)).problems
    assert "give its succession with --succession" in str(alone)


def test_a_succession_in_a_certificate_of_strangers_helps_nobody(tmp_path: Path) -> None:
    others = Parties.generate()
    task = sample_task(others, minimum_reports=100)
    strange = encode(content_of(task, others, [counts(task, 0, 120)]), others)
    found = read_histories([saved(tmp_path, first=before(), strange=strange)], pins(LATER))
    assert len(found.problems) == 2


def test_a_certificate_that_hides_a_succession_does_not_hold_beside_one_that_has_it(tmp_path: Path) -> None:
    by_thieves = certificate((), batches=PARTIES, analyzer=PARTIES)
    assert verify(by_thieves, pins(PARTIES)).pinned
    known = before(FOLLOWED)
    found = read_histories([saved(tmp_path, known=known, thieves=by_thieves)], pins(PARTIES))
    assert [each.file for each in found.problems] == [tmp_path / "thieves.json"]
    assert NOT_SIGNED_BY in str(found.problems[0])


def test_certificates_whose_successions_are_a_fork_do_not_hold_together(tmp_path: Path) -> None:
    third = Parties(PARTIES.operator, Identity.generate(), Identity.generate())
    forked = (succession(Role.SHUFFLER, new=third), succession(Role.ANALYZER, new=third))
    found = read_histories([saved(tmp_path, one=before(FOLLOWED), two=before(forked))], pins(PARTIES))
    assert [problem.file for problem in found.problems if "is a fork" in str(problem)] == [
        tmp_path / "one.json",
        tmp_path / "two.json",
    ]


def test_results_of_rounds_before_are_read_with_the_new_identities_alone() -> None:
    first, second = (
        RoundResults(RoundId(TASK.id, TASK.name, number), (), document)
        for number, document in enumerate((before(), certificate()))
    )
    assert check_signed([first, second], pins(LATER)) == ()
    assert check_signed([first], pins(LATER), lambda: [second]) == ()
    with pytest.raises(NotVerified, match="round 0 of task flights: the certificate is not of the shuffler"):
        check_signed([first], pins(LATER))


def test_a_task_of_before_is_read_with_the_new_identities_alone() -> None:
    of_before = signed(TASK, PARTIES)
    check_task_signed(of_before, pins(LATER), lambda: [certificate()])
    check_task_signed(of_before, replace(pins(LATER), successions=FOLLOWED), list)
    shown = ShownTask.of(of_before, replace(pins(LATER), successions=FOLLOWED))
    assert (shown.strangers, shown.compared) == ([], True)
    assert ShownTask.of(of_before, pins(LATER)).strangers == ["shuffler", "analyzer"]
    with pytest.raises(SignatureError, match=f"names another shuffler {NOT_TRUSTED_HERE}"):
        check_task_signed(of_before, pins(LATER), lambda: [before()])
    with pytest.raises(SignatureError, match="names another operator"):
        check_task_signed(of_before, pins(Parties.generate()), lambda: [certificate()])


def test_a_succession_of_the_pins_leads_to_them_where_the_certificate_has_none() -> None:
    stranger = Identity.generate()
    elsewhere = Succession(Role.OPERATOR, stranger.public, LATER.analyzer.public, LATER.shuffler.public, 1)
    known = replace(pins(LATER), successions=(*FOLLOWED, elsewhere))
    assert verify(before(), known).pinned
    assert check_signed([RoundResults(RoundId(TASK.id, TASK.name, 0), (), before())], known) == ()


def test_a_succession_that_the_reader_knows_counts_where_the_certificate_hides_it() -> None:
    by_thieves = certificate((), batches=PARTIES, analyzer=PARTIES)
    assert verify(by_thieves, pins(PARTIES)).pinned
    with pytest.raises(VerificationError, match=NOT_SIGNED_BY):
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
