"""The store of a worker: it passes every request to the main process.

The main process decides whether a submission is stored, in the transaction that stores it. So a worker's copy of a
round may be old: it is read again after `FRESH_SECONDS`, and forgotten soon after, with its secrets.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from hubbub.protos.enrollment.admitted import Admitted, MasterSecret, RedeemedTicket, Revoked
from hubbub.service.rpc import ipc_messages
from hubbub.shuffler.records import ANY_ROUND, InsertOutcome, Opened, Round, RoundId
from hubbub.shuffler.workers import codec
from hubbub.shuffler.workers.codec import FoundRound
from hubbub.shuffler.workers.ipc import Frame, IpcChannel

FRESH_SECONDS = 1.0
"""How long a worker uses its copy of a round."""

COUNTED_ROUNDS = 1000
"""Rounds whose refusals are counted separately while they cannot be sent: devices may name any round."""


class RemoteStore:
    """A worker's store (`shuffler.stores.protocol.IngestStore`), at the other end of a channel.

    An object serves one event loop.
    """

    def __init__(
        self, channel: IpcChannel, fresh: float = FRESH_SECONDS, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._channel, self._fresh, self._monotonic = channel, fresh, monotonic
        self._seen: dict[RoundId, tuple[float, FoundRound | None]] = {}
        self._looking: dict[RoundId, asyncio.Task[FoundRound | None]] = {}
        self._counts: dict[RoundId, Counter[str]] = {}
        self.damaged: set[int] = set()
        """The `Round.key` of each round whose private key is damaged, among those that were read."""
        self.admitted = Admitted(b"")
        """The admitted credentials, as they were last received."""

    @property
    def waiting(self) -> int:
        """The number of answers that are awaited."""
        return self._channel.waiting

    def close(self) -> None:
        """Close the channel; later requests fail."""
        self._channel.close()

    # Rounds

    async def find(self, task_id: bytes, number: int) -> Round | None:
        """Return a round as it was at most `FRESH_SECONDS` ago."""
        looked = await self._look((task_id, number))
        return None if looked is None else looked.round

    async def submissions(self, round_: Round) -> int:
        """Return how many submissions of a round were acknowledged, at most `FRESH_SECONDS` ago."""
        looked = await self._look((round_.task_id, round_.number))
        return 0 if looked is None else looked.submissions

    async def _look(self, which: RoundId) -> FoundRound | None:
        when, looked = self._seen.get(which, (-math.inf, None))
        if self._monotonic() - when < self._fresh:
            return looked
        task = self._looking.get(which)
        if task is None:
            task = self._looking[which] = asyncio.create_task(self._looked_at(which))
            task.add_done_callback(lambda _: self._looking.pop(which, None))
        # Other callers for the same round share this read, even if its first caller is gone.
        return await asyncio.shield(task)

    async def _looked_at(self, which: RoundId) -> FoundRound | None:
        asked = self._monotonic()
        looked = codec.read_found(which, await self._channel.ask(Frame.FIND, codec.write_which(*which)))
        self._seen[which] = asked, looked
        if looked is not None:
            (self.damaged.add if looked.damaged else self.damaged.discard)(looked.round.key)
        return looked

    def forget(self) -> None:
        """Forget copies that are too old, and send the counts; called once a second."""
        if self._channel.clear:
            self.tell_counts()
        now = self._monotonic()
        self._seen = {which: seen for which, seen in self._seen.items() if now - seen[0] < self._fresh}

    # Submissions

    async def known(self, round_: Round, ids: Sequence[bytes]) -> list[bytes | None]:
        asked = codec.write_ids(round_.task_id, round_.number, ids)
        return codec.read_digests(await self._channel.ask(Frame.KNOWN, asked)) if ids else []

    async def insert(
        self, round_: Round, submissions: Sequence[Opened], unopenable: int = 0, most: int | None = None
    ) -> list[InsertOutcome]:
        asked = codec.write_opened(round_, submissions, unopenable, most)
        return codec.read_outcomes(await self._channel.ask(Frame.INSERT, asked))

    def count(self, task_id: bytes, number: int, names: Mapping[str, int]) -> None:
        """Count refusals; they are added up here while the main process does not read."""
        counted = (task_id, number)
        if counted not in self._counts and len(self._counts) >= COUNTED_ROUNDS:
            counted = (task_id, ANY_ROUND)
        self._counts.setdefault(counted, Counter()).update(names)
        if self._channel.clear:
            self.tell_counts()

    def tell_counts(self) -> None:
        """Send the refusals that were added up."""
        counts, self._counts = self._counts, {}
        for counted, names in counts.items():
            self._channel.tell(Frame.COUNT, codec.write_counts(*counted, names))

    # Credentials

    async def masters(self) -> list[MasterSecret]:
        """Return the master keys as they were last received."""
        return list(self.admitted.masters)

    async def revoked(self) -> Revoked:
        """Return the revoked devices as they were last received."""
        return self.admitted.revoked

    async def redeem(self, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
        """Record tickets as redeemed; return the record of each device, in order."""
        return ipc_messages.read_tickets(await self._channel.ask(Frame.REDEEM, ipc_messages.write_tickets(tickets)))
