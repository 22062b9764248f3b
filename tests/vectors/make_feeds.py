"""Writes tests/vectors/wire/feeds.json: answers of `GetFeed` that a device takes, and those that it must refuse.

    python tests/vectors/make_feeds.py

Each answer comes to a device that took the entries of `taken` before. `because` is null for what is to be taken; the
README beside the file has the other words. `tests/unit/client/test_feed_vectors.py` checks the file.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.protos.identity.successions import Succession  # noqa: E402
from hubbub.protos.task.feed.budgets import PurposeBudget  # noqa: E402
from hubbub.protos.task.feed.entry import FeedEntry  # noqa: E402
from hubbub.protos.task.feed.feed import Feed  # noqa: E402
from hubbub.protos.task.task import Privacy  # noqa: E402
from support.samples import sample_task, signed  # noqa: E402
from vectors.make_signed import PARTIES, identity, vector_succession  # noqa: E402

FILE = Path(__file__).parent / "wire" / "feeds.json"

NAMES = ("flights", "trains")
"""The tasks of the feed, in order; a third entry ends the first task after round 1."""


def _both(entry: FeedEntry) -> FeedEntry:
    return entry.signed_by(PARTIES.operator).signed_by(PARTIES.shuffler)


def good() -> list[FeedEntry]:
    """The entries of the feed."""
    feed = Feed()
    for name in NAMES:
        feed = feed.with_entry(_both(feed.publishing(signed(sample_task(PARTIES, name=name), PARTIES))))
    first = feed.entries[0].task_id
    return [*feed.entries, _both(feed.ending(first, 1))]


Case = tuple[str, str | None, Sequence[bytes], Sequence[bytes]]
"""What is different, the word for it, the entries that were taken before, and those of the answer."""

SuccessionCase = tuple[str, str | None, Sequence[bytes], Sequence[bytes], Sequence[Succession]]
"""The same, with the successions that come beside the answer."""


def cases() -> Iterator[Case]:
    """Return every answer."""
    entries = good()
    one, two, three = (entry.encode() for entry in entries)
    yield "the whole feed, to a new device", None, [], [one, two, three]
    yield "from the last known entry on", None, [one], [one, two, three]
    yield "nothing new", None, [one, two], [two]
    yield "no entry yet", None, [], []
    yield "an older copy", "number", [one, two], []
    yield "a gap", "number", [one], [one, three]
    yield "not from the first on", "number", [], [two, three]
    yield "an entry twice", "number", [one], [one, two, two]
    other = _both(Feed().publishing(signed(sample_task(PARTIES, name="ships"), PARTIES)))
    yield "another entry in the place of a known one", "previous", [one], [other.encode(), two]
    follows = _both(replace(entries[1], previous=other.hash, operator_signature=None, shuffler_signature=None))
    yield "an entry that follows another one", "previous", [one], [one, follows.encode()]
    bare = replace(entries[1], operator_signature=None)
    yield "an entry without the operator's signature", "signature", [one], [one, bare.encode()]
    swapped = replace(entries[1], operator_signature=entries[0].operator_signature)
    yield "the signature of another entry", "signature", [one], [one, swapped.encode()]
    task = entries[1].signed
    assert task is not None
    unsigned = replace(entries[1], signed=replace(task, shuffler_signature=None))
    yield "a task without the shuffler's signature", "signature", [one], [one, unsigned.encode()]
    nobody = replace(entries[1], operator=identity(99).public, operator_signature=None, shuffler_signature=None)
    stranger = nobody.signed_by(identity(99)).signed_by(PARTIES.shuffler)
    yield "an entry of another operator", "signature", [one], [one, stranger.encode()]
    again = _both(
        replace(entries[2], number=4, previous=entries[2].hash, operator_signature=None, shuffler_signature=None)
    )
    yield "a task that is ended twice", "value", [one, two, three], [three, again.encode()]
    beyond = _both(replace(entries[2], after=3, operator_signature=None, shuffler_signature=None))
    yield "an end after a round that the task does not have", "value", [one, two], [two, beyond.encode()]
    yield "a space after a colon", "canonical", [one], [one, two.replace(b'":', b'": ', 1)]
    yield "no end", "canonical", [one], [one, two[:-1]]
    yield "a later version", "format", [one], [one, two.replace(b"hubbub-feed/1", b"hubbub-feed/2")]


def of_a_purpose() -> Iterator[Case]:
    """Return answers with tasks that share a budget, of which the first takes ε 2 of 3."""
    usage = PurposeBudget("usage", 3.0, 0.1)
    first = _for("flights", 2.0, usage, Feed())
    feed, one = Feed().with_entry(first), first.encode()
    yield "a task with a share of a budget", None, [], [one]
    yield "two tasks with the whole budget", None, [one], [one, _for("trains", 1.0, usage, feed).encode()]
    yield "a task beyond the budget", "budget", [one], [one, _for("trains", 1.5, usage, feed).encode()]
    yield "a task without a cap", "budget", [one], [one, _for("trains", None, usage, feed).encode()]
    larger = replace(usage, epsilon=10.0)
    yield "another budget for the purpose", "budget", [one], [one, _for("trains", 1.0, larger, feed).encode()]
    yield "the same name without the purpose", "budget", [one], [one, _for("flights", 1.0, None, feed).encode()]


def _for(name: str, total: float | None, budget: PurposeBudget | None, feed: Feed) -> FeedEntry:
    """The next entry of a feed, which publishes a task for a purpose, whatever is left."""
    privacy = Privacy(10.0, 1e-2, 20.0, epsilon_total=total, large_delta="a vector: these are nobody's answers")
    task = signed(sample_task(PARTIES, name=name, privacy=privacy), PARTIES)
    who, last = PARTIES.public, feed.position
    parts = (last.number + 1, last.hash, who.operator, who.shuffler, task.task.id, None, task)
    return _both(FeedEntry(*parts, budget=budget))


def of_a_cap() -> Iterator[Case]:
    """Return answers with a task that costs more in a round than it says itself, which no device answers."""
    one, *_ = good()
    privacy = Privacy(10.0, 1e-2, 0.5, large_delta="a vector: these are nobody's answers")
    over = signed(sample_task(PARTIES, name="trains", privacy=privacy), PARTIES)
    feed = Feed((one,))
    feed = feed.with_entry(_both(feed.publishing(over)))
    two = feed.entries[-1]
    three = _both(feed.ending(two.task_id, -1))
    four = _both(feed.with_entry(three).publishing(signed(sample_task(PARTIES, name="ships"), PARTIES)))
    documents = [each.encode() for each in (one, two, three, four)]
    yield "a task beyond its own cap", "value", documents[:1], documents[:2]
    yield "a task beyond its own cap, which the next entry withdraws", None, documents[:1], documents
    yield "the same, to a new device", None, [], documents


def of_successors() -> Iterator[SuccessionCase]:
    """Return answers with an entry that the shuffler's successor signed."""
    one, *_ = good()
    new = identity(14)
    who, last = PARTIES.public, one.position
    task = signed(sample_task(PARTIES, name="trains"), PARTIES)
    bare = FeedEntry(last.number + 1, last.hash, who.operator, new.public, task.task.id, None, task)
    two = bare.signed_by(PARTIES.operator).signed_by(new)
    first, answer = [one.encode()], [one.encode(), two.encode()]
    leads = vector_succession()
    lacking = replace(leads, signatures=leads.signatures[:2])
    yield "an entry by the shuffler's successor", None, first, answer, [leads]
    yield "an entry by the shuffler's successor, without the succession", "signature", first, answer, []
    yield "a succession that its witness has not signed", "signature", first, answer, [lacking]
    yield "an entry by the shuffler, which has a successor", None, first, [each.encode() for each in good()], [leads]


def _tasks(case: Case) -> list[str] | None:
    """The names of the tasks that a device has after the answer; a task that was withdrawn is none."""
    _what, because, taken, answer = case
    if because is not None:
        return None
    entries = [FeedEntry.decode(each) for each in dict.fromkeys((*taken, *answer))]
    withdrawn = {each.task_id for each in entries if each.after == -1}
    return sorted(each.signed.task.name for each in entries if each.signed and each.task_id not in withdrawn)


def content() -> dict[str, Any]:
    """Return what the file has."""
    return {
        "origin": "November 2026: feeds made for this file; the keys protect nothing.",
        "operator_key": PARTIES.operator.public.hex(),
        "shuffler_key": PARTIES.shuffler.public.hex(),
        "names": [*NAMES, "ships"],
        "ends": {"task": good()[0].task_id.hex(), "after": 1},
        "cases": [
            *(_content(*each) for each in (*cases(), *of_a_purpose(), *of_a_cap())),
            *(_content(*each) for each in of_successors()),
        ],
    }


def _content(
    what: str,
    because: str | None,
    taken: Sequence[bytes],
    answer: Sequence[bytes],
    successions: Sequence[Succession] = (),
) -> dict[str, Any]:
    case = {"what": what, "because": because, "taken": _base64(taken), "entries": _base64(answer)}
    beside = _base64([each.encode() for each in successions])
    return {**case, "successions": beside, "tasks": _tasks((what, because, taken, answer))}


def _base64(documents: Sequence[bytes]) -> list[str]:
    return [base64.b64encode(document).decode() for document in documents]


def encoded() -> bytes:
    """Return the file."""
    return (json.dumps(content(), indent=1) + "\n").encode()


if __name__ == "__main__":
    FILE.write_bytes(encoded())
