"""What is refused is counted once it can be told, and takes bounded memory until then."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

from unit.shuffler.admit.test_openers import sealed

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Reason
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.records import Round
from hubbub.shuffler.workers import codec
from hubbub.shuffler.workers.codec import FoundRound
from hubbub.shuffler.workers.ipc import CLEAR_BYTES, Frame, IpcChannel
from hubbub.shuffler.workers.remote_store import COUNTED_ROUNDS, FRESH_SECONDS, RemoteStore
from hubbub.shuffler.workers.worker import InlineOpener

DOCUMENT = SignedDocument(b"{}", bytes(64))
KEYS = RoundKeyMaterial(b"a private key", KeySet(DOCUMENT, DOCUMENT, ()), bytes(32))
REFUSED = 50_000
TASK, OTHER = bytes([1]) * 32, bytes([2]) * 32


async def nothing(_frame: Frame, _payload: bytes) -> bytes:
    return b""


async def connected(channel: IpcChannel, end: socket.socket) -> None:
    end.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=end)


async def test_refusals_that_nobody_takes_are_added_up_and_none_is_missing_in_the_end() -> None:
    here, there = socket.socketpair()
    channel, found = IpcChannel(nothing, lambda: None), Counter[bytes]()
    store = RemoteStore(channel)
    await connected(channel, here)
    # Nobody reads at the other end, as where that process is stopped.
    for number in range(REFUSED):
        store.count(TASK, number, {Reason.MALFORMED.value: 1})
        store.count(OTHER, 0, {Reason.OVERLOADED.value: 2})
    transport = channel._transport
    assert transport is not None
    assert not channel.clear
    assert transport.get_write_buffer_size() < 2 * CLEAR_BYTES
    assert len(store._counts) <= COUNTED_ROUNDS + 2

    async def answer(frame: Frame, payload: bytes) -> bytes:
        if frame is Frame.COUNT:
            task_id, _number, names = codec.read_counts(payload)
            found[task_id] += sum(names.values())
        return b""

    other = IpcChannel(answer, lambda: None)
    await connected(other, there)
    # Behind this answer all that was sent before it has come.
    await channel.ask(Frame.KNOWN)
    assert sum(found.values()) < 3 * REFUSED
    store.forget()
    await channel.ask(Frame.KNOWN)
    assert found == {TASK: REFUSED, OTHER: 2 * REFUSED}
    store.count(TASK, 0, {Reason.MALFORMED.value: 1})
    await channel.ask(Frame.KNOWN)
    assert found[TASK] == REFUSED + 1
    channel.close()
    other.close()


async def test_a_round_is_asked_for_again_after_a_second_and_its_key_is_forgotten_then() -> None:
    here, there = socket.socketpair()
    state, now, asked = [RoundState.OPEN], [0.0], []

    async def answer(frame: Frame, _payload: bytes) -> bytes:
        asked.append(frame)
        return codec.write_found(FoundRound(Round(7, TASK, 0, state[0], KEYS), 3, damaged=state[0] is RoundState.CUT))

    channel, other = IpcChannel(nothing, lambda: None), IpcChannel(answer, lambda: None)
    await connected(channel, here)
    await connected(other, there)
    store = RemoteStore(channel, monotonic=lambda: now[0])
    found = await store.find(TASK, 0)
    assert found is not None
    assert (await store.submissions(found), found.keys, asked) == (3, KEYS, [Frame.FIND])
    # It is cut, and its key found to be damaged; each is seen a second later at most.
    state[0] = RoundState.CUT
    now[0] += FRESH_SECONDS * 0.99
    store.forget()
    assert await store.find(TASK, 0) == found
    now[0] += FRESH_SECONDS * 0.02
    cut = await store.find(TASK, 0)
    assert cut is not None
    assert (cut.state, store.damaged, asked) == (RoundState.CUT, {7}, [Frame.FIND] * 2)
    # Nobody asks about it any more: with the next look, of which there is one a second, nothing is left of it.
    now[0] += FRESH_SECONDS * 1.01
    store.forget()
    assert not store._seen
    channel.close()
    other.close()


async def test_what_opened_last_is_forgotten_when_it_is_looked_at() -> None:
    opening = InlineOpener()
    key, submissions, plains = sealed(3)
    assert await opening.open(key, submissions) == plains
    assert opening._last is not None
    opening.forget()
    assert opening._last is None
    assert await opening.open(key, submissions) == plains
