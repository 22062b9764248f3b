"""HTTP/2 by hand (RFC 9113, RFC 7541) over TLS: what no gRPC client would send, frame by frame.

Everything blocks, for at most the seconds that are given, and stays on the caller's thread; `asyncio.to_thread` runs it
beside an event loop. One connection is for one thread at a time.

    with connect(shuffler, tls) as attacker:
        silent = attacker.open(SUBMIT)                        # headers only
        attacker.send(silent, message(b"...")[:-100])         # a message without its end
        attacker.reset(silent)                                # and given up
        print(attacker.ended(attacker.call(SUBMIT, b""), 5))  # Ended(status=3, ...)
"""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from hubbub.protos.transport.addresses import parted
from hubbub.protos.transport.channels import TLS
from support.patience import CALL_SECONDS

SUBMIT = "/hubbub.v1.SubmissionService/Submit"
SUBMIT_BATCH = "/hubbub.v1.SubmissionService/SubmitBatch"
WATCH = "/grpc.health.v1.Health/Watch"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_BYTES = 16_384
"""Most bytes of a frame's payload, unless the other side allows more."""

WINDOW_BYTES = 65_535
"""What may be sent before the other side takes more, on a new connection and on a new stream."""

WRITE_SECONDS = 10.0
"""How long the other side may take nothing; then the connection counts as closed."""

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_INITIAL_WINDOW, _HEADER_TABLE = 4, 1
CANCEL = 8
"""The error code of a stream that is given up."""

Header = tuple[bytes, bytes]

_STATIC_NAMES = (
    b":authority :method :method :path :path :scheme :scheme :status :status :status :status :status :status :status "
    b"accept-charset accept-encoding accept-language accept-ranges accept access-control-allow-origin age allow "
    b"authorization cache-control content-disposition content-encoding content-language content-length "
    b"content-location content-range content-type cookie date etag expect expires from host if-match "
    b"if-modified-since if-none-match if-range if-unmodified-since last-modified link location max-forwards "
    b"proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie "
    b"strict-transport-security transfer-encoding user-agent vary via www-authenticate"
).split()
_STATIC_VALUES = {2: b"GET", 3: b"POST", 4: b"/", 5: b"/index.html", 6: b"http", 7: b"https", 16: b"gzip, deflate"} | {
    8 + place: value for place, value in enumerate((b"200", b"204", b"206", b"304", b"400", b"404", b"500"))
}


@dataclass
class Ended:
    """How a stream ended: with a gRPC status, with a reset (its error code), or with its connection."""

    status: int | None = None
    message: str = ""
    reset: int | None = None
    closed: bool = False
    finished: bool = False
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def message(content: bytes, compressed: bool = False) -> bytes:
    """A gRPC message: the flag, the length, and the content as it is."""
    return struct.pack(">BI", compressed, len(content)) + content


def gzip_message(content: bytes) -> bytes:
    """A gRPC message that says it is compressed, and is; the call needs `encoding="gzip"`."""
    return message(gzip.compress(content, 9), compressed=True)


def empty_submissions(count: int) -> bytes:
    """A SubmitBatch request with so many empty submissions, two bytes each: field 2, of no length."""
    return b"\x12\x00" * count


def headers_of(path: str, authority: str, encoding: str | None = None, more: Sequence[Header] = ()) -> bytes:
    """A header block of a gRPC call, without Huffman and without a table."""
    fields: list[Header] = [
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":path", path.encode()),
        (b":authority", authority.encode()),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ]
    if encoding is not None:
        fields.append((b"grpc-encoding", encoding.encode()))
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in (*fields, *more))


def _text(value: bytes) -> bytes:
    return _number(len(value), 7) + value


def _number(value: int, bits: int) -> bytes:
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    encoded, value = bytearray([most]), value - most
    while value >= 128:
        encoded.append(value % 128 + 128)
        value //= 128
    return bytes([*encoded, value])


def _read_number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value, at = block[at] & most, at + 1
    if value < most:
        return value, at
    shift = 0
    while True:
        value += (block[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if not block[at - 1] & 128:
            return value, at


def _read_text(block: bytes, at: int) -> tuple[bytes, int]:
    huffman = bool(block[at] & 128)
    length, at = _read_number(block, at, 7)
    return (b"(huffman)" if huffman else block[at : at + length]), at + length


def read_headers(block: bytes) -> Iterator[Header]:
    """The fields of a header block whose sender keeps no table; what is in Huffman's code is shown as "(huffman)"."""
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0xE0 == 0x20:  # the table's size changes
            _, at = _read_number(block, at, 5)
            continue
        index, at = _read_number(block, at, 7 if first & 0x80 else 6 if first & 0x40 else 4)
        if first & 0x80:
            yield _named(index), _STATIC_VALUES.get(index, b"")
            continue
        if index:
            name = _named(index)
        else:
            name, at = _read_text(block, at)
        value, at = _read_text(block, at)
        yield name, value


def _named(index: int) -> bytes:
    return _STATIC_NAMES[index - 1] if 0 < index <= len(_STATIC_NAMES) else b"(table)"


class Connection:
    """An HTTP/2 connection over TLS that sends what it is told to."""

    def __init__(self, plain: ssl.SSLSocket, authority: str) -> None:
        self._socket = plain
        self._authority = authority
        self._next = 1
        self._received = bytearray()
        self._block = b""
        self._window = WINDOW_BYTES
        self._stream_window = WINDOW_BYTES
        self._windows: dict[int, int] = {}
        self._ended: dict[int, Ended] = {}
        self.streams_allowed: int | None = None
        """SETTINGS_MAX_CONCURRENT_STREAMS, once the other side has said it; see `settled`."""
        self.going_away: int | None = None
        """The error code of the GOAWAY that came."""
        self.closed = False
        # No table for headers, so that answers can be read without one; our own windows as they are.
        self.write(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", _HEADER_TABLE, 0)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket, without a word to the other side."""
        self.closed = True
        self._socket.close()

    def write(self, sent: bytes) -> bool:
        """Send bytes as they are; return whether the connection still took them."""
        try:
            self._socket.sendall(sent)
        except OSError:
            self.closed = True
        return not self.closed

    def new_stream(self) -> int:
        """The id of a stream to come."""
        stream, self._next = self._next, self._next + 2
        self._ended[stream], self._windows[stream] = Ended(), self._stream_window
        return stream

    def open(self, path: str, encoding: str | None = None, more: Sequence[Header] = (), end: bool = False) -> int:
        """Open a stream with its headers only; return its id. `end` says that no message follows."""
        stream = self.new_stream()
        block = headers_of(path, self._authority, encoding, more)
        self.write(frame(HEADERS, _END_HEADERS | (_END_STREAM if end else 0), stream, block))
        return stream

    def open_many(self, path: str, count: int) -> list[int]:
        """Open so many streams with headers only, sent at once."""
        streams = [self.new_stream() for _ in range(count)]
        block = headers_of(path, self._authority)
        self.write(b"".join(frame(HEADERS, _END_HEADERS, stream, block) for stream in streams))
        return streams

    def send(self, stream: int, data: bytes, end: bool = False, seconds: float = 10.0) -> bool:
        """Send data as far as the windows let it, waiting for them; return whether all of it went out in time."""
        until, view = time.monotonic() + seconds, memoryview(data)
        while view and not self.closed and self._unended(stream):
            size = min(len(view), FRAME_BYTES, self._window, self._windows[stream])
            if size <= 0:
                if not self.read(until - time.monotonic()):
                    return False
                continue
            last = end and size == len(view)
            self.write(frame(DATA, _END_STREAM if last else 0, stream, bytes(view[:size])))
            self._window -= size
            self._windows[stream] -= size
            view = view[size:]
        if end and not data:
            self.write(frame(DATA, _END_STREAM, stream))
        return not view and not self.closed

    def reset(self, stream: int, code: int = CANCEL) -> None:
        """Give a stream up."""
        self.write(frame(RESET, 0, stream, struct.pack(">I", code)))

    def rapid_reset(self, path: str, count: int) -> bool:
        """Open so many streams and reset each at once (CVE-2023-44487), in one write; return whether they were taken.

        Nothing is kept of these streams.
        """
        block = headers_of(path, self._authority)
        cancelled, sent = struct.pack(">I", CANCEL), bytearray()
        for stream in range(self._next, self._next + 2 * count, 2):
            sent += frame(HEADERS, _END_HEADERS, stream, block) + frame(RESET, 0, stream, cancelled)
        self._next += 2 * count
        return self.write(bytes(sent))

    def call(self, path: str, content: bytes, encoding: str | None = None, seconds: float = 10.0) -> int:
        """Make a whole call of one message, which is compressed where `encoding` says gzip; return its stream's id."""
        stream = self.open(path, encoding)
        self.send(stream, gzip_message(content) if encoding == "gzip" else message(content), True, seconds)
        return stream

    def settled(self, seconds: float = 5.0) -> bool:
        """Read until the other side's settings came; return whether they did."""
        until = time.monotonic() + seconds
        while self.streams_allowed is None and self.read(until - time.monotonic()):
            pass
        return self.streams_allowed is not None

    def ended(self, stream: int, seconds: float) -> Ended | None:
        """Read until a stream ends, or its connection; None where neither happens in so many seconds."""
        until = time.monotonic() + seconds
        while self._unended(stream):
            if not self.read(until - time.monotonic()) and not self.closed:
                return None
        ended = self._ended[stream]
        ended.closed = self.closed and ended.status is None and ended.reset is None
        return ended

    def all_ended(self, streams: Iterable[int], seconds: float) -> list[Ended | None]:
        """The same of several streams, within so many seconds together."""
        until = time.monotonic() + seconds
        return [self.ended(stream, max(0.0, until - time.monotonic())) for stream in streams]

    def drain(self) -> None:
        """Read what has come, without waiting for more."""
        while self.read(0.0):
            pass

    def _unended(self, stream: int) -> bool:
        ended = self._ended[stream]
        return not self.closed and ended.status is None and ended.reset is None and not ended.finished

    def take_nothing(self) -> None:
        """Say that no answer may be longer than no bytes: the other side keeps each, until this side is gone."""
        self.write(frame(SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW, 0)))

    def read(self, seconds: float) -> bool:
        """Take one frame in, waiting for it; return whether one came."""
        until = time.monotonic() + seconds
        while not (size := self._whole()):
            try:
                # At least a moment: 0 would mean a socket that does not block, which TLS answers with its own error.
                self._socket.settimeout(max(0.001, until - time.monotonic()))
                received = self._socket.recv(1 << 16)
            except TimeoutError:
                if time.monotonic() >= until:
                    return False
                continue
            except OSError:
                received = b""
            if not received:
                self.closed = True
                return False
            self._received += received
        taken = bytes(self._received[:size])
        del self._received[:size]
        self._socket.settimeout(WRITE_SECONDS)
        self._take(taken[3], taken[4], int.from_bytes(taken[5:9]) & 0x7FFFFFFF, taken[9:])
        return True

    def _whole(self) -> int:
        if len(self._received) < 9:
            return 0
        size = 9 + int.from_bytes(self._received[:3])
        return size if len(self._received) >= size else 0

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & _ACK:
            self._set(payload)
        elif kind == PING and not flags & _ACK:
            self.write(frame(PING, _ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self._widen(stream, int.from_bytes(payload))
        elif kind == GOAWAY:
            self.going_away = int.from_bytes(payload[4:8])
        elif stream in self._ended:
            self._take_of(self._ended[stream], kind, flags, stream, payload)

    def _take_of(self, ended: Ended, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == RESET:
            # A server may reset what it has answered; the answer is what counts.
            ended.reset = int.from_bytes(payload) if ended.status is None else None
        elif kind == DATA:
            ended.body += payload
            if payload:
                more = struct.pack(">I", len(payload))
                self.write(frame(WINDOW_UPDATE, 0, 0, more) + frame(WINDOW_UPDATE, 0, stream, more))
        elif kind in (HEADERS, CONTINUATION):
            self._block += payload
            if flags & _END_HEADERS:
                ended.headers.update(read_headers(self._block))
                self._block = b""
                self._note(ended)
        ended.finished |= kind in (DATA, HEADERS) and bool(flags & _END_STREAM)

    @staticmethod
    def _note(ended: Ended) -> None:
        if b"grpc-status" in ended.headers:
            ended.status = int(ended.headers[b"grpc-status"])
            ended.message = ended.headers.get(b"grpc-message", b"").decode(errors="replace")

    def _set(self, payload: bytes) -> None:
        self.streams_allowed = self.streams_allowed or (1 << 32) - 1
        for name, value in struct.iter_unpack(">HI", payload):
            if name == 3:
                self.streams_allowed = value
            if name == _INITIAL_WINDOW:
                grown, self._stream_window = value - self._stream_window, value
                self._windows = {stream: window + grown for stream, window in self._windows.items()}
        self.write(frame(SETTINGS, _ACK, 0))

    def _widen(self, stream: int, more: int) -> None:
        if stream == 0:
            self._window += more
        elif stream in self._windows:
            self._windows[stream] += more


def connect(address: str, tls: TLS, seconds: float = 10.0, source: str = "") -> Connection:
    """Connect to host:port, checking its certificate by `tls.authority`, and showing `tls.certificate` if there is one.

    `source` is the address of this machine to come from; empty leaves it to the system.

    Raises:
        OSError: where nobody answers in time, or TLS fails (`ssl.SSLError`).
    """
    context = ssl.create_default_context()
    if isinstance(tls.authority, bytes):
        context.load_verify_locations(cadata=tls.authority.decode())
    else:
        context.load_verify_locations(tls.authority)
    if tls.certificate is not None:
        context.load_cert_chain(tls.certificate, tls.key)
    context.set_alpn_protocols(["h2"])
    host, port = parted(address)
    plain = socket.create_connection((host.strip("[]"), int(port)), seconds, (source, 0) if source else None)
    try:
        wrapped = context.wrap_socket(plain, server_hostname=host.strip("[]"))
    except BaseException:
        plain.close()
        raise
    wrapped.settimeout(WRITE_SECONDS)
    return Connection(wrapped, address)


@contextlib.contextmanager
def half_open(address: str, count: int, seconds: float = CALL_SECONDS) -> Iterator[list[socket.socket]]:
    """Give so many TCP connections that say nothing, not even the first word of TLS; fewer where no more are taken."""
    host, port = parted(address)
    opened: list[socket.socket] = []
    try:
        with contextlib.suppress(OSError):
            for _ in range(count):
                opened.append(socket.create_connection((host.strip("[]"), int(port)), seconds))  # noqa: PERF401
        yield opened
    finally:
        for each in opened:
            each.close()
