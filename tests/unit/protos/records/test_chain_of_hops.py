"""Records and keys of a chain of hops: nothing can be changed, left out, or moved, without being noticed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.protos.errors import KeyRecordError, SignatureError, TaskError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.formats import HOP_RECORD
from hubbub.protos.identity.keys import Identity, KeyRecord, KeySet, Role, behind
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord, left_out_by_hops, round_named
from hubbub.protos.records.release_chain import ChainPosition, first_record, record_hash
from hubbub.protos.task.admission import ENROLLED
from hubbub.protos.task.signed_task import SignedTask, read_task
from hubbub.protos.task.task import MAXIMUM_HOPS, Identities, Privacy, Task, task_content
from hubbub.queries.questions.histogram import Histogram
from support.krr_queries import krr_query
from support.samples import Parties, sample_task

PARTIES = Parties.generate(2)
TASK = sample_task(PARTIES, admission=ENROLLED)
HOPS = TASK.identities.hops
BATCH = BatchId(TASK.id, 1, 0)
POSITION = ChainPosition(3, b"h" * 32)
RECORD = BatchRecord(BATCH, 30, b"d" * 32, b"k" * 32, "schedule", {}, 5, admission="enrolled", position=POSITION)


def around(document: SignedDocument, index: int, received: int, **left_out: int) -> SignedDocument:
    return HopRecord(2 + index, document, received, left_out, bytes([index]) * 32).signed_by(PARTIES.hops[index])


FIRST = around(RECORD.signed_by(PARTIES.shuffler), 0, 35, unopenable=3, duplicate=1)
LAST = around(FIRST, 1, 31, unopenable=2)


def read(document: SignedDocument) -> BatchRecord:
    return BatchRecord.read(document, PARTIES.shuffler.public, HOPS)


def test_the_last_record_holds_all_of_them() -> None:
    found = read(LAST)
    assert replace(found, hops=()) == RECORD
    assert [(hop.position, hop.received, hop.released) for hop in found.hops] == [(2, 35, 31), (3, 31, 29)]
    assert (found.envelopes, found.last_digest) == (29, bytes([1]) * 32)
    assert found.left_out == left_out_by_hops(LAST) == {"unopenable": 5, "duplicate": 1}
    assert round_named(LAST) == (TASK.id, 1)
    # What is released is what the first shuffler signed, whatever lies around it.
    assert first_record(LAST) == RECORD.signed_by(PARTIES.shuffler)
    assert record_hash(LAST) == record_hash(FIRST) == record_hash(RECORD.signed_by(PARTIES.shuffler))


def test_without_hops_nothing_is_left_out_and_nothing_is_parsed() -> None:
    assert left_out_by_hops(SignedDocument(b"not even JSON", b"")) == {}
    assert (RECORD.envelopes, RECORD.last_digest, RECORD.left_out) == (35, RECORD.digest, {})


@pytest.mark.parametrize(
    "lie",
    [
        FIRST,
        RECORD.signed_by(PARTIES.shuffler),
        around(RECORD.signed_by(PARTIES.shuffler), 1, 35),
        around(FIRST, 1, 30),
        around(FIRST, 0, 31),
        around(around(RECORD.signed_by(PARTIES.analyzer), 0, 35), 1, 35),
        SignedDocument(LAST.body, FIRST.signature),
        SignedDocument(LAST.body.replace(b'"received":31', b'"received":32'), LAST.signature),
    ],
    ids=range(8),
)
def test_a_chain_with_anything_else_in_it_is_refused(lie: SignedDocument) -> None:
    with pytest.raises(SignatureError):
        read(lie)


@pytest.mark.parametrize(
    "change",
    [
        {"hop": 1},
        {"hop": 2 + MAXIMUM_HOPS},
        {"hop": True},
        {"received": -1},
        {"received": 31.5},
        {"released": 30},
        {"left_out": {"unopenable": 32}},
        {"left_out": {"unopenable": 32}, "dummies": 1, "released": 0},
        {"left_out": {"out_of_domain": 2}},
        {"left_out": {"unopenable": 0}},
        {"left_out": []},
        {"previous": {"body": {}}},
        {"previous": None},
        {"digest": "00"},
        {"more": 1},
        {"format": "hubbub-hop/2"},
    ],
    ids=str,
)
def test_a_record_that_says_what_no_hop_may_is_refused(change: dict[str, Any]) -> None:
    content = LAST.content(HOP_RECORD, HOPS[1]) | change
    with pytest.raises(SignatureError):
        HopRecord.read(SignedDocument.make(HOP_RECORD, content, PARTIES.hops[1].key), HOPS[1])


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"format":"hubbub-hop/1"}', b"[" * 10**5, b'{"task":"00"}'], ids=range(6)
)
def test_what_names_no_task_is_refused(body: bytes) -> None:
    with pytest.raises(SignatureError):
        round_named(SignedDocument(body, b""))


def key(role: Role, identity: Identity, after: SignedDocument | None = None, number: int = 1) -> SignedDocument:
    public = TASK.hpke.generate_key()[1]
    return KeyRecord(role, TASK.id, number, TASK.suite, public, 0, 2**33, after).signed_by(identity)


ANALYZER = key(Role.ANALYZER, PARTIES.analyzer)
SECOND = key(Role.HOP, PARTIES.hops[1], ANALYZER)
KEYS = KeySet(key(Role.SHUFFLER, PARTIES.shuffler), key(Role.HOP, PARTIES.hops[0], SECOND))


def keys_of(key_set: KeySet) -> tuple[KeyRecord, ...]:
    identities = TASK.identities
    return key_set.read(TASK.id, 1, TASK.suite, identities.shuffler, identities.analyzer, identities.hops)


def test_a_key_set_holds_everybodys_key() -> None:
    assert [record.role for record in keys_of(KEYS)] == [Role.SHUFFLER, Role.ANALYZER, Role.HOP, Role.HOP]
    assert [behind(KEYS.analyzer, steps) for steps in range(3)] == [KEYS.analyzer, SECOND, ANALYZER]
    other = key(Role.HOP, PARTIES.hops[0], key(Role.HOP, PARTIES.hops[1], key(Role.ANALYZER, PARTIES.analyzer)))
    assert KeySet(KEYS.shuffler, other).hash != KEYS.hash


@pytest.mark.parametrize(
    "document",
    [
        ANALYZER,
        SECOND,
        key(Role.HOP, PARTIES.hops[0], ANALYZER),
        key(Role.HOP, PARTIES.hops[0], KEYS.analyzer),
        key(Role.HOP, PARTIES.hops[0], key(Role.HOP, PARTIES.hops[1], key(Role.SHUFFLER, PARTIES.analyzer))),
        key(Role.HOP, PARTIES.hops[0], key(Role.HOP, PARTIES.hops[1], ANALYZER, number=2)),
        key(Role.HOP, PARTIES.analyzer, SECOND),
    ],
    ids=["no-hop", "one-too-few", "one-left-out", "itself", "another-role", "another-round", "forged"],
)
def test_a_key_set_with_other_hops_is_refused(document: SignedDocument) -> None:
    with pytest.raises((SignatureError, KeyRecordError)):
        keys_of(KeySet(KEYS.shuffler, document))


def test_only_a_hops_key_record_has_one_behind_it() -> None:
    for role, after in ((Role.HOP, None), (Role.ANALYZER, ANALYZER)):
        with pytest.raises(KeyRecordError):
            key(role, PARTIES.hops[0], after)


def test_a_task_with_hops_is_written_and_read() -> None:
    document = SignedTask(TASK).signed_by(PARTIES.operator).signed_by(PARTIES.shuffler).encode()
    found = SignedTask.decode(document).check(PARTIES.operator.public, PARTIES.shuffler.public)
    assert found.identities == TASK.identities
    assert found.id == TASK.id


@pytest.mark.parametrize(
    "hops",
    [None, "00", [7], ["00"], {"hop-2": HOPS[0].hex()}, [PARTIES.analyzer.public.hex()], [HOPS[0].hex()] * 2],
    ids=range(7),
)
def test_hops_in_any_other_form_are_refused(hops: Any) -> None:
    content = task_content(TASK)
    content["identities"]["hops"] = hops
    with pytest.raises(TaskError):
        read_task(content)


def test_a_chain_has_an_end() -> None:
    keys = [bytes([number]) * 32 for number in range(4 + MAXIMUM_HOPS)]
    with pytest.raises(TaskError, match=f"at most {MAXIMUM_HOPS}"):
        Identities(*keys[:3], tuple(keys[3:]))


NOISE = NoiseLaw("geometric", 2**31, 3)


def with_noise(noise: NoiseLaw, parties: Parties = PARTIES) -> Task:
    return sample_task(parties, queries=(replace(krr_query(Histogram("c", ("a", "b", "c")), 2**30), noise=noise),))


def test_each_shuffler_has_its_own_sum_of_noise_and_all_have_their_sum() -> None:
    task = with_noise(NOISE)
    assert [query.shufflers for query in task.queries] == [3]
    assert [task.dummies_within(0, position) for position in (1, 2, 3, None)] == [(0, 18)] * 3 + [(0, 54)]
    assert task.dummies_differ(0, 54) is None
    assert task.dummies_differ(0, 18, 3) is None
    assert task.dummies_differ(0, 19, 3) == (
        "hop-3 added 19 dummies to the batch, but in task flights it adds from 0 to 18 in a batch of this query"
    )
    # The number of shufflers follows from the hops that the task names, whatever its queries say.
    alone = replace(task, identities=replace(task.identities, hops=()))
    assert [query.shufflers for query in alone.queries] == [1]
    assert task_content(task)["queries"] == task_content(alone)["queries"]


def test_uniform_dummies_are_the_first_shufflers_alone() -> None:
    task = sample_task(PARTIES, privacy=Privacy(10.0, 1e-2, 20.0, dummies=7))
    assert [task.dummies_within(0, position) for position in (1, 2, 3, None)] == [(7, 7), (0, 0), (0, 0), (7, 7)]


def test_the_records_of_a_chain_add_up_to_its_noise() -> None:
    first = HopRecord(2, RECORD.signed_by(PARTIES.shuffler), 35, {"unopenable": 3}, bytes(32), 9)
    last = HopRecord(3, first.signed_by(PARTIES.hops[0]), 41, {}, bytes(32), 4)
    found = read(last.signed_by(PARTIES.hops[1]))
    assert (found.dummies, found.added, found.envelopes) == (5, 18, 45)
    assert found.envelopes == found.reports + found.added - 3
    assert found.dummies_differ(with_noise(NOISE)) is None
    beyond = read(replace(last, dummies=19).signed_by(PARTIES.hops[1]))
    assert (beyond.dummies_differ(with_noise(NOISE)) or "").startswith("hop-3 added 19 dummies to the batch")


def test_a_task_whose_shufflers_add_too_much_noise_is_refused_with_the_remedy() -> None:
    wide = NoiseLaw("gaussian", 10**9 * 2**32, 99_000)
    many = replace(krr_query(Histogram("c", tuple(f"c{n}" for n in range(50))), 2**30), noise=wide)
    sample_task(Parties.generate(1), queries=(many,))
    with pytest.raises(TaskError, match=r"c: its noise is 14,850,000 reports on average, by 3 shufflers, .*fewer hops"):
        sample_task(PARTIES, queries=(many,))


def test_one_shuffler_that_adds_too_much_noise_is_not_told_of_hops() -> None:
    wide = NoiseLaw("gaussian", 10**9 * 2**32, 99_000)
    many = replace(krr_query(Histogram("c", tuple(f"c{n}" for n in range(150))), 2**30), noise=wide)
    with pytest.raises(TaskError, match=r"14,850,000 reports on average, by the shuffler, .* with fewer answers, or"):
        sample_task(Parties.generate(), queries=(many,))
