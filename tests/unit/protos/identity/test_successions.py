"""One identity follows another only by a succession that three have signed, and all of them make one chain."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import CORE_ROLES, Identity, Role
from hubbub.protos.identity.lineage import Lineage, leading
from hubbub.protos.identity.successions import LONGEST_SUCCESSION, WITNESSES, Succession, SuccessionError
from hubbub.protos.task.schedule import prepared_from
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import connected, followed, signers
from support.samples import Parties, sample_task, signed
from support.source_tree import ROOT

PARTIES = Parties(*(Identity.generate() for _ in CORE_ROLES))
SECOND, THIRD, OTHER = (Identity.generate() for _ in range(3))
KNOWN = {role: PARTIES.of(role).public for role in CORE_ROLES}


def succession(
    role: Role = Role.SHUFFLER,
    old: Identity | None = None,
    new: Identity = SECOND,
    begins: int = 1000,
    witness: Identity | None = None,
) -> Succession:
    old, witness = old or PARTIES.of(role), witness or PARTIES.of(WITNESSES[role])
    made = Succession(role, old.public, new.public, witness.public, begins)
    return made.signed_by(old).signed_by(new).signed_by(witness)


FIRST, NEXT = succession(), succession(old=SECOND, new=THIRD, begins=2000)


def test_a_chain_says_who_signs_when() -> None:
    lineage = Lineage.of(KNOWN, [NEXT, FIRST])
    first = PARTIES.shuffler.public
    moments = (0.0, 999.9, 1000.0, 1999.0, 2000.0, 9e9)
    found = [lineage.at(Role.SHUFFLER, first, moment) for moment in moments]
    assert found == [first, first, SECOND.public, SECOND.public, THIRD.public, THIRD.public]
    # A task that names a later one was made for it: nothing before it signs that task's rounds.
    assert [lineage.at(Role.SHUFFLER, SECOND.public, moment) for moment in (0.0, 2000.0)] == [
        SECOND.public,
        THIRD.public,
    ]
    assert lineage.at(Role.ANALYZER, KNOWN[Role.ANALYZER], 9e9) == KNOWN[Role.ANALYZER]


@pytest.mark.parametrize("known", [PARTIES.shuffler, SECOND, THIRD])
def test_whichever_of_its_identities_is_known_the_chain_is_the_same(known: Identity) -> None:
    lineage = Lineage.of({**KNOWN, Role.SHUFFLER: known.public}, [FIRST, NEXT])
    assert lineage.identities(Role.SHUFFLER) == (PARTIES.shuffler.public, SECOND.public, THIRD.public)


def test_a_witness_is_the_one_of_its_time() -> None:
    operator = succession(Role.OPERATOR, new=OTHER, begins=1500, witness=SECOND)
    by_old, by_new = NEXT, succession(old=SECOND, new=THIRD, begins=2000, witness=OTHER)
    assert Lineage.of(KNOWN, [FIRST, operator, by_new]).holds(Role.SHUFFLER, THIRD.public)
    with pytest.raises(SuccessionError, match="is not the operator"):
        Lineage.of(KNOWN, [FIRST, operator, by_old])


def without(signer: Identity) -> Succession:
    return replace(FIRST, signatures=tuple(pair for pair in FIRST.signatures if pair[0] != signer.public))


def forged(signer: Identity) -> Succession:
    """Everything but one signature, which a thief of the others' keys has made up."""
    thief = replace(FIRST, begins=1).signed_by(signer).signatures
    return replace(FIRST, signatures=tuple(dict([*FIRST.signatures, *thief]).items()))


BAD: dict[str, tuple[Callable[[], Sequence[Succession]], str]] = {
    "unsigned by the one before": (
        lambda: [without(PARTIES.shuffler)],
        "is not signed by the shuffler's previous identity",
    ),
    "unsigned by the new one": (lambda: [without(SECOND)], "is not signed by the shuffler's new identity"),
    "unsigned by the witness": (
        lambda: [without(PARTIES.operator)],
        "is not signed by the operator; sign it with `hubbub sign`",
    ),
    "forged for the one before": (lambda: [forged(PARTIES.shuffler)], "is forged, or was changed"),
    "forged for the new one": (lambda: [forged(SECOND)], "is forged, or was changed"),
    "forged for the witness": (lambda: [forged(PARTIES.operator)], "is forged, or was changed"),
    "changed": (lambda: [replace(FIRST, begins=999)], "is forged, or was changed"),
    "of another role": (lambda: [replace(FIRST, role=Role.ANALYZER)], "is forged, or was changed"),
    "a loop": (
        lambda: [FIRST, succession(old=SECOND, new=PARTIES.shuffler, begins=2000)],
        "follows an identity that|loop",
    ),
    "a later loop": (
        lambda: [FIRST, NEXT, succession(old=THIRD, new=SECOND, begins=3000)],
        "is a loop: .* was in use before",
    ),
    "to another party's key": (lambda: [succession(new=PARTIES.analyzer)], "is a loop: .* was in use before"),
    "a fork": (
        lambda: [FIRST, succession(new=OTHER, begins=3000)],
        "is a fork: another succession follows the same identity",
    ),
    "a fork at one time": (
        lambda: [FIRST, succession(new=OTHER)],
        "is a fork: another succession follows the same identity",
    ),
    "backward": (lambda: [FIRST, succession(old=SECOND, new=THIRD, begins=500)], "goes backward: it begins before"),
    "at one time": (lambda: [FIRST, succession(old=SECOND, new=THIRD, begins=1000)], "goes backward"),
    "of strangers": (lambda: [succession(old=OTHER, new=THIRD)], "follows an identity that is not trusted here"),
    "by another witness": (lambda: [succession(witness=OTHER)], "is not the operator"),
    "too many": (
        lambda: [replace(FIRST, begins=number) for number in range(1, 66)],
        "65 successions",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_chain_is_refused_by_name(name: str) -> None:
    made, says = BAD[name]
    for order in (list(made()), list(made())[::-1]):
        with pytest.raises(SuccessionError, match=says):
            Lineage.of(KNOWN, order)


def test_a_thief_of_one_key_can_sign_for_nobody_else() -> None:
    made = Succession(Role.SHUFFLER, PARTIES.shuffler.public, OTHER.public, PARTIES.operator.public, 1000)
    with pytest.raises(SuccessionError, match="not one of the three signers of the succession of the shuffler"):
        made.signed_by(THIRD)
    stolen = made.signed_by(PARTIES.shuffler).signed_by(OTHER)
    assert stolen.missing == ["the operator"]
    with pytest.raises(SuccessionError, match="is not signed by the operator"):
        stolen.check()


def test_its_bytes_are_read_as_they_were_written_and_no_others() -> None:
    content = FIRST.encode()
    assert Succession.decode(content) == FIRST
    for other in (b" " + content, content.replace(b'"begins":1000', b'"begins":1e3'), content[:-1]):
        with pytest.raises(SignatureError):
            Succession.decode(other)
    with pytest.raises(SuccessionError, match=f"more than {LONGEST_SUCCESSION}"):
        Succession.decode(bytes(LONGEST_SUCCESSION + 1))
    value = FIRST.as_json()
    value["body"]["also"] = 1
    with pytest.raises(SuccessionError, match="it has members that are not read here"):
        Succession.from_json(value)


TASK = sample_task(PARTIES)
SWITCH = prepared_from(TASK.schedule, 1)


def test_a_round_is_signed_by_whoever_signs_when_its_keys_are_prepared() -> None:
    task = followed(TASK, [succession(begins=SWITCH)])
    assert signers(task, 0) == TASK.identities
    assert signers(task, 1).shuffler == signers(task, 2).shuffler == SECOND.public
    assert signers(task, 1).analyzer == TASK.identities.analyzer
    assert (task.id, task) == (TASK.id, TASK)


def test_a_signed_task_is_of_a_pinned_identity_before_or_after_the_one_that_it_names() -> None:
    document = signed(TASK, PARTIES)
    for pinned in (PARTIES.shuffler, SECOND):
        task = document.check(PARTIES.operator.public, pinned.public, [FIRST])
        assert task.lineage is not None
    with pytest.raises(SignatureError, match=r"names another shuffler .* trusted here: .* ask the shuffler") as caught:
        document.check(PARTIES.operator.public, SECOND.public)
    named, trusted = fingerprint(PARTIES.shuffler.public), fingerprint(SECOND.public)
    assert f"{named}, not {trusted};" in str(caught.value)
    with pytest.raises(SuccessionError, match="is not signed by"):
        document.check(PARTIES.operator.public, SECOND.public, [without(PARTIES.shuffler)])
    later = replace(TASK, identities=replace(TASK.identities, shuffler=SECOND.public))
    by_second = SignedTask(later).signed_by(PARTIES.operator).signed_by(SECOND)
    assert by_second.check(PARTIES.operator.public, PARTIES.shuffler.public, [FIRST]).id == later.id


def test_successions_of_other_deployments_are_left_out() -> None:
    foreign = succession(old=OTHER, new=THIRD)
    assert connected(TASK, [foreign, FIRST]) == [FIRST]
    assert connected(TASK, [foreign]) == []


def test_what_a_succession_that_is_left_out_would_vouch_for_is_left_out_too() -> None:
    """Task A's shuffler was lost and replaced without a succession; what came after that is of later tasks alone."""
    fourth = Identity.generate()
    operator = succession(Role.OPERATOR, new=OTHER, begins=1000, witness=SECOND)
    analyzer = succession(Role.ANALYZER, new=THIRD, begins=2000, witness=OTHER)
    further = succession(Role.ANALYZER, old=THIRD, new=fourth, begins=3000, witness=PARTIES.operator)
    later = replace(TASK, identities=replace(TASK.identities, shuffler=SECOND.public))
    for order in itertools.permutations((operator, analyzer)):
        assert set(connected(later, order)) == {operator, analyzer}
        assert followed(later, connected(later, order)).lineage is not None
        assert connected(TASK, order) == []
        # One that is witnessed well, but reached by those alone, has nothing to stand on either.
        assert connected(TASK, [further, *order]) == []
        both = [FIRST, *order]  # with a succession in its place all of them are of both tasks
        assert set(connected(TASK, both)) == set(connected(later, both)) == set(both)


def test_those_that_lead_are_all_that_bear_each_other() -> None:
    """By brute force, over made-up successions: the union of all sets whose every member is reached and witnessed."""
    drawn, kept = Random(7), 0
    for _ in range(300):
        names = {role: [bytes([place, number]) * 16 for number in range(3)] for place, role in enumerate(CORE_ROLES)}
        some = []
        for _ in range(drawn.randint(1, 6)):
            role = drawn.choice(CORE_ROLES)
            old, new = drawn.sample(names[role], 2)
            some.append(Succession(role, old, new, drawn.choice(names[WITNESSES[role]]), drawn.randint(1, 9)))
        known = {(role, names[role][0]) for role in CORE_ROLES}
        found = leading(some, known)
        bearing = [chosen for chosen in subsets(some) if bears_itself(chosen, known)]
        assert set(found) == {each for chosen in bearing for each in chosen}
        kept += len(found) not in (0, len(some))
    assert kept > 20


def subsets(some: Sequence[Succession]) -> list[tuple[Succession, ...]]:
    return [chosen for size in range(len(some) + 1) for chosen in itertools.combinations(some, size)]


def bears_itself(chosen: Sequence[Succession], known: set[tuple[Role, bytes]]) -> bool:
    """Whether all of these are reached from what is known by steps over these alone, and witnessed by whom they reach.

    Each pass over all of them takes a step at least, or nothing more is reached.
    """
    reached = set(known)
    for _ in chosen:
        for each in chosen:
            ends = {(each.role, each.old), (each.role, each.new)}
            reached |= ends if ends & reached else set()
    steps = all((each.role, each.old) in reached for each in chosen)
    return steps and all((WITNESSES[each.role], each.witness) in reached for each in chosen)


def test_a_succession_of_version_1_is_read_as_it_was_signed() -> None:
    content = (ROOT / "tests" / "vectors" / "signed" / "hubbub-succession-1.json").read_bytes()
    found = Succession.decode(content)
    found.check()
    assert (found.role, found.begins, found.encode()) == (Role.SHUFFLER, 1_796_083_200, content)
    keys = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (12, 14, 11)]
    assert [found.old, found.new, found.witness] == [key.public_key().public_bytes_raw() for key in keys]
    body = (
        f'{{"begins":1796083200,"format":"hubbub-succession/1","new":"{found.new.hex()}","old":"{found.old.hex()}",'
        f'"role":"shuffler","witness":"{found.witness.hex()}"}}'
    )
    # Ed25519 gives one signature, so these are the known ones.
    signed = {key.public_key().public_bytes_raw(): key.sign(b"hubbub-succession/1\0" + body.encode()) for key in keys}
    assert dict(found.signatures) == signed
