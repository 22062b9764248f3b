"""A chain of digests has one list, and a batch record attests it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.records.release_chain import (
    ChainPosition,
    Release,
    ReleaseChunk,
    attested,
    check_release,
    first_head,
    head_after,
    next_head,
    position_after,
    read_release,
)
from hubbub.protos.task.admission import OPEN
from support.samples import Parties, sample_task

TASK = sample_task(Parties.generate(), admission=OPEN)
HASHES = st.binary(min_size=32, max_size=32)


@st.composite
def chains(draw: st.DrawFn) -> list[Release]:
    """Releases of some of the task's rounds, in any order."""
    rounds = draw(st.permutations(range(TASK.schedule.rounds)))[: draw(st.integers(1, TASK.schedule.rounds))]
    return [Release(each, draw(st.integers(20, 10**12)), 0, (draw(HASHES), draw(HASHES))) for each in rounds]


def listed(releases: list[Release]) -> list[dict[str, Any]]:
    return [release.content() for release in releases]


def test_heads_have_known_answers() -> None:
    # hashlib and the text by hand: the label, a zero byte and the task; then the label, a one byte, the head, the JSON.
    start = hashlib.sha256(b"hubbub/v1 releases\x00" + b"t" * 32).digest()
    assert first_head(b"t" * 32) == start
    release = Release(3, 20, 5, (b"\x01" * 32, b"\xab" * 32))
    text = '{"dummies":5,"records":["' + "01" * 32 + '","' + "ab" * 32 + '"],"reports":20,"round":3}'
    after = hashlib.sha256(b"hubbub/v1 releases\x01" + start + text.encode()).digest()
    assert next_head(start, release) == head_after(b"t" * 32, [release]) == after
    assert position_after(b"t" * 32, [release]) == ChainPosition(1, after)


def test_a_release_holds_the_hashes_of_what_was_signed() -> None:
    documents = [SignedDocument(b"one", bytes(64)), SignedDocument(b"two", bytes(64))]
    release = Release.signed(1, 20, 0, documents)
    assert release.records == (hashlib.sha256(b"one").digest(), hashlib.sha256(b"two").digest())


@given(chains())
def test_what_was_released_is_attested_as_it_was(releases: list[Release]) -> None:
    positions = [position_after(TASK.id, releases)] * 2
    assert attested(TASK, listed(releases), positions) == tuple(releases)


@given(chains(), st.data())
def test_any_release_left_out_moved_repeated_or_changed_is_refused(
    releases: list[Release], data: st.DataObject
) -> None:
    position = position_after(TASK.id, releases)
    at = data.draw(st.integers(0, len(releases) - 1))
    other = data.draw(st.integers(0, len(releases) - 1))
    changed = {
        "left out": releases[:at] + releases[at + 1 :],
        "repeated": [*releases[: at + 1], *releases[at:]],
        "other reports": _with(releases, at, reports=releases[at].reports + 1),
        "other records": _with(releases, at, records=releases[at].records[::-1]),
        "another hash": _with(releases, at, records=(releases[at].records[0], bytes(32))),
    }
    moved = list(releases)
    moved[at], moved[other] = moved[other], moved[at]
    for wrong in [*changed.values(), moved]:
        if wrong != releases:
            with pytest.raises(SignatureError):
                attested(TASK, listed(wrong), [position])


def _with(releases: list[Release], at: int, **changes: Any) -> list[Release]:
    return [*releases[:at], dataclasses.replace(releases[at], **changes), *releases[at + 1 :]]


def test_a_list_for_another_task_or_place_is_refused() -> None:
    releases = [Release(0, 20, 0, (bytes(32),) * 2)]
    with pytest.raises(SignatureError, match="are not those that the shuffler's batch records attest"):
        attested(TASK, listed(releases), [position_after(bytes(32), releases)])
    with pytest.raises(SignatureError, match="1 rounds were released before it, but 0 are listed"):
        attested(TASK, [], [position_after(TASK.id, releases)])
    with pytest.raises(SignatureError, match="must be a list"):
        attested(TASK, None, [])


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("round"),
        lambda content: content.update(more=1),
        lambda content: content.update(round=True),
        lambda content: content.update(round=-1),
        lambda content: content.update(reports=20.5),
        lambda content: content.update(dummies="0"),
        lambda content: content.update(dummies=10**13),
        lambda content: content.update(records="00" * 32),
        lambda content: content.update(records=["00" * 31]),
        lambda content: content.update(records=[0]),
    ],
)
def test_a_release_of_another_form_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    content = Release(0, 20, 0, (bytes(32),) * 2).content()
    assert read_release(content) == Release(0, 20, 0, (bytes(32),) * 2)
    change(content)
    with pytest.raises(SignatureError):
        read_release(content)


@pytest.mark.parametrize(
    ("release", "named"),
    [
        (Release(3, 20, 0, (bytes(32),) * 2), "one of the task's 3 rounds"),
        (Release(0, 19, 0, (bytes(32),) * 2), "19 reports; it must have 20 to"),
        (Release(0, 10**12 + 1, 0, (bytes(32),) * 2), "must have 20 to"),
        (Release(0, 20, 1, (bytes(32),) * 2), "1 dummies and 2 records, but the task has 0 and 2"),
        (Release(0, 20, 0, (bytes(32),)), "0 dummies and 1 records"),
    ],
)
def test_a_release_that_the_task_does_not_allow_is_refused(release: Release, named: str) -> None:
    with pytest.raises(SignatureError, match=named):
        check_release(TASK, release)


def test_a_chunk_ends_behind_its_last() -> None:
    assert ReleaseChunk(3, (Release(0, 20, 0, ()),)).end == 4
