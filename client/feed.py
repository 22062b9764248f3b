"""Fetches the tasks that a deployment publishes, so that an application ships the parties' keys and no task."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from hubbub.client.blocking import in_thread, run_sync
from hubbub.client.session.trust import (
    check_epsilon_local,
    checked_bytes,
    checked_path,
    checked_shuffler,
    named_proxy,
    named_relay,
    public_key,
    trusted_authority,
)
from hubbub.client.submit import Retrying, ShufflerLink
from hubbub.client.validation import checked_function, checked_type
from hubbub.protos.errors import TaskError, UsageError
from hubbub.protos.identity.successions import MOST_SUCCESSIONS, read_successions
from hubbub.protos.task.feed.entry import FeedEntry, FeedError, FeedParties
from hubbub.protos.task.feed.feed import Feed, FeedPage
from hubbub.protos.task.feed.files import add_entry, feed_in
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.relay import Relay


class TaskFeed:
    """The feed of a deployment's tasks, as one application follows it.

    The application allows tasks by their names, and gives each task to a `Device` or a `Fleet`, with the proof of one
    that demands a transparency log:

        feed = TaskFeed(allow={"colors"}, folder=Path("feed"), ...)
        await feed.fetch()
        proofs = feed.log_proofs()
        devices = [Device(task, log_proof=proofs.get(name), ...) for name, task in feed.tasks().items()]

    The operator and the shuffler sign each entry of the feed and each task. Both are checked with the keys that the
    application ships. What was taken is kept in `folder`: an older copy of the feed, a gap, or another entry in the
    place of a taken one is refused. A shuffler can hold new entries back, and no device would notice.
    """

    def __init__(
        self,
        *,
        allow: Collection[str],
        operator_key: bytes,
        shuffler_key: bytes,
        folder: Path,
        shuffler: str,
        authority: Path | bytes,
        retrying: Retrying | None = None,
        proxy: str | None = None,
        relay: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare to follow a feed; nothing is read or sent yet.

        Args:
            allow: the names of the tasks that the application takes part in, if the feed publishes them.
            operator_key: the operator's public key, as PEM or as 32 raw bytes; got from the operator itself.
            shuffler_key: the shuffler's public key, likewise.
            folder: a folder of the application, which is made if it is not there; keep it.
            shuffler: host:port of the shuffler, or https://host:port.
            authority: the certificate of the authority that issued the shuffler's, as a Path or as bytes.
            retrying: how long to try, and how; 60 seconds by default.
            proxy: http://host:port of a proxy through which the shuffler is called.
            relay: https://host/path of a relay through which all calls go, as `Device` takes it.
            clock: returns seconds since 1970.

        Raises:
            UsageError: if an argument is of another type.
            SignatureError: if a key cannot be read.
            AuthorityError: if the authority's certificate cannot be used.
        """
        # Gone through once, as a generator is then empty.
        names = list(allow) if isinstance(allow, Iterable) else [None]
        if isinstance(allow, str) or not all(isinstance(name, str) for name in names):
            raise UsageError("allow has the names of tasks; give a set of texts, such as {'colors'}")
        self._allowed = frozenset(names)
        self._operator = public_key(checked_bytes(operator_key, "operator_key"), "the operator's key")
        self._shuffler = public_key(checked_bytes(shuffler_key, "shuffler_key"), "the shuffler's key")
        self._folder = checked_path(folder, "folder")
        self._address = checked_shuffler(shuffler)
        self._tls = TLS(trusted_authority(authority), None, None, named_proxy(proxy))
        given = Retrying() if retrying is None else retrying
        self._retrying = checked_type(given, Retrying, "retrying", "a Retrying(…), or None")
        self._clock: Callable[[], float] = checked_function(clock, "clock", "seconds since 1970")
        url = named_relay(relay)
        self._relay = None if url is None else Relay(url, lambda _successions: self._shuffler, self._clock)

    def __repr__(self) -> str:
        """Return the names that it allows, and the shuffler."""
        names = ", ".join(sorted(self._allowed))
        return f"TaskFeed(allow={names!r}, shuffler={self._address!r})"

    async def fetch(self, *, timeout: float | None = None) -> int:  # noqa: ASYNC109 - for all calls, not for the whole
        """Take the entries that are new at the shuffler; return how many there were.

        `timeout` is how many seconds to try; the default is that of `retrying`, or 60.

        Raises:
            FeedError: if the shuffler's feed is an older copy, or another one, or an entry is not signed by both, or
                has no proof of a log that its task demands; it names the entry. The entries before it are kept, and
                nothing else changes.
            TaskError: if a published task does not respect its own cap on ε_local.
            Refusal: if the shuffler has no feed.
            Unreachable: if the shuffler does not answer.
        """
        retrying, known = self._retrying.begun(timeout), await in_thread(self._known)()
        before = known.position.number
        async with ShufflerLink(self._address, self._tls, self._relay) as link:
            while True:
                # From the last known entry on: the shuffler shows that its feed goes on from there.
                first = max(1, known.position.number)
                page = await retrying.retry(lambda deadline, first=first: link.caller.get_feed(first, deadline))  # type: ignore[misc]
                # Not read from the folder again at each page: a new device would check a long feed many times.
                after = await in_thread(self._take)(known, page)
                if after is known:
                    return known.position.number - before
                known = after

    def fetch_blocking(self, *, timeout: float | None = None) -> int:
        """Do what `fetch` does, in a program without an event loop.

        Raises:
            UsageError: inside a running event loop; and what `fetch` raises.
        """
        return run_sync(lambda: self.fetch(timeout=timeout), "fetch")

    def tasks(self) -> dict[str, bytes]:
        """Return the signed tasks that the application allows and that are not over, by name; no call is made.

        If several tasks of one name are not over, the last one that was published counts.

        Raises:
            FeedError: if the folder was changed.
        """
        return {name: signed.encode() for name, signed in self._live(self._known()).items()}

    def log_proofs(self) -> dict[str, bytes]:
        """Return the proof of each of these tasks that demands a transparency log, by the task's name.

        Raises:
            FeedError: if the folder was changed.
        """
        feed = self._known()
        live = self._live(feed).items()
        return {name: feed.log_proofs[each.task.id] for name, each in live if each.task.id in feed.log_proofs}

    def _live(self, feed: Feed) -> dict[str, SignedTask]:
        """Return the allowed tasks of a feed that are not over, by name."""
        now, found = self._clock(), dict[str, SignedTask]()
        for signed in feed.published.values():
            schedule = signed.task.schedule
            last = feed.ends.get(signed.task.id, schedule.rounds - 1)
            if signed.task.name in self._allowed and last >= 0 and now < schedule.cut(last):
                found[signed.task.name] = signed
        return found

    def _known(self) -> Feed:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot use folder {self._folder}: {error.strerror}; name a writable folder") from error
        # Signatures were checked when the entries were taken; successions are not kept.
        return feed_in(self._folder)

    def _take(self, known: Feed, page: FeedPage) -> Feed:
        """Keep the new entries of a page; return the feed with them, or the same one if there are none."""
        entries = [FeedEntry.decode(document) for document in page.entries]
        last = known.position
        if last.number:
            if not entries:
                raise FeedError(
                    f"the shuffler's feed ends before entry {last.number}, which was taken here: it is an older copy; "
                    "report it to the operator"
                )
            if entries[0].position != last:
                raise FeedError(
                    f"the shuffler's feed has another entry {last.number} than the one that was taken here; report it "
                    "to the operator"
                )
            entries = entries[1:]
        if len(page.successions) > MOST_SUCCESSIONS:
            came = f"{len(page.successions)} successions came with the feed"
            raise FeedError(f"{came}; at most {MOST_SUCCESSIONS} may: report it to the operator")
        parties = FeedParties(self._operator, self._shuffler, read_successions(page.successions))
        ended_unused = {entry.task_id for entry in entries if entry.after == -1}
        for number, entry in enumerate(entries):
            after = known.with_entry(entry)
            task = entry.check(parties)
            # A task that cannot be answered stays in the feed, and the next entry withdraws it: `tasks` leaves it out.
            if task is not None and task.id not in ended_unused:
                try:
                    check_epsilon_local(task)
                except TaskError:
                    # The page may end before the entry that withdraws it; the next page begins with those before it.
                    if 0 < number == len(entries) - 1:
                        break
                    raise
            add_entry(self._folder, entry)
            known = after
        return known
