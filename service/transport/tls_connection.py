"""TLS between a socket and what reads and writes plaintext, with a limit for all that callers send below HTTP.

Python's `ssl` does the TLS; asyncio's and uvloop's own layers around it are not used. OpenSSL reads on within one call
until a record brings plaintext. So a caller that sends only records without any (KeyUpdate, 27 bytes each) would keep
those layers, and with them the whole process, busy for as long as it sends. They also keep 256 KiB for each connection,
however silent it is.

Here little is read at a time, and records are counted: those that end in what was read, and those that brought
plaintext. Every kind of record costs OpenSSL a few microseconds, whatever it contains.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Protocol, cast

from hubbub.service.rpc.concurrency import PortLimit
from hubbub.service.transport.grpc_server import HANDSHAKE_SECONDS
from hubbub.service.transport.http_connection import Connection

READ_BYTES = 17 * 1024
"""How much is read at a time: one record of the largest size, or some hundred small ones."""

DROPPED_BYTES = 256 * 1024
"""How much is read at a time of what is dropped: all that the system keeps of a connection."""

RECORD_BYTES = 128
FREE_RECORDS = 64
"""How small records may be: of a request, one for each `RECORD_BYTES` on the wire, and `FREE_RECORDS` beyond that. A
client that gives each line of a head to TLS by itself has some ten. So one read has 64 + 136 records at most, which
cost less than a millisecond together."""

EMPTY_RECORDS = 32
"""Records without plaintext on a connection in all its time. Honest ones change keys after millions of records."""

HANDSHAKE_RECORDS = 32
HANDSHAKE_BYTES = 32 * 1024
"""Records and bytes of a handshake that is not done. An honest one has up to 5 records, of up to 4 KiB together; some
programs split their first message, so that a censor does not recognize it."""

LAST_RECORDS = 3
"""Records with which a client ends the handshake; a request may come together with them."""

PIECE_BYTES = 16 * 1024
"""How much of an answer TLS is given at a time, which is one record. It encrypts into a buffer that keeps its largest
size as long as the connection."""

CLOSING_SECONDS = 5.0
"""How long the other end may take to close, too, once it has all that was written."""

CLOSING_BYTES = 1024 * 1024
"""What the other end may still send meanwhile. It is dropped; closed at once, it might not get the last answer."""

_HEADER_BYTES = 5
"""Before each record: its type (1), its version (2), and its length (2)."""

_OLD_HELLO = 0x80
"""The least first byte of a message of SSL 2.0, which OpenSSL still takes as the first one, for a few suites. Its head
has another form, so records would be counted wrongly from there on."""

_FREE = FREE_RECORDS * RECORD_BYTES


class TlsOwner(Protocol):
    """What a TLS connection needs of its port."""

    buffer: memoryview
    """Where bytes are received, of all connections: each one takes what it was given before the next one is."""

    dropped: memoryview
    """Where bytes are received that nobody looks at, of all connections that are closing."""

    def agreed(self, connection: TlsConnection) -> Connection:
        """Return the reader of the plaintext of a connection, whose handshake is done."""

    def refuse(self, limit: PortLimit) -> None:
        """Note that a connection was closed for its TLS."""

    def lost(self, connection: TlsConnection) -> None:
        """Note that a connection ended, with or without a handshake."""


class TlsConnection(asyncio.BufferedProtocol):
    """One connection from `address`: the protocol of its socket, and the transport of its reader."""

    def __init__(self, owner: TlsOwner, context: ssl.SSLContext, address: str) -> None:
        self.address = address
        self._owner, self._loop = owner, asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._socket: asyncio.Transport | None = None
        self._reader: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._header, self._missing = b"", 0
        """The beginning of a record's header, or how many bytes the record lacks."""
        self._credit = _FREE
        self._empty = self._handshake_records = self._handshake_bytes = self._dropped = 0
        self._closing = self._ended = False

    @property
    def is_agreed(self) -> bool:
        """Whether the handshake is done."""
        return self._reader is not None

    # The socket's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the handshake."""
        # Not isinstance: uvloop's transports have the methods of `asyncio.Transport` but are no subclass of it.
        self._socket = cast(asyncio.Transport, transport)
        # So `pause_writing` is called as soon as bytes have to wait, and `resume_writing` once none do.
        self._socket.set_write_buffer_limits(high=0, low=0)
        self._timer = self._loop.call_later(HANDSHAKE_SECONDS, self._late)

    def _late(self) -> None:
        self._refuse(PortLimit.UNFINISHED)

    def connection_lost(self, error: Exception | None) -> None:
        """Release everything."""
        self._stop_timer()
        self._closing, self._socket = True, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.connection_lost(error)
        self._owner.lost(self)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._owner.dropped if self._closing else self._owner.buffer

    def buffer_updated(self, count: int) -> None:
        """Take received bytes."""
        if self._closing:
            self._drop(count)
            return
        data = self._owner.buffer[:count]
        if self._reader is None and not self._handshake_bytes and data[0] >= _OLD_HELLO:
            self._refuse(PortLimit.HANDSHAKE)
            return
        records = self._records(data)
        # A record costs as much as `RECORD_BYTES` pay for.
        self._credit = min(_FREE, self._credit + count - records * RECORD_BYTES)
        if self._credit < 0:
            self._refuse(PortLimit.SMALL_RECORDS)
            return
        self._incoming.write(data)
        if self._reader is None:
            self._agree(records, count)
        else:
            self._read(records)

    def pause_writing(self) -> None:
        """Note that the other end does not take what was written."""
        if self._reader is not None:
            self._reader.pause_writing()

    def resume_writing(self) -> None:
        """Note that it has taken everything."""
        if self._closing:
            self._wait_for_end()
        if self._reader is not None:
            self._reader.resume_writing()

    # Records

    def _records(self, data: memoryview) -> int:
        """Return how many records end in these bytes."""
        if not self._missing and not self._header and len(data) == _HEADER_BYTES + int.from_bytes(data[3:5], "big"):
            return 1  # as nearly always
        ended, place, size = 0, 0, len(data)
        while place < size:
            if self._missing:
                taken = min(self._missing, size - place)
                self._missing -= taken
            else:
                taken = min(_HEADER_BYTES - len(self._header), size - place)
                self._header += data[place : place + taken]
                if len(self._header) < _HEADER_BYTES:
                    break
                self._missing, self._header = int.from_bytes(self._header[3:], "big"), b""
            place += taken
            ended += not self._missing
        return ended

    def _agree(self, records: int, count: int) -> None:
        """Go on with the handshake."""
        self._handshake_records += records
        self._handshake_bytes += count
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            if self._handshake_records > HANDSHAKE_RECORDS or self._handshake_bytes > HANDSHAKE_BYTES:
                self._refuse(PortLimit.HANDSHAKE)
            return
        except ssl.SSLError:
            self._fail()
            return
        self._stop_timer()
        self._flush()
        self._reader = self._owner.agreed(self)
        self._reader.connection_made(self)
        self._read(records, LAST_RECORDS)

    def _read(self, records: int, handshake: int = 0) -> None:
        """Pass on the plaintext of so many whole records, of which up to `handshake` belonged to the handshake."""
        pieces: list[bytes] = []
        try:
            # A call returns the plaintext of one record. The last call that finds none is spared, as it costs most.
            while len(pieces) < records:
                piece = self._tls.read(READ_BYTES)
                if not piece:
                    self._ended = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            self._empty += max(0, records - len(pieces) - handshake)
        except ssl.SSLError:
            self._fail()
            return
        if self._empty > EMPTY_RECORDS:
            self._refuse(PortLimit.EMPTY_RECORDS)
            return
        self._flush()
        if pieces and self._reader is not None:
            self._reader.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        # Who has closed its direction of TLS may still read the other one (RFC 8446, 6.1). Who closes its direction of
        # TCP is seen to leave: most that do read nothing more, and a call that nobody waits for is cancelled.
        if self._ended and not (self._reader is not None and self._reader.finish()):
            self.close()

    def _flush(self) -> None:
        """Give the socket what TLS has written."""
        if self._outgoing.pending and self._socket is not None:
            self._socket.write(self._outgoing.read())

    # The reader's calls

    def write(self, data: bytes) -> None:
        """Send plaintext: an answer, after which the next request may have its records."""
        if self._closing:
            return
        self._credit = _FREE
        try:
            for begin in range(0, len(data), PIECE_BYTES):
                if self._socket is None or self._socket.is_closing():
                    return  # the other end is gone, and asyncio would warn of each further piece
                self._tls.write(data[begin : begin + PIECE_BYTES])
                self._flush()
        except ssl.SSLError:
            self._fail()

    def pause_reading(self) -> None:
        """Read nothing more from the socket; the system's buffer fills, and the other end has to wait."""
        if self._socket is not None:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._socket is not None:
            self._socket.resume_reading()

    def close(self) -> None:
        """Close once the other end has taken all that was written, and has closed, too."""
        if self._closing or self._socket is None:
            return
        self._closing = True
        self._stop_timer()
        with contextlib.suppress(ssl.SSLError):  # such as: the other end has not closed TLS yet
            self._tls.unwrap()
        self._flush()
        if self._ended or self._reader is None or self._socket.is_closing():
            self._socket.close()
            return
        with contextlib.suppress(OSError):  # the other end is gone already
            self._socket.write_eof()
        self._socket.resume_reading()
        if not self._socket.get_write_buffer_size():
            self._wait_for_end()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        if self._socket is not None:
            self._socket.abort()

    # Ends

    def _refuse(self, limit: PortLimit) -> None:
        self._owner.refuse(limit)
        self.abort()

    def _fail(self) -> None:
        """Close after an error of TLS, whose alert tells the other end which."""
        self._flush()
        self._closing = True
        if self._socket is not None:
            if self._socket.get_write_buffer_size():
                self._socket.abort()
            else:
                self._socket.close()

    def _drop(self, count: int) -> None:
        self._dropped += count
        if self._dropped > CLOSING_BYTES:
            self.abort()

    def _wait_for_end(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(CLOSING_SECONDS, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
