"""A batch record is read as it was signed, and its digest holds for one list only."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical, sign
from hubbub.protos.identity.formats import BATCH_RECORD, SIGNED
from hubbub.protos.identity.keys import Identity
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import ChainPosition
from hubbub.protos.refusals import Reason
from hubbub.protos.task.admission import Mode

KEY, OTHER = Identity.generate(), Identity.generate()
REFUSALS = {"malformed": 3, "too_late": 0}
RECORD = BatchRecord(
    *(BatchId(b"t" * 32, 2, 1), 100, b"d" * 32, b"k" * 32, "operator", REFUSALS, 7),
    admission="enrolled",
    position=ChainPosition(3, b"h" * 32),
)
CONTENT = RECORD.signed_by(KEY).content(BATCH_RECORD, KEY.public)


def read(content: dict[str, Any], label: str = BATCH_RECORD.format) -> BatchRecord:
    body = canonical(content)
    return BatchRecord.read(SignedDocument(body, sign(label, body, KEY.key)), KEY.public)


@given(
    st.builds(
        BatchRecord,
        st.builds(BatchId, st.binary(min_size=32, max_size=32), st.integers(0, 2**32 - 1), st.integers(0, 63)),
        st.integers(0, 10**12),
        st.binary(min_size=32, max_size=32),
        st.binary(min_size=32, max_size=32),
        st.sampled_from(["schedule", "operator"]),
        st.dictionaries(st.sampled_from([reason.value for reason in Reason]), st.integers(0, 10**12)),
        st.integers(0, 10**6),
        admission=st.sampled_from([mode.value for mode in Mode]),
        position=st.builds(ChainPosition, st.integers(0, 10**6), st.binary(min_size=32, max_size=32)),
    )
)
def test_record_comes_back_as_it_was(record: BatchRecord) -> None:
    assert BatchRecord.read(record.signed_by(KEY), KEY.public) == record


def test_record_by_another_identity_or_under_another_label_is_refused() -> None:
    with pytest.raises(SignatureError):
        BatchRecord.read(RECORD.signed_by(OTHER), KEY.public)
    for kind in set(SIGNED) - {BATCH_RECORD}:
        with pytest.raises(SignatureError):
            read(CONTENT, kind.format)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("format", None),
        ("admission", "known"),
        ("admission", None),
        ("position", -1),
        ("position", True),
        ("head", "hh" * 32),
        ("head", None),
        ("task", "00"),
        ("task", None),
        ("round", -1),
        ("round", 2.5),
        ("round", True),
        ("round", 2**32),
        ("query", 2**32),
        ("query", "1"),
        ("reports", -1),
        ("reports", 100.5),
        ("reports", 10**12 + 1),
        ("reports", 1e300),
        ("reports", 2.0**53),
        ("dummies", -1),
        ("dummies", 7.5),
        ("dummies", None),
        ("digest", "dd" * 31),
        ("digest", "DD" * 32),
        ("key_set", 5),
        ("closed_by", "nobody"),
        ("closed_by", None),
        ("closed_by", ["operator"]),
        ("refusals", None),
        ("refusals", []),
        ("refusals", [1]),
        ("refusals", "none"),
        ("refusals", {"unheard": 1}),
        ("refusals", {"malformed": -1}),
        ("refusals", {"malformed": 1.5}),
        ("refusals", {"malformed": True}),
        ("refusals", {"malformed": None}),
        ("more", 1),
    ],
    ids=lambda value: f"{value!s:.12}",
)
def test_signed_content_of_another_form_is_refused(member: str, value: Any) -> None:
    with pytest.raises(SignatureError) as caught:
        read({**CONTENT, member: value})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("member", sorted(CONTENT))
def test_missing_member_is_refused(member: str) -> None:
    with pytest.raises(SignatureError):
        read({name: value for name, value in CONTENT.items() if name != member})


def test_digest_is_the_labeled_hash_of_the_envelopes_in_order() -> None:
    envelopes = [bytes([number]) * 52 for number in range(3)]
    assert released_digest(envelopes) == hashlib.sha256(b"hubbub/v1 batch digest" + b"".join(envelopes)).digest()
    assert released_digest(iter(envelopes)) == released_digest(envelopes)


def test_digest_tells_every_change_of_the_list() -> None:
    one, two, three = (bytes([number]) * 52 for number in range(3))
    lists = [[], [one], [two], [one, two], [two, one], [one, one], [one, two, three], [one, two, one]]
    assert len({released_digest(envelopes) for envelopes in lists}) == len(lists)


def test_batches_are_ordered_by_task_round_and_query() -> None:
    first = BatchId(b"a" * 32, 1, 1)
    assert first < replace(first, query=2) < replace(first, round=2, query=0) < BatchId(b"b" * 32, 0, 0)
