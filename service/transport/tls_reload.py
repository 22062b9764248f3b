"""Checks TLS files at the start, reloads them when they change, reports their expiry, and makes TLS contexts."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import grpc
import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import Role
from hubbub.protos.identity.pem import readable_by_others
from hubbub.protos.transport.channels import TLS, Pems, renewed_server
from hubbub.protos.transport.tls_files import WARNING_DAYS, TlsCertificate, TlsCertificateError, at

WARN_SECONDS = 86_400.0
"""How often a warning of an expiring certificate is logged."""

LOOK_SECONDS = 1.0
"""How often the files are checked for changes."""

Stamp = tuple[tuple[int, int, int] | None, ...]
"""The state of the files: the inode, size and time of each; None for a file that cannot be read."""

_LOG = structlog.get_logger(__name__)


class ReloadingCertificates(Collector):
    """The TLS files of a service that are in use: those of its start, or later usable ones.

    Unusable files (one of a pair is missing, or belongs to another party) change nothing: the service continues with
    the files in use, and checks again.
    """

    def __init__(
        self,
        role: str,
        tls: TLS,
        identity: Path | None,
        clock: Callable[[], float],
        check: Callable[[bytes], None] | None = None,
        public: TLS | None = None,
    ) -> None:
        """Check a service's TLS files; warn of private keys that others can read.

        `check` receives the authorities (PEM) before they are trusted, and raises a CertificateError if they must not
        be. `public` are the files of the HTTPS port, if it has a certificate of its own.

        Raises:
            HubbubError: if a file is missing.
            CertificateError: if one cannot be used, or belongs to another party.
        """
        self._role, self._clock = role, clock
        self._tls, self._identity, self._check, self._public = tls, identity, check, public
        self._seen = self._stamp()
        self._found, self._pems = self._usable()
        self.renewals = 0
        """How often files were reloaded since the start."""
        self._ended = self._expired()

    def _usable(self) -> tuple[dict[str, TlsCertificate], Pems]:
        """Return the checked content of the files."""
        found = self._tls.check(self._clock(), own=True)
        party = found["own"].party
        # Services identify each other by these names; another name may come from a foreign authority.
        if party in set(Role) - {self._role}:
            raise TlsCertificateError(
                f"{self._tls.certificate} is the {party}'s certificate; give the {self._role} its own"
            )
        if self._public is not None:
            found["https"] = self._public.check(self._clock(), own=True)["own"]
        for path in (self._identity, self._tls.key, None if self._public is None else self._public.key):
            exposed = readable_by_others(path) if path is not None else None
            if exposed:
                _LOG.warning("a private key is open to others", problem=exposed)
        pems = self._tls.read()
        if self._check is not None:
            self._check(pems.authority)
        return found, pems

    # In use

    @property
    def in_use(self) -> Pems:
        """The content of the files in use."""
        return self._pems

    def server(self, *, mutual: bool, clients: bytes | None = None) -> grpc.ServerCredentials:
        """Return credentials of one port; each handshake uses the files in use at that time; see `renewed_server`."""
        return renewed_server(lambda: self.in_use, mutual=mutual, clients=clients)

    def look(self) -> None:
        """Reload the files if they have changed and are usable; log the reload, or why they cannot be used."""
        seen = self._stamp()
        if seen == self._seen:
            return
        try:
            found, pems = self._usable()
        except (HubbubError, OSError) as error:
            _LOG.warning("new TLS files cannot be used", problem=str(error), instead="those in use stay in use")
            self._seen = seen
            return
        if self._stamp() != seen:
            return  # they are changing: the checked content may differ from the read content
        self._seen, self._found, self._pems = seen, found, pems
        self.renewals += 1
        _LOG.info("TLS files taken", file=found["own"].where, ends=at(found["own"].not_after))
        self.warn()

    def _stamp(self) -> Stamp:
        of_public = () if self._public is None else (self._public.certificate, self._public.key)
        files = (self._tls.authority, self._tls.certificate, self._tls.key, *of_public)
        return tuple(_stamp(path) for path in files if isinstance(path, Path))

    # How long they last

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return for how long each certificate is still valid."""
        remaining = GaugeMetricFamily(
            f"hubbub_{self._role}_certificate_remaining_seconds",
            "How long the TLS certificates in use are still valid: the service's own, the authority's, and that of "
            "the HTTPS port if it has another.",
            labels=["certificate"],
        )
        for name, certificate in self._found.items():
            remaining.add_metric([name], certificate.not_after.timestamp() - self._clock())
        yield remaining

    def _expired(self) -> frozenset[str]:
        return frozenset(name for name, each in self._found.items() if each.days_left(self._clock()) <= 0)

    def warn_at_the_end(self) -> None:
        """Log certificates that have expired since the last warning: from then on nobody connects."""
        if self._expired() - self._ended:
            self.warn()

    def warn(self) -> None:
        """Log which certificates expire soon, or have expired."""
        self._ended = self._expired()
        for certificate in self._found.values():
            left = certificate.days_left(self._clock())
            if left < WARNING_DAYS:
                _LOG.warning(
                    "a certificate ends soon" if left > 0 else "a certificate has expired",
                    file=certificate.where,
                    ends=at(certificate.not_after),
                    days_left=round(left, 1),
                    remedy=certificate.remedy,
                )

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """During the block, warn now, every day and when a certificate expires, and look for new files every second."""

        async def warn() -> None:
            self.warn()

        async def look() -> None:
            await asyncio.to_thread(self.look)
            self.warn_at_the_end()

        watching = [
            asyncio.create_task(_every(WARN_SECONDS, warn)),
            asyncio.create_task(_every(LOOK_SECONDS, look)),
        ]
        try:
            yield
        finally:
            for each in watching:
                each.cancel()


async def _every(seconds: float, do: Callable[[], Awaitable[None]]) -> None:
    while True:
        await do()
        await asyncio.sleep(seconds)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class ReloadingContext:
    """The TLS context of new connections: made at the start, and again when `renewals` returns a new number."""

    def __init__(self, make: Callable[[], ssl.SSLContext], renewals: Callable[[], int]) -> None:
        self._make, self._renewals = make, renewals
        self._made_at, self._context = renewals(), make()

    def current(self) -> ssl.SSLContext:
        """Return the context with the files in use."""
        renewals = self._renewals()
        if renewals != self._made_at:
            # Files that are changing may not fit together: the next connection tries again.
            with contextlib.suppress(HubbubError, OSError):
                self._context = self._make()
                self._made_at = renewals
        return self._context


def server_context(tls: TLS, what: str) -> ssl.SSLContext:
    """Return a TLS context with a service's certificate; `what` names its user in errors.

    Raises:
        HubbubError: if a file is missing or cannot be used.
    """
    if tls.certificate is None:
        raise HubbubError(f"{what} needs a TLS certificate; name it in the settings")
    tls.check(time.time(), own=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Another handshake on a connection costs its caller much less than the service. OpenSSL 3 allows none anyway.
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except ssl.SSLError as error:
        raise HubbubError(
            f"cannot use {tls.certificate} and {tls.key}: {error.reason or error}; name a certificate and its key (PEM)"
        ) from error
    return context
