"""A service takes each entry of a feed once, in order, and goes on with what it has if the folder is wrong."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hubbub.protos.errors import HubbubError, TaskError
from hubbub.protos.task.feed import files as feed_files
from hubbub.protos.task.feed.entry import FeedEntry, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.feed.files import add_entry, file_of
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.runtime import feed_follower, kept_feed
from hubbub.service.runtime.feed_follower import INCIDENT, FeedFollower
from hubbub.service.runtime.kept_feed import FolderFeed
from support.logged_tasks import demanding, proof_of
from support.messages import NOT_A_FEED_ENTRY
from support.patience import PATIENCE
from support.samples import Parties, sample_task, signed

PARTIES = Parties.generate()
TRUSTED = FeedParties(PARTIES.operator.public, PARTIES.shuffler.public)
TASKS = [signed(sample_task(PARTIES, name=name), PARTIES) for name in ("first", "second", "third")]


def both(entry: FeedEntry) -> FeedEntry:
    return entry.signed_by(PARTIES.operator).signed_by(PARTIES.shuffler)


def feed_of(*tasks: int) -> Feed:
    feed = Feed()
    for task in tasks:
        feed = feed.with_entry(both(feed.publishing(TASKS[task])))
    return feed


@dataclass
class Service:
    """What follows a feed; `refuses` and `fails` are asked before an entry is checked and taken, and may raise."""

    folder: Path
    taken: list[int] = field(default_factory=list)
    refuses: Callable[[int], None] = lambda _number: None
    fails: Callable[[int], None] = lambda _number: None

    def __post_init__(self) -> None:
        self.feed.mkdir(exist_ok=True)
        self.begin()

    @property
    def feed(self) -> Path:
        return self.folder / "of the settings"

    @property
    def kept(self) -> Path:
        return self.folder / "feed"

    def begin(self) -> None:
        """Begin as after a restart: only what is on disk is known."""
        self.incidents = Incidents()
        self.taken.clear()
        self.follower = FeedFollower(
            *(self.feed, FolderFeed(self.kept), TRUSTED, self.incidents), check=self._check, take=self._take
        )

    def _check(self, _feed: Feed, entry: FeedEntry) -> None:
        self.refuses(entry.number)

    async def _take(self, entry: FeedEntry) -> None:
        self.fails(entry.number)
        self.taken.append(entry.number)

    def put(self, feed: Feed) -> None:
        """Put a feed into the folder in place of what is there."""
        shutil.rmtree(self.feed)
        self.feed.mkdir()
        for entry in feed.entries:
            add_entry(self.feed, entry)

    @property
    def trouble(self) -> str:
        found = self.incidents.of(INCIDENT)
        assert self.incidents.count(IncidentKind.FEED) == (found is not None)
        return "" if found is None else found.text


@pytest.fixture
async def service(tmp_path: Path) -> Service:
    made = Service(tmp_path)
    made.put(feed_of(0))
    await made.follower.start()
    assert (made.taken, made.trouble) == ([1], "")
    return made


async def test_new_entries_are_taken_once_and_in_order(service: Service) -> None:
    service.put(feed_of(0, 1, 2))
    for _ in range(3):
        await service.follower.look()
    assert (service.taken, service.trouble) == ([1, 2, 3], "")
    service.begin()
    await service.follower.start()
    assert (service.taken, service.follower.feed) == ([1, 2, 3], feed_of(0, 1, 2))


def _older(service: Service) -> None:
    service.put(Feed())


def _gap(service: Service) -> None:
    service.put(feed_of(0, 1, 2))
    file_of(service.feed, 2).unlink()


def _changed(service: Service) -> None:
    service.put(feed_of(1, 0))


def _one_signature(service: Service) -> None:
    add_entry(service.feed, feed_of(0).publishing(TASKS[1]).signed_by(PARTIES.operator))


def _truncated(service: Service) -> None:
    service.put(feed_of(0, 1))
    content = file_of(service.feed, 2).read_bytes()
    file_of(service.feed, 2).write_bytes(content[: len(content) // 2])


def _another_deployment(service: Service) -> None:
    others = Parties.generate()
    entry = feed_of(0).publishing(signed(sample_task(others), others))
    add_entry(service.feed, entry.signed_by(others.operator).signed_by(others.shuffler))


def _without_its_log(service: Service) -> None:
    task = signed(demanding(sample_task(PARTIES, name="second")), PARTIES)
    entry = feed_of(0).publishing(task, log_proof=proof_of(task.encode()).encode())
    add_entry(service.feed, replace(both(entry), log_proof=None))


WRONG = [
    (_older, "an older copy of the feed"),
    (_gap, "the feed has a gap"),
    (_changed, "has another entry 1 than the one that was taken"),
    (_one_signature, "the shuffler has not signed the feed entry"),
    (_truncated, "000002.json: not a feed entry"),
    (_without_its_log, "task second demands that it is in log stats.example/log, signed by 2 of its 3 witnesses"),
    (_another_deployment, "names another operator than the one that is trusted here"),
]


@pytest.mark.parametrize(("spoil", "says"), WRONG, ids=[spoil.__name__ for spoil, _ in WRONG])
@pytest.mark.parametrize("restarted", [False, True])
async def test_what_is_wrong_is_an_incident_and_changes_nothing(
    service: Service, spoil: Callable[[Service], None], says: str, restarted: bool
) -> None:
    spoil(service)
    if restarted:
        service.begin()
        await service.follower.start()
    for _ in range(2):
        await service.follower.look()
        assert says in service.trouble
        assert service.trouble.endswith("meanwhile the service goes on with the tasks that it has")
    assert service.taken == [1]
    # Once the folder is right again, the next entry is taken, and the incident is over.
    service.put(feed_of(0, 1))
    await service.follower.look()
    assert (service.taken, service.trouble) == ([1, 2], "")


async def test_good_entries_before_a_wrong_one_are_taken(service: Service) -> None:
    service.put(feed_of(0, 1, 2))
    file_of(service.feed, 3).write_bytes(b"{}")
    await service.follower.look()
    assert service.taken == [1, 2]
    assert f"000003.json: {NOT_A_FEED_ENTRY}" in service.trouble


async def test_a_folder_that_is_away_is_an_incident_until_it_is_back(service: Service) -> None:
    shutil.rmtree(service.feed)
    await service.follower.look()
    assert "cannot read" in service.trouble
    service.feed.mkdir()
    service.put(feed_of(0))
    await service.follower.look()
    assert service.trouble == ""


async def test_what_the_service_cannot_do_is_not_taken(service: Service) -> None:
    def refuse(number: int) -> None:
        raise HubbubError(f"no {number}")

    service.refuses = refuse
    service.put(feed_of(0, 1))
    await service.follower.look()
    assert "no 2" in service.trouble
    # It was not kept: another entry may come in its place.
    service.refuses = lambda _number: None
    service.put(feed_of(0, 2))
    await service.follower.look()
    assert (service.taken, service.follower.feed) == ([1, 2], feed_of(0, 2))


def without_second(number: int) -> None:
    if number == 2:
        raise HubbubError("no 2")


def ended(feed: Feed, task: int, after: int) -> Feed:
    return feed.with_entry(both(feed.ending(TASKS[task].task.id, after)))


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_task_that_the_service_cannot_run_is_withdrawn_and_the_feed_goes_on(
    service: Service, restarted: bool
) -> None:
    service.refuses = without_second
    stopped = feed_of(0, 1)
    service.put(stopped)
    await service.follower.look()
    assert "entry 2 of the feed cannot be taken here: no 2. Both parties signed it, so it stays" in service.trouble
    assert "hubbub tasks end FEED second --after -1" in service.trouble
    # An end after a round would have people answer what this service cannot run.
    service.put(ended(stopped, 1, 0))
    await service.follower.look()
    assert (service.taken, "no 2" in service.trouble) == ([1], True)
    # It is final, so nobody is advised to withdraw the task.
    assert "so it stays, as does the end of its task after round 0; change here what" in service.trouble
    assert "--after -1" not in service.trouble
    corrected = ended(stopped, 1, -1)
    corrected = corrected.with_entry(both(corrected.publishing(TASKS[2])))
    service.put(corrected)
    if restarted:
        service.begin()
        await service.follower.start()
    else:
        await service.follower.look()
    assert (service.taken, service.trouble) == ([1, 2, 3, 4], "")
    withdrawn = [service.follower.withdrawn(each.task.id) for each in TASKS]
    assert withdrawn == [False, True, False]
    service.begin()
    await service.follower.start()
    assert [service.follower.withdrawn(each.task.id) for each in TASKS] == withdrawn


async def test_a_task_that_the_service_runs_is_ended_and_not_withdrawn(service: Service) -> None:
    service.put(ended(feed_of(0, 1), 1, -1))
    await service.follower.look()
    assert (service.taken, service.follower.withdrawn(TASKS[1].task.id)) == ([1, 2, 3], False)


async def test_a_kill_between_a_withdrawn_task_and_its_end_does_not_stop_the_next_start(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.refuses = without_second
    service.put(ended(feed_of(0, 1), 1, -1))

    def killed(folder: Path, entry: FeedEntry) -> Path:
        if entry.number == 3:
            raise asyncio.CancelledError
        return add_entry(folder, entry)

    with monkeypatch.context() as patched:
        patched.setattr(kept_feed, "add_entry", killed)
        with pytest.raises(asyncio.CancelledError):
            await service.follower.look()
    assert file_of(service.kept, 2).exists()
    assert not file_of(service.kept, 3).exists()
    service.begin()
    await service.follower.start()
    assert (service.taken, service.trouble) == ([1, 2, 3], "")
    assert service.follower.withdrawn(TASKS[1].task.id)


async def test_what_fails_is_tried_again_until_it_is_done(service: Service) -> None:
    failures = iter([OSError("the disk is full"), RuntimeError("unforeseen")])

    def fail(_number: int) -> None:
        for error in failures:
            raise error

    service.fails = fail
    service.put(feed_of(0, 1, 2))
    for says in ("the disk is full", "unforeseen", ""):
        assert service.taken == [1]
        await service.follower.look()
        assert says in service.trouble
    assert (service.taken, service.trouble) == ([1, 2, 3], "")


@pytest.mark.parametrize("step", ["fsync", "sync_folder"])
async def test_what_the_disk_refused_is_kept_once_there_is_room(
    service: Service, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    tries = []

    def full(what: object, **_: object) -> None:
        tries.append(what)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    service.put(feed_of(0, 1))
    with monkeypatch.context() as patched:
        patched.setattr(os if step == "fsync" else feed_files, step, full)
        for _ in range(3 * feed_follower.LOOKS):
            await service.follower.look()
            assert "No space left on device" in service.trouble
        # A large feed is not read every second meanwhile.
        assert len(tries) == 3
    assert not list(service.kept.glob(".*"))
    # The folder of the settings is unchanged.
    for _ in range(feed_follower.LOOKS):
        await service.follower.look()
    assert (service.taken, service.trouble) == ([1, 2], "")
    # From then on, an unchanged folder is not read at all.
    monkeypatch.delattr(feed_follower, "read_entries")
    for _ in range(2 * feed_follower.LOOKS):
        await service.follower.look()
    assert service.trouble == ""


async def test_a_file_that_becomes_whole_while_it_is_read_is_read_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.put(feed_of(0, 1))
    path = file_of(service.feed, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with monkeypatch.context() as patched:
        real = FeedEntry.decode

        def completed(document: bytes) -> FeedEntry:
            try:
                return real(document)
            finally:
                if document == whole[:100]:
                    path.write_bytes(whole)

        patched.setattr(FeedEntry, "decode", completed)
        await service.follower.look()
    assert f"000002.json: {NOT_A_FEED_ENTRY}" in service.trouble
    await service.follower.look()
    assert (service.taken, service.trouble) == ([1, 2], "")


async def test_a_folder_that_comes_back_unchanged_ends_the_incident(service: Service) -> None:
    away = service.feed.rename(service.folder / "away")
    await service.follower.look()
    assert "cannot read" in service.trouble
    away.rename(service.feed)
    await service.follower.look()
    assert service.trouble == ""


async def test_a_service_does_not_follow_its_own_copy(service: Service) -> None:
    shutil.rmtree(service.feed)
    service.feed.symlink_to(service.kept)
    service.begin()
    with pytest.raises(TaskError, match=r"`feed` names .*, where the service keeps its own copy; name another folder"):
        await service.follower.start()


async def test_an_entry_that_was_kept_before_a_kill_is_taken_at_the_next_start(service: Service) -> None:
    def killed(_number: int) -> None:
        raise asyncio.CancelledError

    service.fails = killed
    service.put(feed_of(0, 1))
    with pytest.raises(asyncio.CancelledError):
        await service.follower.look()
    service.fails = lambda _number: None
    # The folder of the settings may be gone by then.
    service.put(feed_of(0))
    service.begin()
    await service.follower.start()
    assert service.taken == [1, 2]
    assert "an older copy of the feed" in service.trouble


async def test_a_service_does_not_start_on_a_damaged_copy(service: Service) -> None:
    file_of(service.kept, 1).write_bytes(b"")
    service.begin()
    with pytest.raises(TaskError, match=rf"taken of the feed cannot be used: .*000001.json: {NOT_A_FEED_ENTRY}"):
        await service.follower.start()
    assert service.taken == []


async def test_the_folder_is_watched(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_follower, "LOOK_SECONDS", 0.0)
    async with service.follower.watched(), asyncio.timeout(PATIENCE):
        service.put(feed_of(0, 1))
        while service.taken != [1, 2]:  # noqa: ASYNC110 - a thread has no event of the loop to set
            await asyncio.sleep(0)
    service.put(feed_of(0, 1, 2))
    await asyncio.sleep(0)
    assert service.taken == [1, 2]


async def test_no_error_ends_the_watch(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(number: int) -> None:
        raise ValueError(f"unforeseen {number}")

    monkeypatch.setattr(feed_follower, "LOOK_SECONDS", 0.0)
    service.refuses = broken
    service.put(feed_of(0, 1))
    async with service.follower.watched(), asyncio.timeout(PATIENCE):
        while "unforeseen 2" not in service.trouble:  # noqa: ASYNC110 - a thread has no event of the loop to set
            await asyncio.sleep(0)
        service.refuses = lambda _number: None
        service.put(feed_of(0, 2))
        while service.taken != [1, 2]:  # noqa: ASYNC110 - a thread has no event of the loop to set
            await asyncio.sleep(0)
