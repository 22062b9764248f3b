"""A feed has one order, and only what both parties signed: whatever else is made of it is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hubbub.protos.identity.documents import canonical, parse_canonical
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.feed.entry import (
    LONGEST_ENTRY,
    MOST_ENTRIES,
    MOST_NUMBER,
    NOTHING_BEFORE,
    FeedEntry,
    FeedError,
    FeedParties,
    FeedPosition,
)
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.signed_task import SignedTask
from support.messages import HAS_NOT_SIGNED_TASK, NOT_A_FEED_ENTRY, NOT_SIGNED_BY, NOT_TRUSTED_HERE
from support.samples import Parties, sample_task, signed
from vectors.make_signed import FOLDER, vector_feed_entry
from vectors.make_signed import PARTIES as VECTORS

PARTIES = Parties.generate()
TRUSTED = FeedParties(PARTIES.operator.public, PARTIES.shuffler.public)
FIRST, SECOND = (signed(sample_task(PARTIES, name=name), PARTIES) for name in ("first", "second"))


def both(entry: FeedEntry, parties: Parties = PARTIES) -> FeedEntry:
    return entry.signed_by(parties.operator).signed_by(parties.shuffler)


def feed_of(*tasks: SignedTask) -> Feed:
    feed = Feed()
    for task in tasks:
        feed = feed.with_entry(both(feed.publishing(task)))
    return feed


WHOLE = feed_of(FIRST, SECOND)
ENDED = WHOLE.with_entry(both(WHOLE.ending(FIRST.task.id, 1)))


def test_a_feed_publishes_and_ends_tasks_in_order() -> None:
    for entry in ENDED.entries:
        entry.check(TRUSTED)
        read = FeedEntry.decode(entry.encode())
        assert (read, read.encode()) == (entry, entry.encode())
    assert list(ENDED.published) == [FIRST.task.id, SECOND.task.id]
    assert ENDED.ends == {FIRST.task.id: 1}
    assert ENDED.position == FeedPosition(3, ENDED.entries[-1].hash)
    assert Feed().position == FeedPosition(0, NOTHING_BEFORE)


def test_the_vector_is_written_again_byte_for_byte() -> None:
    document = (FOLDER / "hubbub-feed-1.json").read_bytes()
    read = FeedEntry.decode(document)
    assert read.encode() == document == vector_feed_entry().encode()
    read.check(FeedParties(VECTORS.operator.public, VECTORS.shuffler.public))


def test_a_party_signs_the_entry_and_its_task_at_once() -> None:
    bare = Feed().publishing(SignedTask(FIRST.task))
    assert bare.missing == ["operator", "shuffler"]
    one = bare.signed_by(PARTIES.operator)
    assert one.missing == ["shuffler"]
    # The task's second signature leaves what the first party signed as it was.
    whole = one.signed_by(PARTIES.shuffler)
    assert whole.missing == []
    assert whole.check(TRUSTED) == FIRST.task
    with pytest.raises(FeedError, match="neither the operator nor the shuffler of entry 1"):
        bare.signed_by(PARTIES.analyzer)


@pytest.mark.parametrize("role", ["operator", "shuffler"])
def test_one_signature_is_not_enough(role: str) -> None:
    end = ENDED.entries[-1]
    with pytest.raises(FeedError, match=f"entry 3 of the feed: the {role} has not signed the feed entry"):
        replace(end, **{f"{role}_signature": None}).check(TRUSTED)
    half = replace(WHOLE.entries[0], signed=replace(FIRST, **{f"{role}_signature": None}))
    with pytest.raises(FeedError, match=f"entry 1 of the feed: the {role} {HAS_NOT_SIGNED_TASK}"):
        half.check(TRUSTED)
    with pytest.raises(FeedError, match=f"the feed entry's {NOT_SIGNED_BY}"):
        replace(end, **{f"{role}_signature": bytes(64)}).check(TRUSTED)


def test_an_entry_of_another_deployment_is_refused() -> None:
    others = Parties.generate()
    theirs = both(Feed().publishing(signed(sample_task(others), others)), others)
    with pytest.raises(FeedError, match=f"names another operator {NOT_TRUSTED_HERE}"):
        theirs.check(TRUSTED)
    # The same two parties may have another feed: its later entries do not follow the ones of this.
    other = feed_of(SECOND)
    later = both(other.publishing(FIRST))
    with pytest.raises(FeedError, match="does not follow the entry 1 that was taken, but another one"):
        feed_of(FIRST).check_next(later)


def test_swapped_repeated_and_skipped_entries_are_refused() -> None:
    first, second, third = ENDED.entries
    for feed, entry in ((Feed(), second), (feed_of(FIRST), third), (WHOLE, second), (WHOLE, first)):
        with pytest.raises(FeedError, match=f"entry {entry.number} of the feed does not follow entry"):
            feed.check_next(entry)
    # A signed entry under another number is not signed.
    moved = replace(third, number=2, previous=first.hash)
    with pytest.raises(FeedError, match=f"the feed entry's {NOT_SIGNED_BY}"):
        moved.check(TRUSTED)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(FeedError, match="publishes task first, which was published before; leave it out"):
        WHOLE.publishing(FIRST)
    with pytest.raises(FeedError, match="which the feed does not publish; name one that it does"):
        WHOLE.ending(bytes(32), 0)
    with pytest.raises(FeedError, match="ends task first, which has ended before; leave it out"):
        ENDED.ending(FIRST.task.id, 0)
    with pytest.raises(FeedError, match="after round 3, but its rounds are 0 to 2"):
        WHOLE.ending(FIRST.task.id, 3)
    assert WHOLE.ending(FIRST.task.id, -1).after == -1


def test_a_full_feed_still_ends_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.protos.task.feed.feed.MOST_ENTRIES", WHOLE.position.number)
    third = signed(sample_task(PARTIES, name="third"), PARTIES)
    with pytest.raises(
        FeedError, match=r"the feed has 2 entries, and entry 2 is the last that may publish; end its tasks"
    ):
        WHOLE.publishing(third)
    full = WHOLE
    for task in (FIRST, SECOND):
        full = full.with_entry(both(full.ending(task.task.id, -1)))
    assert full.position.number == 4
    with pytest.raises(FeedError, match="the feed has 4 entries, and entry 2 is the last"):
        full.publishing(third)
    # The last number that is read leaves room for the end of each task, if every entry before published one.
    assert FeedEntry.decode(both(replace(ENDED.entries[-1], number=MOST_NUMBER)).encode()).number == 2 * MOST_ENTRIES


def test_a_successor_s_entries_are_those_of_the_party() -> None:
    new = Identity.generate()
    made = Succession(Role.SHUFFLER, PARTIES.shuffler.public, new.public, PARTIES.operator.public, 1_800_000_000)
    succession = made.signed_by(PARTIES.shuffler).signed_by(new).signed_by(PARTIES.operator)
    entry = replace(ENDED.entries[-1], shuffler=new.public, operator_signature=None, shuffler_signature=None)
    entry = entry.signed_by(PARTIES.operator).signed_by(new)
    entry.check(replace(TRUSTED, successions=[succession]))
    with pytest.raises(FeedError, match=f"names another shuffler {NOT_TRUSTED_HERE}"):
        entry.check(TRUSTED)


def _set(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        inside = value
        for name in path[:-1]:
            inside = inside[name]
        inside[path[-1]] = to

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("body", "number", to=0),
        _set("body", "number", to=True),
        _set("body", "number", to=MOST_NUMBER + 1),
        _set("body", "action", to="pause"),
        _set("body", "action", to="end"),
        _set("body", "after", to=1),
        _set("body", "task", to="00" * 32),
        _set("body", "previous", to="00"),
        _set("signatures", "analyzer", to="00" * 64),
        _set("signatures", "operator", to="zz"),
        _set("more", to=1),
        _set("task", to={}),
        lambda value: value.pop("task"),
        lambda value: value.pop("signatures"),
        lambda value: value["body"].pop("format"),
        lambda value: value["body"].pop("shuffler"),
    ],
)
def test_a_form_that_is_not_the_entry_s_is_refused(change: Callable[[dict[str, Any]], None]) -> None:
    value = parse_canonical(WHOLE.entries[0].encode())
    change(value)
    with pytest.raises(FeedError):
        FeedEntry.decode(canonical(value))


@pytest.mark.parametrize("after", [-2, True, 1.5, "1", None])
def test_an_end_is_after_a_whole_number_of_a_round(after: object) -> None:
    value = parse_canonical(ENDED.entries[-1].encode())
    value["body"]["after"] = after
    with pytest.raises(FeedError, match=f"{NOT_A_FEED_ENTRY} of hubbub-feed/1"):
        FeedEntry.decode(canonical(value))


def test_a_file_that_was_cut_short_or_is_huge_is_refused() -> None:
    document = WHOLE.entries[0].encode()
    for kept in (0, 1, len(document) // 2, len(document) - 1):
        with pytest.raises(FeedError):
            FeedEntry.decode(document[:kept])
    with pytest.raises(FeedError, match=f"more than {LONGEST_ENTRY}"):
        FeedEntry.decode(document + b" " * LONGEST_ENTRY)
    with pytest.raises(FeedError, match="canonical"):
        FeedEntry.decode(document + b"\n")
