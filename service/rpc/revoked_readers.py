"""Refuses readers that the operator revoked, by a file that is looked at again at each of their calls."""

from __future__ import annotations

from pathlib import Path

import structlog
from cryptography import x509

from hubbub.protos.errors import HubbubError, SettingsError, remedy_of
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.revoked_readers import read_revoked

Stamp = tuple[int, int, int]
"""The state of a file: its inode, size and time."""

_LOG = structlog.get_logger(__name__)


class RevokedReaders:
    """The readers in a file; none if there is no file.

    A file that cannot be read revokes every reader: nobody may look because a list was damaged.
    """

    def __init__(self, path: Path) -> None:
        """Read the file, if it is there.

        Raises:
            SettingsError: if it cannot be read, or is no list of readers.
        """
        self._path = path
        self._seen = self._stamp()
        self._before: dict[str, int] | None = {}
        if self._seen is not None and (problem := self._read()) is not None:
            raise SettingsError(f"revoked_readers: {problem}")

    def check(self, caller: str, certificate: bytes) -> None:
        """Return only if the reader of that common name may look with this certificate (PEM).

        Raises:
            Refusal: NOT_ALLOWED, if it was revoked, or the file cannot be read now.
        """
        self._look()
        if self._before is None:
            raise Refusal(
                Reason.NOT_ALLOWED, "the service cannot read its list of revoked readers; have its party mend the file"
            )
        before = self._before.get(caller)
        if before is not None and _begins(certificate) < before:
            raise Refusal(
                Reason.NOT_ALLOWED, f"this certificate of {caller} was revoked; ask the operator for a new one"
            )

    def _look(self) -> None:
        """Read the file again if it has changed; log what was read, or why it cannot be."""
        seen = self._stamp()
        if seen == self._seen:
            return
        self._seen, self._before = seen, {}
        problem = None if seen is None else self._read()
        if problem is None:
            _LOG.info("revoked readers taken", file=str(self._path), readers=len(self._before or {}))
        else:
            _LOG.warning("revoked readers cannot be read", problem=problem, instead="no reader may look")

    def _read(self) -> str | None:
        """Read the file; return what is wrong with it."""
        self._before = None
        try:
            self._before = read_revoked(self._path.read_text(encoding="utf-8"))
        except OSError as error:
            return f"cannot read {self._path}: {error.strerror}; {remedy_of(error)}"
        except (HubbubError, UnicodeDecodeError) as error:
            return f"{self._path}: {error}"
        return None

    def _stamp(self) -> Stamp | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError:
            return (0, 0, 0)  # it may be there; reading it says what is wrong
        return (found.st_ino, found.st_size, found.st_mtime_ns)


def _begins(certificate: bytes) -> float:
    return x509.load_pem_x509_certificate(certificate).not_valid_before_utc.timestamp()
