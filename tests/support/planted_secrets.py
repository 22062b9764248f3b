"""Planted secrets, and the search for them in whatever a process wrote."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key


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
    """The private part of every key file below a folder: its bytes, and a chunk of it as the file has it."""
    found = set()
    for path in private_keys(folder):
        content = path.read_bytes()
        key, body = load_pem_private_key(content, None), b"".join(content.split(b"-----")[2].split())
        if isinstance(key, EllipticCurvePrivateKey):
            # Behind the first line, and before the public key.
            found |= {key.private_numbers().private_value.to_bytes(32, "big"), body[64:88]}
        else:
            assert isinstance(key, Ed25519PrivateKey)
            found |= {key.private_bytes_raw(), body[-24:]}
    return found
