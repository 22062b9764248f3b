"""Writes tests/vectors/wire/refused.json: tasks and round keys that a client takes, and those that it must refuse.

    python tests/vectors/make_refused.py

Each refused one differs from a good one in one thing, which `because` names; tests/vectors/wire/README.md says what
the words mean. Those that can be signed are signed, so that the signature alone does not give them away.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.protos.identity.documents import SignedDocument, canonical, sign  # noqa: E402
from hubbub.protos.identity.formats import BATCH_RECORD, KEY_RECORD, TASK  # noqa: E402
from hubbub.protos.identity.keys import Identity, KeyRecord, Role  # noqa: E402
from hubbub.protos.identity.successions import Succession  # noqa: E402
from hubbub.protos.task.schedule import prepared_from  # noqa: E402
from hubbub.protos.task.signed_task import SignedTask  # noqa: E402
from vectors.make_signed import PARTIES, identity, vector_task  # noqa: E402

FILE = Path(__file__).parent / "wire" / "refused.json"

ROUND, NOW = 1, 1_767_230_000
"""The round whose keys are shown, and the time on the client's clock, within the keys' validity."""

OTHER = identity(99)
"""Nobody's identity."""


def task_cases() -> Iterator[tuple[str, str | None, bytes]]:
    """What is different, the word for it (None for the good one), and the document."""
    task = vector_task()
    signed = SignedTask(task).signed_by(PARTIES.operator).signed_by(PARTIES.shuffler)
    good = signed.encode()
    yield "as it was signed", None, good
    forms = {
        "a space after a colon": good.replace(b'":', b'": ', 1),
        "a line break at the end": good + b"\n",
        "an escape for a letter": good.replace("Ö".encode(), b"\\u00d6", 1),
        "a number as Python writes it": good.replace(b"0.000001", b"1e-06", 1),
        "a whole number with a fraction": good.replace(b'"weight":4', b'"weight":4.0', 1),
        "a byte order mark": b"\xef\xbb\xbf" + good,
        "no end": good[:-1],
        "no JSON": b"task",
    }
    for what, document in forms.items():
        assert document != good
        yield what, "canonical", document
    names = b'"task":{'
    yield (
        "a member that is there twice, another value first",
        "canonical",
        good.replace(names, names + b'"rounds":1,"rounds":2,', 1),
    )
    # Whole numbers beyond 2⁵³ are doubles in canonical form.
    outer = json.loads(good, parse_int=lambda text: int(text) if len(text) < 16 else float(text))
    for what, change in (
        ("the operator's signature by nobody's key", {"operator": _signature(outer["task"], OTHER)}),
        ("the shuffler's signature by the operator", {"shuffler": outer["signatures"]["operator"]}),
        (
            "a signature under the label of a key record",
            {"operator": _signature(outer["task"], PARTIES.operator, KEY_RECORD.format)},
        ),
        ("a signature of another body", {"shuffler": _signature({"a": 1}, PARTIES.shuffler)}),
        ("a signature of 63 bytes", {"shuffler": outer["signatures"]["shuffler"][:-2]}),
    ):
        yield what, "signature", canonical({**outer, "signatures": outer["signatures"] | change})
    yield (
        "one signature",
        "signature",
        canonical({**outer, "signatures": {"operator": outer["signatures"]["operator"], "shuffler": None}}),
    )
    for what, because, body in _bodies(outer["task"]):
        signatures = {
            role: _signature(body, key, body["format"])
            for role, key in (("operator", PARTIES.operator), ("shuffler", PARTIES.shuffler))
        }
        yield what, because, canonical({"signatures": signatures, "task": body})


def _bodies(task: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What is wrong in bodies that both have signed."""
    yield "a later version", "format", {**task, "format": "hubbub-task/2"}
    yield "another kind of document", "format", {**task, "format": "hubbub-key/1"}
    yield "a member that no version has", "value", {**task, "color": "red"}
    yield "no queries", "value", {**task, "queries": []}
    first, *others = task["queries"]

    def asked(**changed: Any) -> dict[str, Any]:
        return {**task, "queries": [{**first, **changed}, *others]}

    for what, changed in (
        ("a gamma of 0, which is no privacy", {"gamma": [0, 2**32]}),
        ("a gamma of 1", {"gamma": [2**32, 2**32]}),
        ("a gamma over another denominator", {"gamma": [1, 2]}),
        ("an unknown kind of question", {"kind": "essay"}),
        ("an unknown randomizer", {"mechanism": "none"}),
        ("a category twice", {"categories": ["AA", "AA", "B", "C"]}),
        ("true for a number", {"weight": True}),
    ):
        yield what, "value", asked(**changed)
    yield "a suite that is not known", "value", {**task, "suite": "X25519-HKDF-SHA256-AES128GCM"}
    yield "two queries of one name", "value", {**task, "queries": [first, first]}
    cap = {**task["privacy"], "epsilon_local": 1e-3}
    yield "queries that cost more than the task's cap", "value", {**task, "privacy": cap}


def _signature(body: Mapping[str, Any], by: Identity, label: str = TASK.format) -> str:
    return sign(label, canonical(body), by.key).hex()


def _round_record() -> KeyRecord:
    """The shuffler's key record of the round."""
    task = vector_task()
    return KeyRecord(Role.SHUFFLER, task.id, ROUND, task.suite, bytes([8]) * 32, NOW - 1000, NOW + 10_000)


def _analyzer_record() -> SignedDocument:
    return replace(_round_record(), role=Role.ANALYZER, public_key=bytes([9]) * 32).signed_by(PARTIES.analyzer)


def succession(role: Role, old: Identity, new: Identity, witness: Identity, begins: int) -> Succession:
    """A succession that all three have signed."""
    bare = Succession(role, old.public, new.public, witness.public, begins)
    return bare.signed_by(old).signed_by(new).signed_by(witness)


def without(signed: Succession, signer: Identity) -> Succession:
    """The succession without that signature."""
    return replace(signed, signatures=tuple(each for each in signed.signatures if each[0] != signer.public))


def succession_cases() -> Iterator[tuple[str, str | None, SignedDocument, SignedDocument, list[Succession]]]:
    """Keys whose signers follow from successions, as `key_cases`; those that come with the keys are last."""
    made = prepared_from(vector_task().schedule, ROUND)
    old, new, newer, operator = PARTIES.shuffler, identity(14), identity(15), identity(16)
    first = succession(Role.SHUFFLER, old, new, PARTIES.operator, made)
    late = succession(Role.SHUFFLER, old, new, PARTIES.operator, made + 1)
    signed_by = {each: _round_record().signed_by(each) for each in (old, new, newer)}
    for what, because, signer, successions in (
        ("the shuffler's successor, since the second in which the keys may first be made", None, new, [first]),
        ("the same without the succession", "signature", new, []),
        ("the shuffler itself, although it has a successor", "signature", old, [first]),
        ("the shuffler itself, whose successor begins a second later", None, old, [late]),
        ("the successor, a second too early", "signature", new, [late]),
        ("a succession that its witness has not signed", "signature", new, [without(first, PARTIES.operator)]),
        ("a succession that the new identity has not signed", "signature", new, [without(first, new)]),
        (
            "a succession whose witness is nobody",
            "signature",
            new,
            [succession(Role.SHUFFLER, old, new, OTHER, made)],
        ),
        (
            "two successions of one identity",
            "signature",
            new,
            [first, succession(Role.SHUFFLER, old, newer, PARTIES.operator, made - 1)],
        ),
        (
            "the successor's successor, in any order",
            None,
            newer,
            [
                succession(Role.SHUFFLER, new, newer, PARTIES.operator, made),
                succession(Role.SHUFFLER, old, new, PARTIES.operator, made - 5),
            ],
        ),
        (
            "a succession that begins when the one before it does",
            "signature",
            newer,
            [first, succession(Role.SHUFFLER, new, newer, PARTIES.operator, made)],
        ),
        (
            "a successor whose witness is the operator's successor",
            None,
            new,
            [
                succession(Role.SHUFFLER, old, new, operator, made),
                succession(Role.OPERATOR, PARTIES.operator, operator, old, made - 5),
            ],
        ),
        (
            "a succession of another deployment beside it, which is left out",
            None,
            new,
            [first, succession(Role.SHUFFLER, OTHER, identity(98), identity(97), made - 9)],
        ),
    ):
        yield what, because, signed_by[signer], _analyzer_record(), successions


def key_cases() -> Iterator[tuple[str, str | None, SignedDocument, SignedDocument]]:
    """What is different, the word for it, and the two records of the round, the shuffler's and the analyzer's."""
    shuffler = _round_record()
    analyzer = replace(shuffler, role=Role.ANALYZER, public_key=bytes([9]) * 32)
    first, second = shuffler.signed_by(PARTIES.shuffler), _analyzer_record()
    yield "as they were signed", None, first, second
    yield "the analyzer's record signed by the shuffler", "signature", first, analyzer.signed_by(PARTIES.shuffler)
    yield "the shuffler's record signed by nobody known", "signature", shuffler.signed_by(OTHER), second
    moved = SignedDocument(first.body.replace(b'"round":1', b'"round":2'), first.signature)
    yield "a body that was changed after it was signed", "signature", moved, second
    labeled = SignedDocument(first.body, sign(BATCH_RECORD.format, first.body, PARTIES.shuffler.key))
    yield "a signature under the label of a batch record", "signature", labeled, second
    yield "a body with a space, signed so", "canonical", _signed(first.body.replace(b":", b": ", 1)), second
    yield "a member twice, signed so", "canonical", _signed(first.body.replace(b'{"', b'{"a":1,"a":1,"', 1)), second
    for what, because, changed in (
        ("the key of the round before", "round", {"round": ROUND - 1}),
        ("the key of another task", "task", {"task_id": bytes(32)}),
        ("the analyzer's role in the shuffler's place", "role", {"role": Role.ANALYZER}),
        ("a key that is not valid yet", "time", {"not_before": NOW + 1}),
        ("a key that is no longer valid", "time", {"not_after": NOW - 1}),
    ):
        yield what, because, replace(shuffler, **changed).signed_by(PARTIES.shuffler), second
    swapped = replace(analyzer, role=Role.SHUFFLER).signed_by(PARTIES.analyzer)
    yield "the shuffler's role in the analyzer's place", "role", first, swapped
    body, key = json.loads(first.body), bytes([8]) * 1216
    for what, because, change in (
        ("a later version", "format", {"format": "hubbub-key/2"}),
        ("another suite", "suite", {"suite": "MLKEM768-X25519", "public_key": key.hex(), "key_id": id_of(key)}),
        ("a suite that is not known", "suite", {"suite": "none"}),
        ("a key id of another key", "value", {"key_id": "0" * 16}),
        ("a key of 31 bytes", "value", {"public_key": "08" * 31}),
        ("a validity that ends before it begins", "value", {"not_before": NOW + 10_001}),
        ("a member that no version has", "value", {"color": "red"}),
        ("a round that is no number", "value", {"round": "1"}),
    ):
        yield what, because, _signed(canonical(body | change), str(change.get("format", KEY_RECORD.format))), second


def id_of(key: bytes) -> str:
    """The name of a public key."""
    return hashlib.sha256(key).hexdigest()[:16]


def _signed(body: bytes, label: str = KEY_RECORD.format) -> SignedDocument:
    return SignedDocument(body, sign(label, body, PARTIES.shuffler.key))


def content() -> dict[str, Any]:
    """Return what the file has."""
    task = vector_task()
    return {
        "origin": "November 2026: documents that a client reads, one thing wrong in each. The keys protect nothing.",
        "keys": {
            "operator": PARTIES.operator.public.hex(),
            "shuffler": PARTIES.shuffler.public.hex(),
            "analyzer": PARTIES.analyzer.public.hex(),
        },
        "tasks": [
            {"what": what, "because": because, "document": _base64(document)}
            for what, because, document in task_cases()
        ],
        "round_keys": {
            "task": task.id.hex(),
            "suite": task.suite,
            "round": ROUND,
            "now": NOW,
            "sets": [
                {
                    "what": what,
                    "because": because,
                    "shuffler": _record(first),
                    "analyzer": _record(second),
                    "successions": [_base64(each.encode()) for each in successions],
                }
                for what, because, first, second, successions in _all_key_cases()
            ],
        },
    }


def _all_key_cases() -> Iterator[tuple[str, str | None, SignedDocument, SignedDocument, list[Succession]]]:
    for case in key_cases():
        yield *case, []
    yield from succession_cases()


def _record(document: SignedDocument) -> dict[str, str]:
    return {"body": _base64(document.body), "signature": document.signature.hex()}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def encoded() -> bytes:
    """Return the file."""
    return (json.dumps(content(), indent=1) + "\n").encode()


if __name__ == "__main__":
    FILE.write_bytes(encoded())
