"""An acceptor's store: what is refused is counted once it can be told, and takes bounded memory until then."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

from hubbub.protos.refusals import Reason
from hubbub.shuffler.acceptors import records
from hubbub.shuffler.acceptors.line import CLEAR_BYTES, Frame, Line
from hubbub.shuffler.acceptors.store import COUNTED_ROUNDS, LineStore

REFUSED = 50_000
TASK, OTHER = bytes([1]) * 32, bytes([2]) * 32


async def nothing(_frame: Frame, _payload: bytes) -> bytes:
    return b""


async def connected(line: Line, end: socket.socket) -> None:
    end.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=end)


async def test_refusals_that_nobody_takes_are_added_up_and_none_is_missing_in_the_end() -> None:
    here, there = socket.socketpair()
    line, found = Line(nothing, lambda: None), Counter[bytes]()
    store = LineStore(line)
    await connected(line, here)
    # Nobody reads at the other end, as where that process is stopped.
    for number in range(REFUSED):
        store.count(TASK, number, {Reason.MALFORMED.value: 1})
        store.count(OTHER, 0, {Reason.OVERLOADED.value: 2})
    transport = line._transport
    assert transport is not None
    assert not line.clear
    assert transport.get_write_buffer_size() < 2 * CLEAR_BYTES
    assert len(store._counts) <= COUNTED_ROUNDS + 2

    async def answer(frame: Frame, payload: bytes) -> bytes:
        if frame is Frame.COUNT:
            task_id, _number, names = records.read_counts(payload)
            found[task_id] += sum(names.values())
        return b""

    other = Line(answer, lambda: None)
    await connected(other, there)
    # Behind this answer all that was sent before it has come.
    await line.ask(Frame.KNOWN)
    assert sum(found.values()) < 3 * REFUSED
    store.forget()
    await line.ask(Frame.KNOWN)
    assert found == {TASK: REFUSED, OTHER: 2 * REFUSED}
    store.count(TASK, 0, {Reason.MALFORMED.value: 1})
    await line.ask(Frame.KNOWN)
    assert found[TASK] == REFUSED + 1
    line.close()
    other.close()
