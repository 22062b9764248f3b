"""What callers send below HTTP: each kind of TLS record that brings nothing is counted, and ends its connection."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import socket
import ssl
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.protos.test_rpc import HERE, Recorder, receipt, submission

from hubbub.protos import codec
from hubbub.protos.transport.channels import TLS
from hubbub.protos.v1 import submission_pb2
from hubbub.service.rpc.concurrency import PortLimit
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.runtime.event_loop import EventLoop, run
from hubbub.service.transport import tls_connection
from hubbub.service.transport.tls_connection import (
    CLOSING_BYTES,
    EMPTY_RECORDS,
    FREE_RECORDS,
    HANDSHAKE_RECORDS,
    LAST_RECORDS,
    PIECE_BYTES,
    READ_BYTES,
    RECORD_BYTES,
    TlsConnection,
)
from support import https_port
from support.https_port import SUBMIT, opened, raw, written
from support.patience import CALL_SECONDS
from support.samples import make_tls
from support.tls_records import ALERT, CLOSE_NOTIFY, DATA, USER_CANCELED, Records, bare, client_hello, fragments

REQUEST = submission_pb2.SubmitRequest(
    destination=codec.write_destination(HERE), submission=codec.write_submission(submission(1))
).SerializeToString()
CALL = written("POST", SUBMIT, REQUEST)
LONG = written("POST", SUBMIT, bytes(50_000), content_length="60000")
TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
Flood = Callable[[Records], list[bytes]]

_EMPTY_OR_SMALL = {PortLimit.EMPTY_RECORDS, PortLimit.SMALL_RECORDS}
"""Empty records may be small, too: the limit that comes first depends on how many are read at a time."""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TLS:
    return make_tls(tmp_path_factory.mktemp("tls"), "service")["service"]


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> EventLoop:
    if importlib.util.find_spec(request.param) is None:
        pytest.skip("uvloop is not installed")
    return cast(EventLoop, request.param)


def attacked(
    tls: TLS, loop: EventLoop, attack: Callable[[int], Any], handler: Recorder | None = None
) -> tuple[Any, dict[PortLimit, int], int]:
    """What an attack on a port returns, the port's refusals, and how many calls reached the handler."""
    pipeline, handler = RequestPipeline(), handler or Recorder(answer=[receipt(1)])

    async def tried() -> Any:
        async with opened(handler, tls, pipeline) as port:
            return await asyncio.to_thread(attack, port)

    found = run(tried, loop)
    return found, dict(pipeline.admission.refused), len(handler.calls)


def records(port: int, tls: TLS, version: ssl.TLSVersion = TLS_1_3, **given: Any) -> Records:
    assert isinstance(tls.authority, Path)
    return Records(("127.0.0.1", port), tls.authority, version, **given)


def one_by_one(attacker: Records, data: bytes, size: int = 1) -> bytes:
    return b"".join(attacker.record(data[place : place + size]) for place in range(0, len(data), size))


# After the handshake


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize(
    ("flood", "limits"),
    [
        (lambda attacker: [attacker.record(b"") + attacker.record(b"P") for _ in range(34)], _EMPTY_OR_SMALL),
        (
            lambda attacker: [one_by_one(attacker, b"POST /x HTTP/1.1\r\nx: " + b"y" * 10_000)],
            {PortLimit.SMALL_RECORDS},
        ),
        # A request that goes on, of pieces that bring less than they cost.
        (lambda attacker: [one_by_one(attacker, LONG, RECORD_BYTES // 2)], {PortLimit.SMALL_RECORDS}),
    ],
    ids=["empty", "of a byte", "of half the bytes"],
)
def test_records_that_bring_nothing_or_little_are_counted_and_end_the_connection(
    tls: TLS, loop: EventLoop, version: ssl.TLSVersion, flood: Flood, limits: set[PortLimit]
) -> None:
    _flooded(tls, loop, version, flood, limits)


@pytest.mark.parametrize(
    "flood",
    [
        lambda attacker: [attacker.key_update() for _ in range(1000)],
        lambda attacker: [attacker.key_update() for _ in range(EMPTY_RECORDS + LAST_RECORDS + 1)],
        lambda attacker: [attacker.key_update(answer=True) for _ in range(EMPTY_RECORDS + LAST_RECORDS + 1)],
        # As long as records may be, so that their sizes say nothing.
        lambda attacker: [attacker.key_update(padding=16_000) for _ in range(EMPTY_RECORDS + LAST_RECORDS + 1)],
        lambda attacker: [attacker.key_update() + attacker.record(b"P" * 300) for _ in range(36)],
    ],
    ids=["many", "some", "to be answered", "padded", "among plaintext"],
)
def test_changes_of_keys_without_end_are_counted_and_end_the_connection(
    tls: TLS, loop: EventLoop, flood: Flood
) -> None:
    _flooded(tls, loop, TLS_1_3, flood, _EMPTY_OR_SMALL)


def _flooded(tls: TLS, loop: EventLoop, version: ssl.TLSVersion, flood: Flood, limits: set[PortLimit]) -> None:
    def attack(port: int) -> bool:
        with records(port, tls, version) as attacker:
            attacker.send(b"".join(flood(attacker)))
            return attacker.closed()

    closed, refused, calls = attacked(tls, loop, attack)
    assert closed
    assert sum(refused.values()) == 1
    assert set(refused) <= limits
    assert calls == 0


def test_as_many_records_as_honest_programs_send_are_read(tls: TLS, loop: EventLoop) -> None:
    """Some changes of keys, and requests in small pieces, over and over on one connection."""

    def attack(port: int) -> list[int]:
        found = []
        with records(port, tls) as honest:
            for _ in range(3):
                honest.send(b"".join(honest.key_update(answer=True) for _ in range(EMPTY_RECORDS // 3)))
                # Each piece is a record by itself; the first lines are tiny.
                honest.send(one_by_one(honest, CALL[:FREE_RECORDS]) + one_by_one(honest, CALL[FREE_RECORDS:], 100))
                found.append(https_port.status_of(honest.read()))
        return found

    assert attacked(tls, loop, attack) == ([200] * 3, {}, 3)


def test_the_count_of_empty_records_begins_anew_with_no_call(tls: TLS, loop: EventLoop) -> None:
    """Otherwise a call now and then would pay for any number of them."""

    def attack(port: int) -> tuple[int, bool]:
        answered = 0
        with records(port, tls) as attacker:
            for _ in range(EMPTY_RECORDS):
                if not attacker.send(attacker.key_update() + attacker.key_update() + attacker.record(CALL)):
                    break
                answer = attacker.read()
                if not answer:
                    return answered, True
                answered += 1
            return answered, attacker.closed()

    (answered, closed), refused, _ = attacked(tls, loop, attack)
    assert closed
    assert answered == EMPTY_RECORDS // 2
    assert refused == {PortLimit.EMPTY_RECORDS: 1}


@pytest.mark.parametrize(
    ("version", "flood"),
    [
        (TLS_1_3, lambda attacker: [attacker.record(USER_CANCELED, ALERT) for _ in range(100)]),
        (TLS_1_2, lambda attacker: [attacker.record(USER_CANCELED, ALERT) for _ in range(100)]),
        (TLS_1_2, lambda attacker: [attacker.hello_again() for _ in range(100)]),
        (TLS_1_3, lambda attacker: [attacker.record(attacker.hello[5:], 22)]),
        (TLS_1_3, lambda _: [b"\x14\x03\x03\x00\x01\x01" * 100]),
        (TLS_1_3, lambda _: [b"\x17\x03\x03\xff\xff" + bytes(65535)]),
        (TLS_1_3, lambda _: [b"\x17\x03\x03\x00\x00" * 100]),
        (TLS_1_3, lambda _: [bytes(100_000)]),
    ],
    ids=["alerts 1.3", "alerts 1.2", "renegotiation 1.2", "a second hello", "CCS", "too long", "no length", "zeros"],
)
def test_what_is_no_tls_after_the_handshake_ends_the_connection(
    tls: TLS, loop: EventLoop, version: ssl.TLSVersion, flood: Flood
) -> None:
    """OpenSSL ends some of it itself; what it lets pass is counted here."""

    def attack(port: int) -> bool:
        with records(port, tls, version) as attacker:
            attacker.send(b"".join(flood(attacker)))
            return attacker.closed()

    closed, refused, calls = attacked(tls, loop, attack)
    assert closed
    assert set(refused) <= _EMPTY_OR_SMALL
    assert calls == 0


# The handshake


def _hello(tls: TLS, **given: Any) -> bytes:
    assert isinstance(tls.authority, Path)
    return client_hello(tls.authority, **given)


def test_a_hello_in_many_records_is_refused_and_one_in_some_is_answered(tls: TLS, loop: EventLoop) -> None:
    hello = _hello(tls)

    def attack(port: int) -> bytes:
        with bare(("127.0.0.1", port)) as attacker, contextlib.suppress(ConnectionError):
            attacker.sendall(fragments(hello, 1))
            while attacker.recv(65536):
                pass
        with bare(("127.0.0.1", port)) as honest:
            honest.sendall(fragments(hello, len(hello) // (HANDSHAKE_RECORDS // 2)))
            return honest.recv(1)

    # A record of the handshake comes back.
    assert attacked(tls, loop, attack) == (b"\x16", {PortLimit.SMALL_RECORDS: 1}, 0)


@pytest.mark.parametrize("size", [1000, 16_384])
def test_a_hello_that_never_ends_is_refused(tls: TLS, loop: EventLoop, size: int) -> None:
    """Of as many bytes as OpenSSL would wait for."""
    hello = b"\x01" + (131_000).to_bytes(3, "big") + b"\x03\x03" + bytes(130_000)

    def attack(port: int) -> bool:
        with bare(("127.0.0.1", port)) as attacker:
            attacker.sendall(fragments(hello, size)[:60_000])
            attacker.settimeout(CALL_SECONDS)
            try:
                return attacker.recv(1) == b""
            except ConnectionResetError:
                return True

    assert attacked(tls, loop, attack) == (True, {PortLimit.HANDSHAKE: 1}, 0)


def test_a_handshake_has_its_time_and_no_more(tls: TLS, loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_connection, "HANDSHAKE_SECONDS", 0.1)
    hello = fragments(_hello(tls), 16_384)

    def attack(port: int) -> set[bytes]:
        """Return what was answered."""
        found = set()
        for begun in (b"", hello[:1], hello[:-1]):
            # On a busy machine the time may be over before anything is sent.
            with bare(("127.0.0.1", port)) as attacker, contextlib.suppress(ConnectionError):
                attacker.sendall(begun)
                found.add(attacker.recv(1))
        return found - {b""}

    assert attacked(tls, loop, attack) == (set(), {PortLimit.UNFINISHED: 3}, 0)


def test_early_data_is_not_read(tls: TLS, loop: EventLoop) -> None:
    """Nobody was offered any: what comes instead of the rest of the handshake ends it."""

    def attack(port: int) -> bool:
        with bare(("127.0.0.1", port)) as attacker:
            attacker.sendall(fragments(_hello(tls), 16_384) + (b"\x17\x03\x03\x01\x00" + bytes(256)) * 20)
            try:
                while attacker.recv(65536):
                    pass
            except ConnectionResetError:
                pass
            return True

    assert attacked(tls, loop, attack) == (True, {}, 0)


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\x15\x03\x01\0\2\1\0"])
def test_what_is_no_handshake_is_closed(tls: TLS, loop: EventLoop, noise: bytes) -> None:
    def attack(port: int) -> bool:
        with bare(("127.0.0.1", port)) as attacker:
            attacker.sendall(noise)
            attacker.shutdown(socket.SHUT_WR)
            while attacker.recv(65536):
                pass
            return True

    assert attacked(tls, loop, attack) == (True, {}, 0)


def test_a_first_message_of_ssl_2_is_refused_before_openssl_reads_it(tls: TLS, loop: EventLoop) -> None:
    """OpenSSL takes one, and TLS 1.2 with it; its head is another than the one by which records are counted."""
    suites = b"\0\0\x9c\0\0\x9d\0\xc0\x2b\0\xc0\x2f"
    hello = b"\1\3\3" + len(suites).to_bytes(2, "big") + b"\0\0\0\x20" + suites + bytes(32)

    def attack(port: int) -> bool:
        with bare(("127.0.0.1", port)) as attacker:
            attacker.sendall((0x8000 | len(hello)).to_bytes(2, "big") + hello)
            with contextlib.suppress(ConnectionResetError):
                return attacker.recv(1) == b""
            return True

    assert attacked(tls, loop, attack) == (True, {PortLimit.HANDSHAKE: 1}, 0)


@pytest.mark.parametrize(
    "alpn", [(), ("h2",), ("http/1.1",), ("h2", "http/1.1"), tuple(f"p{i:0200}" for i in range(60))]
)
def test_whatever_protocols_a_caller_offers_its_call_is_answered(
    tls: TLS, loop: EventLoop, alpn: tuple[str, ...]
) -> None:
    def attack(port: int) -> int:
        with records(port, tls, alpn=alpn) as caller:
            caller.send(caller.record(CALL))
            return https_port.status_of(caller.read())

    assert attacked(tls, loop, attack) == (200, {}, 1)


@pytest.mark.parametrize("name", ["localhost", "other.example", "a." * 120 + "example"])
def test_whatever_name_a_caller_asks_for_it_is_shown_the_same_certificate(tls: TLS, loop: EventLoop, name: str) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def attack(port: int) -> bytes | None:
        with bare(("127.0.0.1", port)) as connection, context.wrap_socket(connection, server_hostname=name) as found:
            return found.getpeercert(binary_form=True)

    assert isinstance(tls.certificate, Path)
    shown = ssl.PEM_cert_to_DER_cert(tls.certificate.read_text().partition("-----END")[0] + "-----END CERTIFICATE-----")
    assert attacked(tls, loop, attack) == (shown, {}, 0)


def test_no_session_can_be_taken_up_again(tls: TLS, loop: EventLoop) -> None:
    """Its ticket would show which connections are of one device, and early data would come with it."""

    def attack(port: int) -> bool | None:
        with raw(port, tls) as connection:
            connection.sendall(CALL)
            assert https_port.status_of(connection.recv(65536)) == 200
            return connection.session is not None and connection.session.has_ticket

    assert attacked(tls, loop, attack) == (False, {}, 1)


# The end


def test_who_is_refused_early_gets_its_answer_though_it_sends_on(tls: TLS, loop: EventLoop) -> None:
    def attack(port: int) -> int:
        with raw(port, tls) as connection:
            connection.sendall(written("POST", SUBMIT, content_length="99999999"))
            connection.sendall(bytes(CLOSING_BYTES // 4))
            return https_port.status_of(https_port.answers(connection))

    assert attacked(tls, loop, attack) == (400, {PortLimit.SIZE: 1}, 0)


def test_who_sends_on_without_end_after_the_last_answer_is_closed(tls: TLS, loop: EventLoop) -> None:
    def attack(port: int) -> bool:
        with records(port, tls) as attacker:
            attacker.send(attacker.record(written("POST", "/x")))
            attacker.read()
            # Not even enciphered: it is dropped unread.
            return all(attacker.send(bytes(65536)) for _ in range(1000))

    assert attacked(tls, loop, attack) == (False, {PortLimit.HTTP: 1}, 0)


def test_who_does_not_close_when_the_port_has_is_closed(
    tls: TLS, loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_connection, "CLOSING_SECONDS", 0.1)

    def attack(port: int) -> bool:
        with records(port, tls) as attacker:
            attacker.send(attacker.record(written("POST", "/x")))
            while attacker.read():
                pass
            # The port has ended its half; the whole is over when sending fails.
            while attacker.send(b"x"):
                pass
            return True

    assert attacked(tls, loop, attack)[0]


class SlowRecorder(Recorder):
    """A handler whose answer takes some turns of the loop, in which the rest of what was sent arrives."""

    async def _reply(self, *call: Any) -> Any:
        found = await super()._reply(*call)
        for _ in range(50):
            await asyncio.sleep(0.001)
        return found


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_who_closes_its_direction_of_tls_behind_a_request_gets_the_answer(
    tls: TLS, loop: EventLoop, version: ssl.TLSVersion, pieces: int
) -> None:
    def attack(port: int) -> tuple[int, bool]:
        with records(port, tls, version) as caller:
            call, closing = caller.record(CALL), caller.record(CLOSE_NOTIFY, ALERT)
            for piece in (call + closing,) if pieces == 1 else (call, closing):
                caller.send(piece)
            return https_port.status_of(caller.read()), caller.closed()

    assert attacked(tls, loop, attack, SlowRecorder(answer=[receipt(1)])) == ((200, True), {}, 1)


@pytest.mark.parametrize("in_tls", [True, False], ids=["close_notify", "shutdown"])
@pytest.mark.parametrize("request_sent", [b"", CALL[:-1]], ids=["none", "a part"])
def test_who_closes_its_direction_without_a_whole_request_is_closed(
    tls: TLS, loop: EventLoop, request_sent: bytes, in_tls: bool
) -> None:
    def attack(port: int) -> tuple[bytes, bool]:
        with records(port, tls) as caller:
            caller.send(caller.record(request_sent) + (caller.record(CLOSE_NOTIFY, ALERT) if in_tls else b""))
            if not in_tls:
                caller.socket.shutdown(socket.SHUT_WR)
            return caller.read(), caller.closed()

    assert attacked(tls, loop, attack) == ((b"", True), {}, 0)


class GoneSocket:
    """A socket whose other end is seen to be gone at the first piece that is written."""

    def __init__(self) -> None:
        self.written = 0

    def is_closing(self) -> bool:
        return self.written > 0

    def write(self, _data: bytes) -> None:
        self.written += 1


class PlainTls:
    """A TLS that enciphers nothing."""

    def __init__(self, outgoing: ssl.MemoryBIO) -> None:
        self.write = outgoing.write


def test_the_rest_of_an_answer_is_not_written_to_who_is_gone() -> None:
    """asyncio logs a warning of each piece that is written nevertheless."""
    connection, there = asyncio.run(_unowned()), GoneSocket()
    connection._socket, connection._tls = cast(Any, there), cast(Any, PlainTls(connection._outgoing))
    connection.write(bytes(10 * PIECE_BYTES))
    assert there.written == 1


# Memory, and what is counted


async def test_a_silent_connection_uses_little_memory(tls: TLS) -> None:
    """asyncio's own layer has a buffer of 256 KiB for each."""
    async with opened(Recorder(), tls) as port:
        assert isinstance(tls.authority, Path)
        context = ssl.create_default_context(cafile=str(tls.authority))
        clients = [await asyncio.to_thread(_silent, port, context) for _ in range(2)]
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            clients += [await asyncio.to_thread(_silent, port, context) for _ in range(20)]
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
            for client in clients:
                client.close()
    assert grown / 20 < 32 * 1024


def _silent(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(bare(("127.0.0.1", port)), server_hostname="localhost")


async def _unowned() -> TlsConnection:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    return TlsConnection(cast(Any, None), context, "127.0.0.1")


@given(lengths=st.lists(st.integers(0, 600), max_size=30), size=st.integers(1, 700))
def test_records_are_counted_however_they_are_cut(lengths: list[int], size: int) -> None:
    connection = asyncio.run(_unowned())
    data = b"".join(bytes([DATA, 3, 3]) + length.to_bytes(2, "big") + bytes(length) for length in lengths)
    found = [connection._records(memoryview(data[place : place + size])) for place in range(0, len(data), size)]
    assert sum(found) == len(lengths)
    # Whatever is left begins another record.
    assert connection._records(memoryview(bytes([DATA, 3, 3, 0]))) == 0


def test_one_read_has_few_records_or_ends_the_connection() -> None:
    """A record costs some microseconds, so one read costs less than a millisecond or two, whatever was sent."""
    assert FREE_RECORDS + READ_BYTES // RECORD_BYTES <= 256
