"""Makes TLS credentials, and gRPC channels with the same options everywhere."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc

from hubbub.protos.errors import CannotCall, HubbubError
from hubbub.protos.transport.forks import check_forks
from hubbub.protos.transport.proxies import proxy_to
from hubbub.protos.transport.tls_files import TlsCertificate, certificates_in, check_issued, check_pair, key_in

POLLING = "GRPC_POLL_STRATEGY"
"""The variable of how gRPC waits for the network."""

FILES_OF_A_CALL = 16
"""Open files that a process needs for its first channel: gRPC's wake-ups and polls, a look at names, a connection."""

PLENTY_OF_FILES = 256
"""A limit of open files above which a client's files are not counted."""

_FILES = "/proc/self/fd"

MAXIMUM_MESSAGE_BYTES = 8 * 1024 * 1024
"""Largest message that a service accepts: about 40,000 submissions, far more than one call has."""

MAXIMUM_RESULTS_BYTES = 256 * 1024 * 1024
"""Largest answer a reader of results takes: a table of some 200 million texts, or two million rows.

It may be larger than what a service takes, because it comes from the analyzer alone, over mutual TLS, on request.
"""

MAXIMUM_SUBMISSIONS = 10_000
"""Most submissions in one call: a message of the largest size could otherwise have millions of empty ones."""

SUBMISSION_OVERHEAD = 128
"""Bytes a submission adds to its envelope on the wire, rounded up: id, credential, proof, and the fields' frames."""

_CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAXIMUM_MESSAGE_BYTES),
    # A restarted peer is found again within seconds, not after gRPC's default of up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Detects a connection whose other end vanished.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)


@dataclass(frozen=True)
class Pems:
    """The contents of a server's TLS files (PEM), which are never printed."""

    authority: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)

    def configuration(self, clients: bytes | None) -> grpc.ServerCertificateConfiguration:
        """Return them as gRPC takes them; `clients` is the authority of clients' certificates, if it is another one."""
        return grpc.ssl_server_certificate_configuration([(self.key, self.certificate)], clients or self.authority)


def renewed_server(
    current: Callable[[], Pems], *, mutual: bool, clients: bytes | None = None
) -> grpc.ServerCredentials:
    """Credentials of one port that are asked for before each handshake, so that new files need no restart.

    `current` is called in gRPC's threads, so it only returns what is in memory. With `mutual`, clients must show a
    certificate of an authority that is trusted at that moment, or of `clients` (PEM) if that is given. Open
    connections stay open.
    """
    # For one port only: gRPC keeps a configuration for each port, and `given` is the one that this port has.
    given: Pems | None = None

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal given
        now = current()
        # None keeps what gRPC has; it asks for one handshake at a time.
        if now is given:
            return None
        given = now
        return now.configuration(clients)

    first = current().configuration(clients)
    # gRPC's documentation allows None, but its types do not.
    return grpc.dynamic_ssl_server_credentials(first, changed, require_client_authentication=mutual)  # type: ignore[arg-type]


@dataclass(frozen=True)
class TLS:
    """PEM files of a party: its certificate, its private key, and the authority it trusts (a file or PEM bytes).

    `proxy` is the http://host:port through which the party calls others than this machine; None for none. A
    certificate that `is_public` is from an authority that callers trust already, and not from the deployment's.
    """

    authority: Path | bytes
    certificate: Path | None = None
    key: Path | None = None
    proxy: str | None = None
    is_public: bool = False

    def server(self, *, mutual: bool) -> grpc.ServerCredentials:
        """Credentials of a server; with `mutual`, clients must show a certificate of the same authority.

        Raises:
            HubbubError: if a file is missing.
            CertificateError: if one cannot be used.
        """
        self.check(time.time(), own=True)
        pair = (read_pem(self.key), read_pem(self.certificate))
        return grpc.ssl_server_credentials([pair], read_pem(self.authority), require_client_auth=mutual)

    def read(self) -> Pems:
        """Return the contents of the files.

        Raises:
            HubbubError: if a file is not named, or missing.
        """
        return Pems(read_pem(self.authority), read_pem(self.certificate), read_pem(self.key))

    def client(self) -> grpc.ChannelCredentials:
        """Credentials of a client, with its own certificate if there is one.

        Raises:
            HubbubError: if a file is missing.
            CertificateError: if one cannot be used.
        """
        self.check(time.time())
        if self.certificate is None:
            return grpc.ssl_channel_credentials(read_pem(self.authority))
        return grpc.ssl_channel_credentials(read_pem(self.authority), read_pem(self.key), read_pem(self.certificate))

    def check(self, now: float, *, own: bool = False) -> dict[str, TlsCertificate]:
        """Return the certificates, "authority" and "own" (if there is one; with `own`, there must be).

        Raises:
            HubbubError: if a file is not named, or missing.
            CertificateError: if a file is of another kind, is not valid at `now` (seconds since 1970), or the key is
                another certificate's; with `own` also if the authority did not issue the certificate, unless it is
                public.
        """
        where = "the authority's certificate" if isinstance(self.authority, bytes) else str(self.authority)
        trusted = certificates_in(read_pem(self.authority), where)
        authorities = [TlsCertificate.of(each, where) for each in trusted]
        # There are two while a new authority replaces an old one: the one that lasts longest counts.
        found = {"authority": max(authorities, key=lambda each: each.not_after)}
        if own or self.certificate is not None:
            # The first is the party's own; any others lead from it to the authority.
            chain = certificates_in(read_pem(self.certificate), str(self.certificate))
            check_pair(chain[0], key_in(read_pem(self.key), str(self.key)), str(self.certificate), str(self.key))
            found["own"] = replace(TlsCertificate.of(chain[0], str(self.certificate)), is_public=self.is_public)
        for each in found.values():
            each.check_time(now)
        if own and not self.is_public:
            check_issued(chain, trusted, found["own"], where)
        return found


def read_pem(path: Path | bytes | None) -> bytes:
    """Return the content of a TLS file; bytes are returned as they are.

    Raises:
        HubbubError: if it is not named, or cannot be read.
    """
    if isinstance(path, bytes):
        return path
    if path is None:
        raise HubbubError("a TLS file is not named; settings need authority, certificate and key")
    try:
        return path.read_bytes()
    except PermissionError as error:
        raise HubbubError(
            f"cannot read {path}: {error.strerror}: this account may not read it; give it the file with chown"
        ) from error
    except OSError as error:
        raise HubbubError(
            f"cannot read {path}: {error.strerror}; the operator has the authority's certificate, and makes the others "
            "and their keys with `hubbub certificate`"
        ) from error


def check_polling() -> None:
    """Check that gRPC can wait for the network as the environment says; otherwise it would end the whole process.

    Raises:
        CannotCall: naming the variable and what it may be.
    """
    stated = os.environ.get(POLLING)
    if stated is not None and not {"all", "epoll1", "poll", "none"} & set(stated.split(",")):
        raise CannotCall(
            f"{POLLING} is {stated!r:.80} in the environment, and gRPC knows none of that; unset it, or set it to "
            "epoll1 or poll"
        )


def check_files() -> None:
    """Check that this process may open the files that a call by gRPC needs; otherwise gRPC would end the process.

    Raises:
        CannotCall: naming the limit, how many files are open, and what to do.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Far from the limit nothing is counted, as a process may have many files and make many channels.
    if limit == resource.RLIM_INFINITY or limit > PLENTY_OF_FILES:
        return
    try:
        count = len(os.listdir(_FILES))  # noqa: PTH208 - names alone
    except OSError as error:
        # To look takes a file, too. Where the system has no such folder, nothing is known.
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            return
        count = limit
    if count + FILES_OF_A_CALL > limit:
        raise CannotCall(
            f"this process may have {limit} open files and has {count}, and a call by gRPC needs {FILES_OF_A_CALL} "
            f"more; raise the limit (`ulimit -n` in a shell, LimitNOFILE in a unit) to {PLENTY_OF_FILES}"
        )


def open_channel(
    address: str, tls: TLS, name: str | None = None, *, largest: int = MAXIMUM_MESSAGE_BYTES
) -> grpc.aio.Channel:
    """Open a TLS channel to host:port; it connects at the first call and again whenever it has to.

    The other side's certificate must be for the host, or for `name` if one is given. Answers above `largest` bytes
    are refused; a reader of results takes up to `MAXIMUM_RESULTS_BYTES`.

    Raises:
        CannotCall: as `check_polling`, `check_forks` and `check_files`.
    """
    check_polling()
    check_forks()
    check_files()
    # Without an option, gRPC takes a proxy from the environment.
    proxy = proxy_to(address, tls.proxy)
    options: tuple[tuple[str, str | int], ...] = (
        *_CHANNEL_OPTIONS,
        ("grpc.max_receive_message_length", largest),
        ("grpc.enable_http_proxy", 0) if proxy is None else ("grpc.http_proxy", proxy),
    )
    if name is not None:
        options = (*options, ("grpc.ssl_target_name_override", name))
    return grpc.aio.secure_channel(address, tls.client(), options=options)
