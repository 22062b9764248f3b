"""Encodes and decodes the payloads of a worker's channel: rounds, ids, and opened submissions.

Data of a submission has a fixed width, so that thousands are joined and split at once.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hubbub.protos.messages import RoundState
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES
from hubbub.protos.strict_json import read_json
from hubbub.service.rpc import ipc_messages
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.records import DIGEST_BYTES, InsertOutcome, Opened, Round

_WHICH = struct.Struct(">32sI")
"""A round: its task's id, its number."""

_ROUND = struct.Struct(">QBBBQHHHI")
"""A round's key, its state, whether it has keys, whether its key is damaged, its submissions, and the lengths of the
reason, the private key, the pseudonym key and the key set, which follow."""

_INSERT = struct.Struct(">32sIIQI")
"""Task id, round, number of unopenable submissions, the round's maximum (0: no such limit), and the bytes of the inner
envelopes of one submission. Submissions follow."""

_STATES, _OUTCOMES = tuple(RoundState), tuple(InsertOutcome)
_NAMED = {outcome: index for index, outcome in enumerate(_OUTCOMES)}
_NOTHING, _SOMETHING = b"\0" + bytes(DIGEST_BYTES), b"\1"


@dataclass(frozen=True)
class FoundRound:
    """A round as in the main process, its number of submissions, and whether its private key is damaged."""

    round: Round
    submissions: int
    damaged: bool


def write_which(task_id: bytes, number: int) -> bytes:
    """Encode the id of a round."""
    return _WHICH.pack(task_id, number)


def read_which(payload: bytes) -> tuple[bytes, int]:
    """Decode the id of a round."""
    task_id, number = _WHICH.unpack_from(payload)
    return task_id, number


def write_found(looked: FoundRound | None) -> bytes:
    """Encode a round, with its secrets; empty for a round that never began."""
    if looked is None:
        return b""
    round_, keys = looked.round, looked.round.keys
    parts = [round_.reason.encode()]
    if keys is not None:
        parts += [keys.private_key, keys.pseudonym_key, ipc_messages.write_key_set(keys.key_set)]
    else:
        parts += [b"", b"", b""]
    head = (round_.key, _STATES.index(round_.state), keys is not None, looked.damaged, looked.submissions)
    return b"".join([_ROUND.pack(*head, *map(len, parts)), *parts])


def read_found(which: tuple[bytes, int], payload: bytes) -> FoundRound | None:
    """Decode the round with that id."""
    if not payload:
        return None
    key, state, has_keys, damaged, submissions, *lengths = _ROUND.unpack_from(payload)
    parts, start = [], _ROUND.size
    for length in lengths:
        parts.append(payload[start : start + length])
        start += length
    reason, private, pseudonym, key_set = parts
    keys = RoundKeyMaterial(private, ipc_messages.read_key_set(key_set), pseudonym) if has_keys else None
    round_ = Round(key, *which, _STATES[state], keys, submissions, reason=reason.decode())
    return FoundRound(round_, submissions, bool(damaged))


# Submissions


def write_ids(task_id: bytes, number: int, ids: Sequence[bytes]) -> bytes:
    """Encode ids of submissions of a round."""
    return b"".join([write_which(task_id, number), *ids])


def read_ids(payload: bytes) -> list[bytes]:
    """Decode the ids of submissions."""
    return _cut(payload, _WHICH.size, SUBMISSION_ID_BYTES)


def write_digests(digests: Sequence[bytes | None]) -> bytes:
    """Encode the stored digests of ids, in order."""
    return b"".join([_NOTHING if digest is None else _SOMETHING + digest for digest in digests])


def read_digests(payload: bytes) -> list[bytes | None]:
    """Decode the stored digests of ids."""
    return [each[1:] if each[0] else None for each in _cut(payload, 0, 1 + DIGEST_BYTES)]


def write_opened(round_: Round, submissions: Sequence[Opened], unopenable: int, most: int | None) -> bytes:
    """Encode submissions to be stored, all of one round.

    Raises:
        ValueError: if one has another length than the others; it would shift all that follow.
    """
    width = len(submissions[0].inners) if submissions else 0
    if any(len(each.inners) != width or len(each.id) != SUBMISSION_ID_BYTES for each in submissions):
        raise ValueError(f"a submission's inner envelopes do not have {width} bytes, as the round's do")
    head = _INSERT.pack(round_.task_id, round_.number, unopenable, most or 0, width)
    return b"".join([head, *(part for each in submissions for part in (each.id, each.digest, each.inners))])


def read_opened(payload: bytes) -> tuple[list[Opened], int, int | None]:
    """Decode the submissions, the number of unopenable ones, and the round's maximum."""
    _task_id, _number, unopenable, most, width = _INSERT.unpack_from(payload)
    ids, digests = SUBMISSION_ID_BYTES, SUBMISSION_ID_BYTES + DIGEST_BYTES
    records = _cut(payload, _INSERT.size, digests + width) if width else []
    return [Opened(each[:ids], each[ids:digests], each[digests:]) for each in records], unopenable, most or None


def write_outcomes(outcomes: Sequence[InsertOutcome]) -> bytes:
    """Encode the outcome of each submission, in order."""
    return bytes([_NAMED[outcome] for outcome in outcomes])


def read_outcomes(payload: bytes) -> list[InsertOutcome]:
    """Decode the outcomes."""
    return [_OUTCOMES[each] for each in payload]


def _cut(payload: bytes, start: int, width: int) -> list[bytes]:
    if (len(payload) - start) % width:
        raise ValueError(f"{len(payload) - start} bytes came, which is no multiple of {width}")
    return [payload[begin : begin + width] for begin in range(start, len(payload), width)]


# Rare payloads


def write_counts(task_id: bytes, number: int, names: Mapping[str, int]) -> bytes:
    """Encode refusals by reason."""
    return json.dumps([task_id.hex(), number, dict(names)]).encode()


def read_counts(payload: bytes) -> tuple[bytes, int, dict[str, int]]:
    """Decode refusals by reason."""
    task_id, number, names = read_json(payload)
    return bytes.fromhex(task_id), number, names


def write_document(document: Any) -> bytes:
    """Encode a document of numbers and texts."""
    return json.dumps(document).encode()


def read_document(payload: bytes) -> Any:
    """Decode a document."""
    return read_json(payload)
