"""TLS records made one by one on a true connection, such as no library sends them: empty, tiny, or of messages alone.

The handshake is Python's. Its keys are logged (`SSLContext.keylog_filename`), and records are enciphered with them by
RFC 8446 (7.1 to 7.3) or RFC 5246 (6.2.3.3, RFC 5288). This is for tests: services use nothing of it.
"""

from __future__ import annotations

import contextlib
import hmac
import select
import socket
import ssl
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

ALERT, HANDSHAKE, DATA = 21, 22, 23
"""Types of records."""

KEY_UPDATE = b"\x18\x00\x00\x01"
"""How a KeyUpdate begins; a byte follows: whether the other end shall change its keys, too."""

USER_CANCELED = b"\x01\x5a"
"""A warning that ends nothing."""

CLOSE_NOTIFY = b"\x01\x00"
"""A warning that nothing more comes."""

SECONDS = 10.0

_SUITES: dict[str, tuple[str, int, type[AESGCM | ChaCha20Poly1305]]] = {
    "TLS_AES_256_GCM_SHA384": ("sha384", 32, AESGCM),
    "TLS_AES_128_GCM_SHA256": ("sha256", 16, AESGCM),
    "TLS_CHACHA20_POLY1305_SHA256": ("sha256", 32, ChaCha20Poly1305),
    "ECDHE-ECDSA-AES256-GCM-SHA384": ("sha384", 32, AESGCM),
    "ECDHE-RSA-AES256-GCM-SHA384": ("sha384", 32, AESGCM),
}


class Records:
    """A connection that has agreed on TLS, and writes its records itself; `close` it, or use it in `with`."""

    def __init__(
        self,
        address: tuple[str, int],
        authority: Path,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        *,
        source: str = "127.0.0.1",
        alpn: tuple[str, ...] = (),
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        """Connect and agree on TLS.

        Raises:
            OSError: if the other end does not.
        """
        context = ssl.create_default_context(cafile=str(authority))
        context.minimum_version = context.maximum_version = version
        if version is ssl.TLSVersion.TLSv1_2:
            context.set_ciphers("ECDHE+AESGCM+AES256")
        if alpn:
            context.set_alpn_protocols(alpn)
        if certificate is not None:
            context.load_cert_chain(*certificate)
        self._arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.socket = socket.create_connection(address, SECONDS, (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with tempfile.NamedTemporaryFile() as log:
                context.keylog_filename = log.name
                self._tls = context.wrap_bio(self._arriving, leaving, server_hostname="localhost")
                self.hello, answered = self._agree(leaving)
                logged = Path(log.name).read_text()
        except BaseException:
            self.socket.close()
            raise
        self._secrets(logged, answered, version)

    def _agree(self, leaving: ssl.MemoryBIO) -> tuple[bytes, bytes]:
        """Agree on TLS; return what was sent first, and all that was answered."""
        hello = answered = b""
        while True:
            try:
                self._tls.do_handshake()
                agreed = True
            except ssl.SSLWantReadError:
                agreed = False
            said = leaving.read()
            hello = hello or said
            self.socket.sendall(said)
            if agreed:
                return hello, answered
            heard = self.socket.recv(65536)
            if not heard:
                raise ConnectionResetError("the other end closed before TLS was agreed on")
            answered += heard
            self._arriving.write(heard)

    def _secrets(self, logged: str, answered: bytes, version: ssl.TLSVersion) -> None:
        suite = self._tls.cipher()
        assert suite is not None
        self._hash, self._key_bytes, self._cipher = _SUITES[suite[0]]
        lines = [line.split() for line in logged.splitlines() if not line.startswith("#")]
        secrets = {name: [bytes.fromhex(word) for word in words] for name, *words in lines}
        self._old = version is ssl.TLSVersion.TLSv1_2
        if self._old:
            random, master = secrets["CLIENT_RANDOM"]
            # The server's random: behind the heads of its first record (5) and message (4), and its version (2).
            block = self._prf(master, b"key expansion" + answered[11:43] + random, 2 * self._key_bytes + 8)
            self._aead = self._cipher(block[: self._key_bytes])
            self._iv = block[2 * self._key_bytes : 2 * self._key_bytes + 4]
            self._number = 1  # its Finished was 0
        else:
            self._take(secrets["CLIENT_TRAFFIC_SECRET_0"][1])

    def _prf(self, secret: bytes, seed: bytes, size: int) -> bytes:
        found, step = b"", seed
        while len(found) < size:
            step = hmac.digest(secret, step, self._hash)
            found += hmac.digest(secret, step + seed, self._hash)
        return found[:size]

    def _take(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._aead = self._cipher(self._expanded(b"key", self._key_bytes))
        self._iv = self._expanded(b"iv", 12)

    def _expanded(self, label: bytes, size: int) -> bytes:
        label = b"tls13 " + label
        info = size.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0\1"
        return hmac.digest(self._secret, info, self._hash)[:size]

    # What is written

    def record(self, content: bytes, kind: int = DATA, padding: int = 0) -> bytes:
        """Return a record of that type; TLS 1.3 can hide its length in zeros."""
        number = self._number.to_bytes(8, "big")
        self._number += 1
        if self._old:
            head = number + bytes([kind, 3, 3])
            sealed = self._aead.encrypt(self._iv + number, content, head + len(content).to_bytes(2, "big"))
            return bytes([kind, 3, 3]) + (8 + len(sealed)).to_bytes(2, "big") + number + sealed
        head = bytes([DATA, 3, 3]) + (len(content) + padding + 17).to_bytes(2, "big")
        nonce = bytes(a ^ b for a, b in zip(self._iv, bytes(4) + number, strict=True))
        return head + self._aead.encrypt(nonce, content + bytes([kind]) + bytes(padding), head)

    def key_update(self, answer: bool = False, padding: int = 0) -> bytes:
        """Return a record that changes this end's keys; with `answer`, the other end's, too."""
        made = self.record(KEY_UPDATE + bytes([answer]), HANDSHAKE, padding)
        self._take(self._expanded(b"traffic upd", len(self._secret)))
        return made

    def hello_again(self) -> bytes:
        """Return a record that begins another handshake (TLS 1.2)."""
        return self.record(self.hello[5:], HANDSHAKE)

    def send(self, data: bytes) -> bool:
        """Send bytes as they are; return whether the other end was there for them."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    # What comes back

    def closed(self, seconds: float = SECONDS) -> bool:
        """Wait so long for the end of the connection; return whether it came. What comes before it is dropped."""
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def is_open(self) -> bool:
        """Return whether the other end still has the connection, without reading."""
        looking = select.poll()
        looking.register(self.socket, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        return not looking.poll(0)

    def read(self, size: int = 65536) -> bytes:
        """Return what was answered next; empty at the end."""
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                return self._tls.read(size)
            try:
                heard = self.socket.recv(65536)
            except OSError:
                return b""
            if not heard:
                return b""
            self._arriving.write(heard)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bare(address: tuple[str, int], source: str = "127.0.0.1") -> socket.socket:
    """Return a connection that has not begun TLS."""
    found = socket.create_connection(address, SECONDS, (source, 0))
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def client_hello(authority: Path, *, name: str = "localhost", alpn: tuple[str, ...] = ()) -> bytes:
    """Return the message with which a client begins, without the head of its record."""
    context = ssl.create_default_context(cafile=str(authority))
    if alpn:
        context.set_alpn_protocols(alpn)
    leaving = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), leaving, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return leaving.read()[5:]


def fragments(message: bytes, size: int) -> bytes:
    """Return a message of the handshake in records of that size."""
    pieces = [message[begin : begin + size] for begin in range(0, len(message), size)]
    return b"".join(bytes([HANDSHAKE, 3, 1]) + len(piece).to_bytes(2, "big") + piece for piece in pieces)
