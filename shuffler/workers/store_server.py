"""Answers workers' requests from the store of the main process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from hubbub.protos.enrollment.admitted import VERSION_BYTES, Admitted
from hubbub.protos.identity.keys import Identity
from hubbub.protos.identity.successions import Succession
from hubbub.protos.oblivious.key_records import MOST_RECORDS, ObliviousRecord, write_oblivious_records
from hubbub.service.errors import StoreError
from hubbub.service.rpc import ipc_messages
from hubbub.shuffler.admit.credentials import Credentials
from hubbub.shuffler.records import Round
from hubbub.shuffler.stores.protocol import IngestStore
from hubbub.shuffler.workers import codec
from hubbub.shuffler.workers.codec import FoundRound
from hubbub.shuffler.workers.ipc import Frame
from hubbub.shuffler.workers.live_feed import FeedServer

_UNNAMED = bytes(VERSION_BYTES)
"""The version of all answers here: they are always the newest, so no version is needed."""


class SharedCredentials(Credentials):
    """Credentials that every worker gets after each read; the operator is answered once all workers have them."""

    def __init__(self, identity: Identity, successions: Sequence[Succession], clock: Callable[[], float]) -> None:
        """Start without keys; `identity` signs the oblivious key, valid from the day on that `clock` gives."""
        super().__init__()
        self._identity, self._clock = identity, clock
        self._successions = [each.encode() for each in successions]
        self.admitted = Admitted(_UNNAMED)
        self.tell: Callable[[Admitted], Awaitable[None]] | None = None

    async def read(self, store: IngestStore) -> None:
        """Read the store, and send the result to the workers."""
        await super().read(store)
        self.oblivious_records = self._signed_oblivious_key()
        self.admitted = Admitted(_UNNAMED, tuple(await store.masters()), self.revoked, self.oblivious_records)
        if self.tell is not None:
            await self.tell(self.admitted)

    def _signed_oblivious_key(self) -> bytes:
        """Sign the oblivious key by every identity of this shuffler: a device knows the one that its task names."""
        configuration = self.oblivious_keys.preferred
        if configuration is None:
            return b""
        record = ObliviousRecord.at(configuration, self._clock())
        signed = [record.signed_by(each) for each in self._identity.every()[:MOST_RECORDS]]
        return write_oblivious_records(signed, self._successions)


class StoreServer:
    """Answers workers' requests to a store; `damaged` has the `Round.key` of each round with a damaged private key."""

    def __init__(self, store: IngestStore, credentials: SharedCredentials, damaged: Collection[int]) -> None:
        self._store, self._credentials, self._damaged = store, credentials, damaged
        self._answers: dict[Frame, Callable[[bytes], Awaitable[bytes]]] = {
            Frame.FIND: self._find,
            Frame.KNOWN: self._known,
            Frame.INSERT: self._insert,
            Frame.COUNT: self._count,
            Frame.REDEEM: self._redeem,
            Frame.ADMITTED: self._admitted,
        }

    def with_feed(self, feed: FeedServer) -> None:
        """Answer requests about the feed of tasks, too."""
        self._answers |= {Frame.TASKS: feed.tasks, Frame.FEED: feed.page}

    async def answer(self, frame: Frame, payload: bytes) -> bytes:
        """Return the answer to a worker's request.

        Raises:
            StoreError: if the store failed, or the request is for something unknown.
        """
        answer = self._answers.get(frame)
        if answer is None:
            raise StoreError(f"a worker sent {frame.name}, which is not a request; restart the shuffler")
        return await answer(payload)

    async def _find(self, payload: bytes) -> bytes:
        round_ = await self._store.find(*codec.read_which(payload))
        if round_ is None:
            return codec.write_found(None)
        held = await self._store.submissions(round_)
        return codec.write_found(FoundRound(round_, held, round_.key in self._damaged))

    async def _round(self, payload: bytes) -> Round:
        which = codec.read_which(payload)
        round_ = await self._store.find(*which)
        if round_ is None:
            raise StoreError(f"round {which[1]} was not begun")
        return round_

    async def _known(self, payload: bytes) -> bytes:
        round_ = await self._round(payload)
        return codec.write_digests(await self._store.known(round_, codec.read_ids(payload)))

    async def _insert(self, payload: bytes) -> bytes:
        round_ = await self._round(payload)
        submissions, unopenable, most = codec.read_opened(payload)
        return codec.write_outcomes(await self._store.insert(round_, submissions, unopenable, most))

    async def _count(self, payload: bytes) -> bytes:
        self._store.count(*codec.read_counts(payload))
        return b""

    async def _redeem(self, payload: bytes) -> bytes:
        return ipc_messages.write_tickets(await self._store.redeem(ipc_messages.read_tickets(payload)))

    async def _admitted(self, _payload: bytes) -> bytes:
        return ipc_messages.write_admitted(self._credentials.admitted)
