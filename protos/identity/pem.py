"""Describes unexpected content of a PEM file for errors, and finds private files that others can read."""

from __future__ import annotations

import re
from pathlib import Path

_BEGIN = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,60})-----")

_NAMES = {
    b"CERTIFICATE": "a certificate",
    b"CERTIFICATE REQUEST": "a request for a certificate",
    b"PUBLIC KEY": "a public key",
    b"PRIVATE KEY": "a private key",
    b"EC PRIVATE KEY": "a private key",
    b"RSA PRIVATE KEY": "a private key",
    b"ENCRYPTED PRIVATE KEY": "a private key under a passphrase",
    b"OPENSSH PRIVATE KEY": "a private key of OpenSSH's",
}


def what_it_is(content: bytes, otherwise: str = "not PEM") -> str:
    """Describe a file for an error, by its first label, and whether it was cut short; or return `otherwise`."""
    if not content.strip():
        return "an empty file"
    found = _BEGIN.search(content)
    if found is None:
        return otherwise
    name = _NAMES.get(found[1], f"PEM of another kind ({found[1].decode()})")
    whole = b"-----END " + found[1] + b"-----" in content[found.end() :]
    return name if whole else f"{name} that was cut short"


def readable_by_others(path: Path) -> str | None:
    """Return who besides the owner can read a private key, and the remedy; None if nobody can.

    Raises:
        OSError: if the file is not there.
    """
    mode = path.stat().st_mode & 0o777
    if not mode & 0o077:
        return None
    who = "everyone" if mode & 0o007 else "its group"
    return (
        f"{path} is private, but open to {who} (mode {mode:04o}); run `chmod 600 {path}`, unless its folder is private"
    )
