"""Attacks below HTTP, as `attacks.py` runs them: TLS records that bring nothing or little, and handshakes without end.

They are on the HTTPS port, and on gRPC's where its TLS is agreed on with ALPN. Each thread has some connections at a
time, from an address of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from support.http2_frames import SUBMIT
from support.tls_records import ALERT, USER_CANCELED, Records, bare, client_hello, fragments

if TYPE_CHECKING:
    from soak.attacks import Target

AT_ONCE = 50
"""Records that are made before they are sent together."""

HELD = 250
"""Connections that one thread holds; eight threads come to as many as a port has."""

PAUSE_SECONDS = 0.05
"""Between two tries of a connection that was refused."""

_UNKNOWN_FRAMES = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5) + b"\0\x3f\xff\xee" + bytes(5 + 0x3FFF)
)
"""How HTTP/2 begins: an empty frame of settings, and a frame of a type that nobody knows."""

_HEAD = f"POST {SUBMIT} HTTP/1.1\r\nx: {'y' * 15_000}".encode()

_sources = itertools.count(2)


def updates(target: Target, sent: Counter[str]) -> None:
    """KeyUpdate records alone, 27 bytes each."""
    _flood(target, sent, lambda attacker: attacker.key_update())


def updates_and_bytes(target: Target, sent: Counter[str]) -> None:
    """KeyUpdate records with a byte of plaintext after each 30, for what counts only those in a row."""
    for attacker in _connections(target, sent):
        for byte in _UNKNOWN_FRAMES:
            made = [*(attacker.key_update() for _ in range(30)), attacker.record(bytes([byte]))]
            if not target.left or not attacker.send(b"".join(made)):
                break
            sent["records"] += len(made)


def tiny(target: Target, sent: Counter[str]) -> None:
    """Records of a byte of a request's head each."""
    _flood(target, sent, lambda attacker: attacker.record(b"P"))


def empty(target: Target, sent: Counter[str]) -> None:
    """Records without content, with a byte after each 30, for what counts only those in a row."""
    _flood(target, sent, lambda attacker: b"".join(attacker.record(b"") for _ in range(30)) + attacker.record(b"P"))


def alerts(target: Target, sent: Counter[str]) -> None:
    """Warnings, which end nothing."""
    _flood(target, sent, lambda attacker: attacker.record(USER_CANCELED, ALERT))


def hellos(target: Target, sent: Counter[str]) -> None:
    """The first message of a handshake in records of a byte."""
    source = _source()
    data = fragments(client_hello(_authority(target)), 1)
    while target.left:
        with contextlib.suppress(OSError), bare(target.place, source) as attacker:
            sent["connections"] += 1
            attacker.settimeout(max(0.001, min(1.0, target.left)))
            attacker.sendall(data)
            while attacker.recv(65536):
                pass


def silent(target: Target, sent: Counter[str]) -> None:
    """Connections that agree on TLS and say no more."""
    _hold(target, sent, lambda _: b"")


def partial(target: Target, sent: Counter[str]) -> None:
    """Connections with the beginning of a head, and then with the beginning of the largest record."""
    _hold(target, sent, lambda attacker: attacker.record(_HEAD) + b"\x17\x03\x03\x40\x11" + bytes(16_300))


def _flood(target: Target, sent: Counter[str], make: Callable[[Records], bytes]) -> None:
    for attacker in _connections(target, sent):
        while target.left and attacker.send(b"".join(make(attacker) for _ in range(AT_ONCE))):
            sent["records"] += AT_ONCE


def _hold(target: Target, sent: Counter[str], make: Callable[[Records], bytes]) -> None:
    held: list[Records] = []
    for attacker in _connections(target, sent, keep=True):
        attacker.send(make(attacker))
        held.append(attacker)
        while len(held) >= HELD and target.left:
            still = [each for each in held if each.is_open()]
            for each in set(held) - set(still):
                each.close()
            held = still
            time.sleep(min(PAUSE_SECONDS, target.left))
    for each in held:
        each.close()


def _connections(target: Target, sent: Counter[str], *, keep: bool = False) -> Iterator[Records]:
    """Connect again and again until the time is over; without `keep` each is closed when the next is asked for."""
    source = _source()
    while target.left:
        try:
            attacker = Records(target.place, _authority(target), source=source, alpn=target.alpn)
        except OSError:
            sent["connections refused"] += 1
            time.sleep(min(PAUSE_SECONDS, target.left))
            continue
        sent["connections"] += 1
        attacker.socket.settimeout(max(0.001, min(5.0, target.left)))
        if keep:
            yield attacker
        else:
            with attacker:
                yield attacker


def _source() -> str:
    """An address on loopback that no other thread comes from."""
    return f"127.0.0.{next(_sources)}"


def _authority(target: Target) -> Path:
    assert isinstance(target.tls.authority, Path)
    return target.tls.authority
