"""The state on disk, as the event loop reads it, and counts that are not written yet.

It changes only after a commit, so nothing is acknowledged that is not on disk. Ids are looked up here (`ids`) and
rebuilt at the start: a unique index on random 16-byte ids would limit the writer to about 31,000 rows a second, as many
as two cores open.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from hubbub.service.ledger.charges import Charge
from hubbub.shuffler.records import Round, RoundId, Tally
from hubbub.shuffler.stores.sqlite.id_index import IdIndex

_NO_IDS = IdIndex()


@dataclass
class Snapshot:
    """The state on disk, and counts that are not written yet.

    Counts go from `pending` (from the event loop) over `writing` (in the running transaction) to `tallies` (on disk).
    They are shown from the start, since they promise nothing: hence the lock, and the three stages.
    """

    rounds: dict[RoundId, Round] = field(default_factory=dict)
    known: dict[int, IdIndex] = field(default_factory=dict)
    tallies: dict[RoundId, Tally] = field(default_factory=dict)
    next_block: dict[int, int] = field(default_factory=dict)
    charges: dict[bytes, list[Charge]] = field(default_factory=dict)
    unswept: set[int] = field(default_factory=set)
    """Keys of mixed rounds whose arrived submissions are not deleted yet."""
    pending: dict[RoundId, Tally] = field(default_factory=dict)
    writing: dict[RoundId, Tally] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ids(self, round_key: int) -> IdIndex:
        """Return the ids of a round's submissions."""
        return self.known.get(round_key, _NO_IDS)

    def add_pending(self, counts: Mapping[RoundId, Tally]) -> None:
        """Add counts that are not written yet."""
        with self._lock:
            add_counts(self.pending, counts)

    def take_pending(self) -> dict[RoundId, Tally]:
        """Take the counts that are not written yet."""
        with self._lock:
            taken, self.pending = self.pending, {}
            add_counts(self.writing, taken)
        return taken

    def tally(self, key: RoundId) -> Tally:
        """Return all counts of a round: on disk, being written, and waiting."""
        with self._lock:
            return sum((counts.get(key, Counter()) for counts in (self.tallies, self.writing, self.pending)), Counter())

    def show_counts(self, *written: Mapping[RoundId, Tally]) -> None:
        """Show counts that are now on disk, in place of those being written."""
        with self._lock:
            self.writing = {}
            for counts in written:
                add_counts(self.tallies, counts)

    def put_back(self, taken: Mapping[RoundId, Tally]) -> None:
        """Return counts that could not be written to the waiting ones."""
        with self._lock:
            self.writing = {}
            add_counts(self.pending, taken)


def add_counts(tallies: dict[RoundId, Tally], more: Mapping[RoundId, Tally]) -> None:
    """Add `more` counts by round to `tallies`."""
    for key, tally in more.items():
        tallies.setdefault(key, Counter()).update(tally)
