"""Device: the class that an application embeds to answer a task's rounds for one person."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hubbub.client.participant import OVER, Participant, checked_name
from hubbub.client.rounds import RoundKeys
from hubbub.client.seal import seal
from hubbub.client.state import DONE, Entry, Round
from hubbub.client.submit import Link, Pacing, submit
from hubbub.protos.messages import Receipt, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.queries.draws import Random
from hubbub.queries.question import Value


class Device(Participant):
    """Answers a task's rounds for one person.

    In each round the answers are randomized and sealed once, and stored before they are first sent. A second call for
    the round returns the first receipt. If the program is killed before there is a receipt, the next call sends the
    same bytes again.

    Args:
        task: the signed task file's bytes.
        operator_key: the public key that must have signed it, known out of band (PEM, or 32 bytes).
        shuffler_key: the public key that must have signed it too, known out of band.
        state: the file to remember submissions in; made where it does not exist, readable by its owner alone.
        shuffler: host:port.
        authority: the authority of the shuffler's TLS certificate, a PEM file or its bytes.
        name: which device this is, where several share a state file; it is never sent.
        pacing: how long to try, with which clock, pauses and jitter.
        random: where every draw comes from, the operating system by default.
        clock: seconds since 1970, UTC.

    Raises:
        SignatureError: where a key is not one, or the task is not signed by both.
        TaskError: where the task is not one to run.
        HostError: where `shuffler` is not host:port.
    """

    def __init__(
        self,
        task: bytes,
        *,
        operator_key: bytes,
        shuffler_key: bytes,
        state: Path,
        shuffler: str,
        authority: Path | bytes,
        name: str = "",
        pacing: Pacing | None = None,
        random: Random = os.urandom,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            task,
            operator_key=operator_key,
            shuffler_key=shuffler_key,
            state=state,
            shuffler=shuffler,
            authority=authority,
            pacing=pacing,
            random=random,
            clock=clock,
        )
        self._name = checked_name(name)

    async def submit(self, answers: Mapping[str, Value], round: int | None = None) -> Receipt:  # noqa: A002 - its name
        """Answer a round, the current one by default; return the shuffler's receipt.

        `answers` holds, by query: a category's name, a number in the query's unit, or None for no answer; a query that
        is not named has none.

        Raises:
            AnswerError: where an answer does not fit; nothing was sent.
            NoRound: where no round takes answers now.
            KeyRecordError, SignatureError, KeySetChanged: where the round's keys are not to be trusted.
            Refusal: where the shuffler refuses, with its reason. What came too late is discarded.
            Unreachable: where it does not answer; the next call sends the same bytes.
            StateError: where the state file cannot be used.
        """
        return await self._submit(self._link, answers, round)

    def submit_blocking(self, answers: Mapping[str, Value], round: int | None = None) -> Receipt:  # noqa: A002
        """Do what `submit` does, for programs without an event loop; leaves nothing open."""

        async def whole() -> Receipt:
            async with self._new_link() as link:
                return await self._submit(link, answers, round)

        try:
            return asyncio.run(whole())
        finally:
            self._state.close()

    async def resend(self) -> list[Receipt]:
        """Send what earlier calls stored for rounds that are not over, and got no receipt for; return the receipts.

        Raises:
            Refusal, Unreachable, StateError: as `submit` does.
        """
        await asyncio.to_thread(self._state.forget, self._clock())
        receipts = []
        for number in await asyncio.to_thread(self._state.waiting, self.task.id, self._name):
            of = Round(self.task.id, number)
            stored = await self._stored(of)
            # Another process that shares the file may have forgotten the round since.
            if stored is not None:
                receipts.append(await self._finish(self._link, of, stored))
        return receipts

    async def _submit(self, link: Link, answers: Mapping[str, Value], wanted: int | None) -> Receipt:
        of = await self._choose(wanted)
        stored, keys = await self._stored(of), None
        if stored is None:
            stored, keys = await self._store(link, of, answers)
        return await self._finish(link, of, stored, keys)

    async def _stored(self, of: Round) -> Entry | None:
        return (await asyncio.to_thread(self._state.find, of, [self._name])).get(self._name)

    async def _store(self, link: Link, of: Round, answers: Mapping[str, Value]) -> tuple[Entry, RoundKeys]:
        """Randomize, seal and store; where another call was faster, return what that one stored."""
        # The answers come first: where one does not fit, the shuffler is not even asked for keys.
        reports = self._reports(answers)
        keys = await self._keys(link, of)
        sealed = seal(keys.sealer(self._clock()), reports, self._random)
        # If another call stored its submission first, ours is dropped unsent. These keys fit either: the state pins
        # the round's first key set, so that both calls sealed for the same one.
        return (await asyncio.to_thread(self._state.keep, of, {self._name: sealed}))[self._name], keys

    async def _finish(self, link: Link, of: Round, stored: Entry, keys: RoundKeys | None = None) -> Receipt:
        """Send what is stored and note the outcome, unless it has one; `keys` are the round's, if already checked."""
        if stored.outcome == DONE:
            return Receipt(stored.submission_id, of.number)
        if stored.submission is None:
            raise discarded(of, stored)
        return await self._send(link, of, keys or await self._keys(link, of), stored.submission)

    async def _send(self, link: Link, of: Round, keys: RoundKeys, submission: Submission) -> Receipt:
        try:
            receipt = await submit(link.caller, keys.destination, submission, self._pacing)
        except Refusal as refusal:
            # Only a refusal for good erases the sealed bytes; after any other the same bytes may be sent again.
            if refusal.reason in OVER:
                await asyncio.to_thread(self._state.settle, of, {self._name: refusal.reason.value})
            raise
        await asyncio.to_thread(self._state.settle, of, {self._name: DONE})
        return receipt


def discarded(of: Round, entry: Entry) -> Refusal:
    """Return the refusal for which an entry was discarded."""
    reason = Reason(entry.outcome or Reason.TOO_LATE)
    return Refusal(
        reason, f"round {of.number} took nothing when this submission came; it was discarded, answer the next"
    )
