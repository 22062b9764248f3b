"""Planted secrets, and the search for them in whatever a process wrote."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path

KEY_TAIL = 24
"""Characters of a key file's end that are looked for: its beginning is alike in all."""


def forms(secret: bytes) -> set[bytes]:
    """How bytes may stand in a text: as they are, in hex, in base64, and as Python prints them, also within JSON."""
    shown = repr(secret)[2:-1]
    based = {base64.b64encode(secret).rstrip(b"="), base64.urlsafe_b64encode(secret).rstrip(b"=")}
    return based | {
        secret,
        *(text.encode() for text in (secret.hex(), secret.hex().upper(), shown, json.dumps(shown)[1:-1])),
    }


def found_in(text: bytes, secrets: Iterable[bytes]) -> list[bytes]:
    """The secrets that stand in a text in any form."""
    return [secret for secret in secrets if any(form in text for form in forms(secret))]


def private_keys(folder: Path) -> set[Path]:
    """Every file below a folder that holds a private key."""
    return {path for path in folder.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()}


def in_key_files(folder: Path) -> set[bytes]:
    """The private part of every key file below a folder."""
    bodies = (b"".join(path.read_bytes().split(b"-----")[2].split()) for path in private_keys(folder))
    return {body[-KEY_TAIL:] for body in bodies}
