"""What is on disk, as the event loop reads it, and counts that are still to be written.

It is changed only after a commit, so that nothing that is not on disk is ever acknowledged. Ids are looked up here
(`ids`) and rebuilt at the start: a unique index on random 16-byte ids would hold the writer at about 31,000 rows a
second, as many as two cores open.
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
    """What is on disk, and counts that are still to be written.

    Counts go from `pending` (given by the event loop) over `writing` (in the transaction that runs) to `tallies` (on
    disk). They are shown from the start, since they promise nothing to anyone: hence the lock, and the three stages.
    """

    rounds: dict[RoundId, Round] = field(default_factory=dict)
    known: dict[int, IdIndex] = field(default_factory=dict)
    tallies: dict[RoundId, Tally] = field(default_factory=dict)
    next_block: dict[int, int] = field(default_factory=dict)
    charges: dict[bytes, list[Charge]] = field(default_factory=dict)
    unswept: set[int] = field(default_factory=set)
    """Keys of mixed rounds whose submissions as they came are still to be deleted."""
    pending: dict[RoundId, Tally] = field(default_factory=dict)
    writing: dict[RoundId, Tally] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ids(self, round_key: int) -> IdIndex:
        """Return the ids that a round holds."""
        return self.known.get(round_key, _NO_IDS)

    def add_pending(self, counts: Mapping[RoundId, Tally]) -> None:
        """Add counts that are still to be written."""
        with self._lock:
            add_counts(self.pending, counts)

    def take_pending(self) -> dict[RoundId, Tally]:
        """Take the counts that are still to be written."""
        with self._lock:
            taken, self.pending = self.pending, {}
            add_counts(self.writing, taken)
        return taken

    def tally(self, key: RoundId) -> Tally:
        """Return all counts of a round: those on disk, those being written and those that wait."""
        with self._lock:
            return sum((counts.get(key, Counter()) for counts in (self.tallies, self.writing, self.pending)), Counter())

    def show_counts(self, *written: Mapping[RoundId, Tally]) -> None:
        """Show counts that are on disk now, in place of those being written."""
        with self._lock:
            self.writing = {}
            for counts in written:
                add_counts(self.tallies, counts)

    def put_back(self, taken: Mapping[RoundId, Tally]) -> None:
        """Have counts that could not be written wait again."""
        with self._lock:
            self.writing = {}
            add_counts(self.pending, taken)


def add_counts(tallies: dict[RoundId, Tally], more: Mapping[RoundId, Tally]) -> None:
    """Add `more` counts by round to `tallies`."""
    for key, tally in more.items():
        tallies.setdefault(key, Counter()).update(tally)
