"""Gets the files of a log that others keep, over HTTPS from any web server."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from hubbub.protos.errors import HubbubError, UsageError, remedy_of
from hubbub.protos.transparency_log.tiles import LogFiles, NoSuchFile, checked_length, files_in
from hubbub.queries.errors import shown

TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up."""

LONGEST = 300.0
"""Seconds for one file at most, of whatever a server sends: it may send a byte now and then, or never end a header."""

SCHEME = "https://"


@contextlib.contextmanager
def opened_log(place: str, authority: Path | None = None) -> Iterator[LogFiles]:
    """Yield the files of a log in a folder, or at an https address; its server's certificate is checked.

    `authority` is a PEM file of the authorities that may have signed it, in place of the system's.

    Raises:
        UsageError: if the address cannot be one.
        HubbubError: if `authority` cannot be read.
    """
    if "://" not in place:
        yield files_in(Path(place))
        return
    try:
        address = urlsplit(place)
        is_one = place.startswith(SCHEME) and bool(address.hostname) and address.port != 0
        is_one = is_one and place == f"{SCHEME}{address.netloc}{address.path}" and "@" not in address.netloc
        is_one = is_one and place.isascii() and place.isprintable() and " " not in place
    except ValueError:
        is_one = False
    if not is_one:
        raise UsageError(f"{shown(place)} is no address of a log; give one as https://stats.example/log, or a folder")
    connection = http.client.HTTPSConnection(
        str(address.hostname), address.port, timeout=TIMEOUT, context=_context(authority)
    )
    try:
        yield _files_at(connection, address)
    finally:
        connection.close()


def _context(authority: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if authority is None else str(authority))
    except ssl.SSLError as error:
        raise HubbubError(f"{authority} has no certificates; give the authority's PEM file") from error
    except OSError as error:
        raise HubbubError(f"cannot read {authority}: {error.strerror}; {remedy_of(error)}") from error


@contextlib.contextmanager
def _for_at_most(connection: http.client.HTTPSConnection, seconds: float, late: threading.Event) -> Iterator[None]:
    """Cut a connection after some time, and then set `late`. Connecting has a limit of its own."""
    if connection.sock is None:
        connection.connect()
    cut = connection.sock

    def stop() -> None:
        late.set()
        with contextlib.suppress(OSError):
            # Below TLS, which another thread is reading.
            socket.socket.shutdown(cut, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _files_at(connection: http.client.HTTPSConnection, address: SplitResult) -> LogFiles:
    base = address.path.rstrip("/")

    def read(path: str, most: int) -> bytes:
        where = f"{SCHEME}{address.netloc}{base}/{path}"
        late = threading.Event()
        try:
            with _for_at_most(connection, LONGEST, late):
                connection.request("GET", f"{base}/{path}", headers={"User-Agent": "hubbub"})
                answer = connection.getresponse()
                # One byte more than a file has shows that it is too long; the connection is then of no more use.
                content = answer.read(most + 1)
                if not answer.isclosed():
                    connection.close()
            if late.is_set():
                raise TimeoutError
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise HubbubError(
                f"cannot get {where}: its certificate is not trusted: {error.verify_message}; check the address, or "
                "name the authority that made the certificate with --authority"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            why = (
                f"it took more than {LONGEST:g} seconds"
                if late.is_set()
                else getattr(error, "strerror", None) or str(error) or type(error).__name__
            )
            raise HubbubError(f"cannot get {where}: {why}; check the address, and try again later") from error
        if answer.status in (http.client.NOT_FOUND, http.client.GONE):
            raise NoSuchFile(f"there is no {where}; give the address of a log")
        if answer.status != http.client.OK:
            raise HubbubError(f"the server answers {answer.status} for {where}; give the address of the log itself")
        return checked_length(path, content, most)

    return read
