"""Attacks on the HTTPS port, as `attacks.py` runs them: HTTP/1.1 by hand, over TLS, from one address.

Everything blocks for at most the seconds that are left, in a thread of its own for each copy of an attack.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hubbub.protos import codec
from hubbub.protos.identity.keys import HASH_BYTES
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination
from hubbub.protos.transport.channels import MAXIMUM_SUBMISSIONS
from hubbub.protos.v1 import submission_pb2
from support.http2_frames import SUBMIT, SUBMIT_BATCH, empty_submissions
from support.https_port import written

if TYPE_CHECKING:
    from soak.attacks import Target

CONNECTIONS = 60
"""Connections that one thread holds at once; four threads come to what one address may have."""

UNFINISHED_BYTES = (7_900_000, 4_000_000, 2_000_000, 1_000_000, 200_000, 60_000)
"""Sizes of calls whose last 100 bytes never come: the largest that the service takes counts."""

PAUSE_SECONDS = 0.05
"""Between two tries of a connection that was refused."""

HEAD_BYTES = 15_000
"""A head that is nearly as long as it may be, and has no end."""

_HELLO = bytes.fromhex("1603010200010001fc0303")
"""How a ClientHello begins: 512 bytes are announced, and six have come."""


def calls(target: Target, sent: Counter[str]) -> None:
    """Calls of 20 kB, each of 10,000 submissions to somewhere that are nothing, one after the other."""
    head = submission_pb2.SubmitBatchRequest(destination=codec.write_destination(_nowhere())).SerializeToString()
    request = written("POST", SUBMIT_BATCH, head + empty_submissions(MAXIMUM_SUBMISSIONS))
    for connection in _connections(target, sent):
        with contextlib.suppress(OSError):
            while target.left:
                connection.sendall(request)
                sent["calls"] += 1
                answer = connection.recv(65536)
                sent[f"status {answer[9:12].decode('ascii', 'replace')}" if answer else "unanswered"] += 1
                if not answer:
                    break


def unread(target: Target, sent: Counter[str]) -> None:
    """Calls with answers of a megabyte each that nobody takes, on as many connections as there may be."""
    request = submission_pb2.SubmitBatchRequest(destination=codec.write_destination(_nowhere()))
    # Malformed each, so that each is answered by itself.
    request.submissions.extend([submission_pb2.Submission(id=bytes(SUBMISSION_ID_BYTES + 1))] * MAXIMUM_SUBMISSIONS)
    _hold(target, sent, written("POST", SUBMIT_BATCH, request.SerializeToString()))


def unfinished(target: Target, sent: Counter[str]) -> None:
    """Calls as large as the service takes, without their last 100 bytes."""
    size = next((size for size in UNFINISHED_BYTES if _is_taken(target, sent, size)), UNFINISHED_BYTES[-1])
    sent[f"threads with calls of {size:,} bytes"] += 1
    _hold(target, sent, written("POST", SUBMIT_BATCH, bytes(size - 100), content_length=str(size)))


def _is_taken(target: Target, sent: Counter[str], size: int) -> bool:
    """Whether the service waits for a message of that size; what is too large it refuses at once."""
    connection = _connected(target, sent)
    if connection is None:
        return False
    with connection, contextlib.suppress(OSError):
        connection.settimeout(max(0.001, min(0.5, target.left)))
        connection.sendall(written("POST", SUBMIT_BATCH, content_length=str(size)))
        try:
            connection.recv(1)
        except TimeoutError:
            return True
    return False


def heads(target: Target, sent: Counter[str]) -> None:
    """Heads of 15 kB without their end, to which a byte a second comes."""
    _hold(target, sent, f"POST {SUBMIT} HTTP/1.1\r\nx: {'y' * HEAD_BYTES}".encode(), more=b"y")


def huge(target: Target, sent: Counter[str]) -> None:
    """Heads of a megabyte, again and again."""
    request = f"POST {SUBMIT} HTTP/1.1\r\nx: {'y' * 2**20}\r\n\r\n".encode()
    for connection in _connections(target, sent):
        sent["heads"] += 1
        with contextlib.suppress(OSError):
            connection.sendall(request)


def rapid(target: Target, sent: Counter[str]) -> None:
    """Connections that agree on TLS, make a call, and are closed before its answer."""
    request = written("POST", SUBMIT_BATCH, empty_submissions(1))
    for connection in _connections(target, sent):
        sent["calls"] += 1
        with contextlib.suppress(OSError):
            connection.sendall(request)


def handshakes(target: Target, sent: Counter[str]) -> None:
    """Connections that begin to agree on TLS, and say no more."""
    held: list[socket.socket] = []
    while target.left:
        held = [each for each in held if _still_open(each)]
        while len(held) < 4 * CONNECTIONS and target.left:
            try:
                begun = socket.create_connection(target.place, 1.0, (target.source, 0))
                begun.sendall(_HELLO)
            except OSError:
                sent["connections refused"] += 1
                break
            held.append(begun)
            sent["connections"] += 1
        time.sleep(min(0.2, target.left))
    for each in held:
        each.close()


def _nowhere() -> Destination:
    return Destination(bytes(HASH_BYTES), 0, bytes(HASH_BYTES))


def _connections(target: Target, sent: Counter[str]) -> Iterator[ssl.SSLSocket]:
    """Connect again and again until the time is over; each connection is closed when the next is asked for."""
    while target.left:
        connection = _connected(target, sent)
        if connection is None:
            time.sleep(min(PAUSE_SECONDS, target.left))
            continue
        with connection:
            yield connection


def _connected(target: Target, sent: Counter[str]) -> ssl.SSLSocket | None:
    try:
        bare = socket.create_connection(target.place, 5.0, (target.source, 0))
        connection = target.context.wrap_socket(bare, server_hostname="localhost")
    except OSError:
        sent["connections refused"] += 1
        return None
    sent["connections"] += 1
    connection.settimeout(max(0.001, min(5.0, target.left)))
    return connection


def _hold(target: Target, sent: Counter[str], data: bytes, more: bytes = b"") -> None:
    """Hold connections, on each of which `data` is sent and `more` once a second; who is closed comes again."""
    held: list[ssl.SSLSocket] = []
    told = time.monotonic()
    while target.left:
        kept = [each for each in held if _still_open(each)]
        sent["connections closed"] += len(held) - len(kept)
        held = kept
        if more and time.monotonic() - told >= 1.0:
            told = time.monotonic()
            for each in held:
                with contextlib.suppress(OSError):
                    each.send(more)
        connection = _connected(target, sent) if len(held) < CONNECTIONS else None
        if connection is None:
            time.sleep(min(PAUSE_SECONDS, target.left))
            continue
        held.append(connection)
        with contextlib.suppress(OSError):
            # What does not go at once would hold up all others.
            connection.settimeout(max(0.001, min(1.0, target.left)))
            connection.sendall(data)
            sent["requests"] += 1
    for each in held:
        each.close()


def _still_open(held: socket.socket) -> bool:
    """Whether the other side still has it, without taking any of an answer; what is closed here is closed."""
    looking = select.poll()
    looking.register(held, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    if looking.poll(0):
        held.close()
        return False
    return True
