"""Pinned: a round's keys as the state file holds them."""

from __future__ import annotations

from hubbub.client.errors import StateError
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical
from hubbub.protos.identity.keys import KeySet


def write_key_set(key_set: KeySet) -> bytes:
    """Return the bytes that are stored of a key set."""
    return canonical({"analyzer": key_set.analyzer.as_json(), "shuffler": key_set.shuffler.as_json()})


def read_key_set(content: bytes) -> KeySet:
    """Return what `write_key_set` wrote.

    Raises:
        StateError: where it cannot be read.
    """
    try:
        value = parse_canonical(content)
        return KeySet(SignedDocument.from_json(value["shuffler"]), SignedDocument.from_json(value["analyzer"]))
    except (SignatureError, KeyError, TypeError) as error:
        raise StateError("the state file holds keys of a round that cannot be read; it is damaged") from error
