"""A device takes the tasks that both parties published, in order, and notices a feed that is not the one it took."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import FeedError, TaskError, TaskFeed, Unreachable, UsageError
from hubbub.protos.identity.successions import MOST_SUCCESSIONS
from hubbub.protos.task.feed.budgets import PurposeBudget
from hubbub.protos.task.feed.entry import FeedEntry
from hubbub.protos.task.feed.feed import Feed, FeedPage
from hubbub.protos.task.feed.files import feed_in, file_of
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy
from support.fake_shuffler import Clock, FakeShuffler
from support.messages import ABOVE_CAP, NOT_A_FEED_ENTRY
from support.samples import START, Parties, sample_task, signed

NAMES = ("colors", "sizes", "shapes", "sounds", "smells")

Following = Callable[..., TaskFeed]


def both(entry: FeedEntry, parties: Parties) -> FeedEntry:
    return entry.signed_by(parties.operator).signed_by(parties.shuffler)


def publishing(feed: Feed, task: SignedTask, parties: Parties) -> Feed:
    return feed.with_entry(both(feed.publishing(task), parties))


def ending(feed: Feed, name: str, after: int, parties: Parties) -> Feed:
    (task_id,) = [each.task.id for each in feed.published.values() if each.task.name == name]
    return feed.with_entry(both(feed.ending(task_id, after), parties))


@pytest.fixture
def whole(parties: Parties) -> Feed:
    feed = Feed()
    for name in NAMES:
        feed = publishing(feed, signed(sample_task(parties, name=name), parties), parties)
    return feed


@pytest.fixture
def following(settings: dict[str, Any], shuffler: FakeShuffler, whole: Feed, tmp_path: Path) -> Following:
    """An application that allows two of the tasks, and a shuffler that has all of them."""
    shuffler.feed = whole
    given = {name: settings[name] for name in ("operator_key", "shuffler_key", "authority", "retrying", "clock")}

    def make(**changes: Any) -> TaskFeed:
        parts = {"allow": {"colors", "shapes"}, "folder": tmp_path / "tasks", "shuffler": shuffler.address}
        return TaskFeed(**{**given, **parts, **changes})

    return make


async def test_allowed_tasks_are_fetched_once_and_kept(
    following: Following, shuffler: FakeShuffler, whole: Feed, parties: Parties
) -> None:
    feed = following()
    assert feed.tasks() == {}
    assert await feed.fetch() == 5
    # Two entries an answer, each time from the last one that is known.
    assert shuffler.asked == [1, 2, 3, 4, 5]
    found = feed.tasks()
    assert list(found) == ["colors", "shapes"]
    SignedTask.decode(found["colors"]).check(parties.operator.public, parties.shuffler.public)
    again = following()
    assert again.tasks() == found
    assert await again.fetch() == 0


async def test_a_task_that_is_over_is_left_out(
    following: Following, shuffler: FakeShuffler, parties: Parties, clock: Clock
) -> None:
    feed = following(clock=lambda: START + 10.0)
    shuffler.feed = ending(ending(shuffler.feed, "colors", -1, parties), "shapes", 0, parties)
    await feed.fetch()
    assert list(feed.tasks()) == ["shapes"]
    assert following(clock=lambda: START + 3600 + 60.0).tasks() == {}
    # A later task of the same name takes its place.
    later = sample_task(parties, name="colors", minimum_reports=21)
    shuffler.feed = publishing(shuffler.feed, signed(later, parties), parties)
    await feed.fetch()
    assert SignedTask.decode(feed.tasks()["colors"]).task == later


async def _refused(feed: TaskFeed, says: str, kept: int) -> None:
    with pytest.raises(FeedError, match=says):
        await feed.fetch()
    assert feed._known().position.number == kept


async def test_an_older_copy_and_another_feed_are_refused(
    following: Following, shuffler: FakeShuffler, whole: Feed, parties: Parties
) -> None:
    feed = following()
    await feed.fetch()
    shuffler.feed = Feed(whole.entries[:4])
    await _refused(feed, "the shuffler's feed ends before entry 5, which was taken here: it is an older copy", 5)
    other = publishing(Feed(whole.entries[:4]), signed(sample_task(parties, name="tastes"), parties), parties)
    shuffler.feed = publishing(other, whole.entries[4].signed, parties)  # type: ignore[arg-type]
    await _refused(feed, "the shuffler's feed has another entry 5 than the one that was taken here", 5)
    shuffler.feed = whole
    assert await feed.fetch() == 0


async def test_gaps_and_swapped_entries_are_refused(following: Following, shuffler: FakeShuffler, whole: Feed) -> None:
    first, second, third, *_ = whole.entries
    feed = following()
    shuffler.feed = Feed((second, third))
    await _refused(feed, "entry 2 of the feed does not follow entry 0", 0)
    shuffler.feed = Feed((first, third))
    # What comes before the gap is right, and is kept.
    await _refused(feed, "entry 3 of the feed does not follow entry 1", 1)
    shuffler.feed = Feed((first, third, second))
    await _refused(feed, "entry 3 of the feed does not follow entry 1", 1)


@pytest.mark.parametrize("signer", ["operator", "shuffler"])
async def test_one_signature_is_not_enough(
    following: Following, shuffler: FakeShuffler, whole: Feed, parties: Parties, signer: str
) -> None:
    bare = whole.publishing(signed(sample_task(parties, name="tastes"), parties))
    shuffler.feed = Feed((*whole.entries, bare.signed_by(getattr(parties, signer))))
    await _refused(following(), "entry 6 of the feed: the .* has not signed the feed entry", 5)


async def test_a_feed_of_other_parties_is_refused(following: Following, shuffler: FakeShuffler) -> None:
    others = Parties.generate()
    shuffler.feed = publishing(Feed(), signed(sample_task(others, name="colors"), others), others)
    feed = following()
    await _refused(feed, "names another operator than the one that is trusted here", 0)
    assert feed.tasks() == {}


async def test_a_flood_of_successions_is_refused(following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    async def flood(self: FakeShuffler, _first: int) -> FeedPage:
        return FeedPage((self.feed.entries[0].encode(),), (b"{}",) * (MOST_SUCCESSIONS + 1))

    monkeypatch.setattr(FakeShuffler, "get_feed", flood)
    await _refused(following(), "65 successions came with the feed; at most 64 may", 0)


async def test_a_task_above_its_own_cap_is_refused(
    following: Following, shuffler: FakeShuffler, parties: Parties
) -> None:
    task = sample_task(parties, name="colors", privacy=Privacy(epsilon=10.0, delta=1e-2, epsilon_local=1.0))
    shuffler.feed = publishing(Feed(), signed(task, parties), parties)
    with pytest.raises(TaskError, match=f"{ABOVE_CAP} 1"):
        await following().fetch()


async def test_a_withdrawn_task_above_its_own_cap_does_not_stop_the_feed(
    following: Following, shuffler: FakeShuffler, parties: Parties
) -> None:
    privacy = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=1.0)
    wrong = publishing(Feed(), signed(sample_task(parties, name="colors", privacy=privacy), parties), parties)
    ended = ending(wrong, "colors", -1, parties)
    shuffler.feed = publishing(ended, signed(sample_task(parties, name="shapes"), parties), parties)
    feed = following()
    assert await feed.fetch() == 3
    assert list(feed.tasks()) == ["shapes"]
    # An end after a round withdraws nothing.
    shuffler.feed = ending(wrong, "colors", 0, parties)
    with pytest.raises(TaskError, match=f"{ABOVE_CAP} 1"):
        await following(folder=feed._folder / "another").fetch()


async def test_a_page_may_end_before_the_entry_that_withdraws_a_task(
    following: Following, shuffler: FakeShuffler, parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def by_size(self: FakeShuffler, first: int) -> FeedPage:
        # As a shuffler answers: as many entries as have so many bytes, and three at least.
        found = self.feed.entries[max(0, first - 1) :]
        return FeedPage(tuple(each.encode() for each in found[: 4 if first == 1 else 3]))

    monkeypatch.setattr(FakeShuffler, "get_feed", by_size)
    feed = Feed()
    for name in ("sizes", "shapes", "sounds"):
        feed = publishing(feed, signed(sample_task(parties, name=name), parties), parties)
    privacy = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=1.0)
    wrong = publishing(feed, signed(sample_task(parties, name="colors", privacy=privacy), parties), parties)
    shuffler.feed = ending(wrong, "colors", -1, parties)
    followed = following()
    assert await followed.fetch() == 5
    assert list(followed.tasks()) == ["shapes"]
    # Without an end it is refused, and what comes before it is kept.
    shuffler.feed = wrong
    refusing = following(folder=followed._folder / "another")
    with pytest.raises(TaskError, match=f"{ABOVE_CAP} 1"):
        await refusing.fetch()
    assert refusing._known().position.number == 3


async def test_a_long_feed_is_read_from_the_folder_once(
    following: Following, shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, read = following(), 0

    def counted(folder: Path) -> Feed:
        nonlocal read
        read += 1
        return feed_in(folder)

    monkeypatch.setattr("hubbub.client.feed.feed_in", counted)
    assert await feed.fetch() == 5
    assert (len(shuffler.asked), read) == (5, 1)


async def test_a_changed_folder_is_noticed(following: Following, tmp_path: Path) -> None:
    feed = following()
    await feed.fetch()
    file_of(tmp_path / "tasks", 2).write_bytes(b"{}")
    for use in (feed.tasks, lambda: asyncio.run(feed.fetch())):
        with pytest.raises(FeedError, match=rf"000002.json: {NOT_A_FEED_ENTRY}"):
            await asyncio.to_thread(use)


def test_a_program_without_an_event_loop_fetches_too(settings: dict[str, Any], tmp_path: Path) -> None:
    given = {name: settings[name] for name in ("operator_key", "shuffler_key", "authority", "retrying")}
    feed = TaskFeed(allow={"colors"}, folder=tmp_path / "tasks", shuffler="127.0.0.1:1", **given)
    with pytest.raises(Unreachable):
        feed.fetch_blocking(timeout=0.1)
    assert feed.tasks() == {}


def test_names_are_a_set_of_texts(settings: dict[str, Any], tmp_path: Path) -> None:
    given = {name: settings[name] for name in ("operator_key", "shuffler_key", "authority")}
    for allow in ("colors", [b"colors"], 3, None, True):
        with pytest.raises(UsageError, match="allow has the names of tasks; give a set of texts"):
            TaskFeed(allow=allow, folder=tmp_path, shuffler="127.0.0.1:1", **given)  # type: ignore[arg-type]
    # Of a generator nothing was left after the names were checked, so that no task was ever allowed.
    names: Any = (name for name in ("colors", "shapes"))
    feed = TaskFeed(allow=names, folder=tmp_path, shuffler="127.0.0.1:1", **given)
    assert repr(feed) == "TaskFeed(allow='colors, shapes', shuffler='127.0.0.1:1')"


async def test_a_task_beyond_the_budget_of_its_purpose_is_refused(
    following: Following, shuffler: FakeShuffler, parties: Parties
) -> None:
    budget = PurposeBudget("usage", 3.0, 1e-1)

    def entry(feed: Feed, name: str, stated: PurposeBudget | None, total: float = 2.0) -> FeedEntry:
        privacy = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0, epsilon_total=total)
        task = signed(sample_task(parties, name=name, privacy=privacy), parties)
        made = FeedEntry(
            *(feed.position.number + 1, feed.position.hash, parties.operator.public, parties.shuffler.public),
            *(task.task.id, None, task),
            budget=stated,
        )
        return both(made, parties)

    first = Feed().with_entry(entry(Feed(), "colors", budget))
    feed = following()
    # Both parties signed each of these; a device takes the first one alone.
    for stated, says in (
        (budget, "would take ε 2 .* of which ε 2 of 3 is spent and 1 left"),
        (PurposeBudget("usage", 10.0, 1e-1), "a budget stands as it was stated first"),
    ):
        shuffler.feed = Feed((*first.entries, entry(first, "shapes", stated)))
        await _refused(feed, says, 1)
    shuffler.feed = Feed((*first.entries, entry(first, "colors", None, 0.5)))
    await _refused(feed, "publishes task colors for no purpose", 1)
    assert list(feed.tasks()) == ["colors"]
