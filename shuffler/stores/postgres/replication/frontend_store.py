"""The store of a front end: the part that answers devices, with secrets in memory alone.

The database decides whether a submission is stored, in the transaction that stores it, as at the leader. So a front
end's copy of a round may be old: it is read again after `FRESH_SECONDS`. Secrets come from the leader, once a round,
when the round has keys. When a front end sees that a round is cut, it forgets the private key and the key of blocks;
when it sees that the round is over, it forgets all. It looks at every round with secrets here each `LOOK_SECONDS`; if
it cannot look, it forgets them `LATE_SECONDS` after the scheduled cut.

While no leader answers, rounds with secrets here go on. Others are NOT_READY in any state. Without their
secrets a retry and a late submission cannot be distinguished, and an acknowledged device must not be answered that it
is too late. Nor are devices enrolled, and a new master key is unknown here. So after `OUTDATED_SECONDS` a device with
an unknown credential is asked to come again, and not refused for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from hubbub.protos.enrollment.admitted import Admitted, MasterSecret, RedeemedTicket, Revoked
from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Refusal
from hubbub.service.errors import StoreError
from hubbub.service.postgres import kept_feed
from hubbub.service.postgres.sessions import Connection, Sessions
from hubbub.shuffler.records import Round, RoundId, is_over, not_ready
from hubbub.shuffler.stores.postgres import tables
from hubbub.shuffler.stores.postgres.ingest import PostgresIngestStore
from hubbub.shuffler.stores.postgres.replication.leader_client import LeaderAwayError, LeaderClient
from hubbub.shuffler.stores.postgres.sealing import RoundCipher
from hubbub.shuffler.stores.postgres.secrets import DESTROYED, StorageSecrets

FRESH_SECONDS = 1.0
"""How long a copy of a round is used."""

LOOK_SECONDS = 2.0
"""How often the leader is asked for credentials, and rounds with secrets here are looked at."""

LATE_SECONDS = 60.0
"""How long after its scheduled cut a round's secrets are kept if the round cannot be looked at."""

OUTDATED_SECONDS = 10.0
"""Age from which the known master keys may be outdated."""


IDLE_SECONDS, STATEMENT_SECONDS = 10, 30
"""Seconds after which the server rolls back a front end's idle transaction, and seconds after which it cancels a
statement."""


class FrontendSessions(Sessions):
    """A front end's connections; their timeouts keep a suspended front end from delaying a cut for long."""

    def configure(self, connection: Connection) -> None:
        """Set the timeouts of a new connection."""
        super().configure(connection)
        connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'")
        connection.execute(f"SET statement_timeout = '{STATEMENT_SECONDS}s'")


def _suffice(secrets: StorageSecrets | None, round_: Round) -> bool:
    """Return whether the secrets suffice for a round; the leader sends no private key of a round that it has cut."""
    return secrets is not None and bool(secrets.private_key or round_.state is not RoundState.OPEN)


class SecretCache:
    """Secrets of rounds in memory (`secrets.SecretsOf`); usable from any thread."""

    def __init__(self) -> None:
        self._secrets: dict[RoundId, StorageSecrets] = {}

    def of(self, round_: RoundId) -> StorageSecrets:
        """Return a round's secrets.

        Raises:
            StoreError: if there are none.
        """
        found = self._secrets.get(round_)
        if found is None:
            raise LeaderAwayError(f"the secrets of round {round_[1]} have not come from the leader yet; try again")
        return found

    def get(self, round_: RoundId) -> StorageSecrets | None:
        """Return a round's secrets, None if there are none."""
        return self._secrets.get(round_)

    def put(self, round_: RoundId, secrets: StorageSecrets) -> None:
        """Store secrets that the leader sent."""
        self._secrets[round_] = secrets

    def keep_rest(self, round_: RoundId) -> None:
        """Forget the secrets that are not needed once a round is cut."""
        found = self._secrets.get(round_)
        if found is not None and found.cipher is not None:
            self._secrets[round_] = StorageSecrets(found.cipher.without_blocks(), b"", found.pseudonym_key)

    def forget(self, round_: RoundId) -> None:
        """Forget all secrets of a round."""
        if round_ in self._secrets:
            self._secrets[round_] = DESTROYED

    @property
    def held(self) -> list[RoundId]:
        """The rounds that have secrets here."""
        return [round_ for round_, secrets in list(self._secrets.items()) if secrets.cipher is not None]


class FrontendStore(PostgresIngestStore):
    """A front end's store (`shuffler.stores.protocol.IngestStore`).

    `cut_of` returns a round's scheduled cut, in seconds since 1970.
    """

    def __init__(
        self,
        sessions: Sessions,
        leader: LeaderClient,
        cut_of: Callable[[RoundId], float],
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connect later: `learn` makes the first call."""
        secrets = SecretCache()
        super().__init__(secrets, sessions)
        self._secret_cache = secrets
        self._leader, self._cut_of, self._clock, self._monotonic = leader, cut_of, clock, monotonic
        self._seen: dict[RoundId, tuple[float, Round | None]] = {}
        self._lacking: set[RoundId] = set()
        self._held: dict[int, tuple[float, int]] = {}
        self._looking: dict[RoundId, asyncio.Task[Round | None]] = {}
        self._admitted = Admitted(b"")
        self._learned = -math.inf

    def close(self) -> None:
        """Write what waits, and close the connections."""
        self._stop()

    # Rounds

    async def find(self, task_id: bytes, number: int) -> Round | None:
        """Return a round as it was at most `FRESH_SECONDS` ago.

        Raises:
            Refusal: NOT_READY, while it has keys and its secrets are not here.
        """
        key = (task_id, number)
        when, round_ = self._seen.get(key, (-math.inf, None))
        if self._monotonic() - when >= FRESH_SECONDS:
            round_ = await self._look(key)
        if key in self._lacking:
            raise not_ready(number)
        return round_

    async def submissions(self, round_: Round) -> int:
        """Return how many submissions of a round were acknowledged, at most `FRESH_SECONDS` ago."""
        when, held = self._held.get(round_.key, (-math.inf, 0))
        if self._monotonic() - when < FRESH_SECONDS:
            return held
        held = await super().submissions(round_)
        self._held[round_.key] = self._monotonic(), held
        return held

    async def _look(self, key: RoundId) -> Round | None:
        """Read a round from the database; other callers for the same round share the read."""
        task = self._looking.get(key)
        if task is None:
            task = self._looking[key] = asyncio.create_task(self._looked_at(key))
            task.add_done_callback(lambda _: self._looking.pop(key, None))
        return await asyncio.shield(task)

    async def _looked_at(self, key: RoundId) -> Round | None:
        found = await self._read(lambda connection: tables.find(connection, *key))
        if found is not None:
            self._begun.add(key)
            secrets = await self._secrets_for(found)
            lacking = found.keys is not None and not _suffice(secrets, found)
            (self._lacking.add if lacking else self._lacking.discard)(key)
            found = replace(found, keys=None) if secrets is None else tables.with_secrets(found, secrets)
        self._seen[key] = self._monotonic(), found
        return found

    async def _secrets_for(self, round_: Round) -> StorageSecrets | None:
        """Return the secrets that a front end needs for a round in its state; None if they are not available now."""
        key = (round_.task_id, round_.number)
        if is_over(round_):
            self._secret_cache.forget(key)
            return DESTROYED
        if round_.keys is None:
            return None
        if round_.state is not RoundState.OPEN:
            self._secret_cache.keep_rest(key)
        found = self._secret_cache.get(key)
        if found is None:
            # If no leader answers, the next look asks again.
            with contextlib.suppress(StoreError, Refusal):
                told = await self._leader.ask(lambda caller, deadline: caller.get_secrets(*key, deadline))
                found = StorageSecrets(RoundCipher(told.storage, *key), told.private_key, told.pseudonym_key)
                self._secret_cache.put(key, found)
        return found

    async def look(self) -> None:
        """Look at every round with secrets here, and forget those that are not needed."""
        now = self._monotonic()
        self._seen = {key: seen for key, seen in self._seen.items() if now - seen[0] < FRESH_SECONDS}
        self._held = {key: held for key, held in self._held.items() if now - held[0] < FRESH_SECONDS}
        for key in self._secret_cache.held:
            try:
                await self._look(key)
            except StoreError:
                if self._clock() > self._cut_of(key) + LATE_SECONDS:
                    self._secret_cache.forget(key)
                    self._seen.pop(key, None)

    # The feed of tasks

    async def feed_documents(self, number: int, known: bytes) -> list[bytes]:
        """Return what the leader took of the feed from a number on (`service.postgres.kept_feed.documents_from`)."""
        return await self._read(lambda connection: kept_feed.documents_from(connection, number, known))

    # Credentials

    async def learn(self) -> bool:
        """Ask the leader for the credentials, and whether it redeems tickets; return whether credentials changed.

        Raises:
            StoreError: if no leader answers.
        """
        asked = self._monotonic()
        found = await self._leader.ask(lambda caller, deadline: caller.get_admitted(self._admitted.version, deadline))
        self._learned = asked
        if found is not None:
            self._admitted = found
        with contextlib.suppress(StoreError):
            # If it redeems none, that is an incident, also while no device brings a ticket.
            await self.redeem([])
        return found is not None

    @property
    def outdated(self) -> bool:
        """Whether the leader may have a master key that is unknown here."""
        return self._monotonic() - self._learned > OUTDATED_SECONDS

    async def masters(self) -> list[MasterSecret]:
        """Return the master keys as they were last received."""
        return list(self._admitted.masters)

    @property
    def oblivious_records(self) -> bytes:
        """The signed oblivious key as it was last received."""
        return self._admitted.oblivious_records

    async def revoked(self) -> Revoked:
        """Return the revoked devices as they were last received."""
        return self._admitted.revoked

    async def redeem(self, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
        """Have the leader record tickets as redeemed; return the record of each device, in order."""
        try:
            return await self._leader.redeem(tickets)
        except Refusal as error:
            raise LeaderAwayError(f"the leader does not redeem tickets: {error}") from error
