"""Writes tests/vectors/wire/logged.json: tasks that demand a transparency log, with proofs that a device takes or not.

    python tests/vectors/make_logged.py

Each refused one differs from a good one in one thing, which `because` names; tests/vectors/wire/README.md says what
the words mean. `tests/unit/client/test_logged_vectors.py` checks the file.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.protos.identity.documents import canonical, sign  # noqa: E402
from hubbub.protos.identity.formats import TASK  # noqa: E402
from hubbub.protos.task.feed.entry import FeedEntry  # noqa: E402
from hubbub.protos.task.feed.feed import Feed  # noqa: E402
from hubbub.protos.task.task import task_content  # noqa: E402
from hubbub.protos.transparency_log.proofs import LoggedProof  # noqa: E402
from hubbub.protos.transparency_log.signed_notes import NoteKey, NoteRole, NoteSignature  # noqa: E402
from support.logged_tasks import POLICY, checkpoint_of, demanding, key_of, proof_of  # noqa: E402
from support.samples import sample_task, signed  # noqa: E402
from support.transparency_logs import (  # noqa: E402
    LOG,
    LOG_KEY,
    NAME,
    OTHER,
    WEAK_KEYS,
    WITNESS_KEYS,
    WITNESSES,
    vector_proofs,
)
from vectors.make_signed import PARTIES, vector_task  # noqa: E402

FILE = Path(__file__).parent / "wire" / "logged.json"

Case = tuple[str, str | None, bytes, bytes | None]
"""What is different, the word for it (None for a good one), the task's file, and the proof beside it, if any."""


def logged_task() -> bytes:
    """The file of the task that demands the log."""
    return signed(demanding(vector_task()), PARTIES).encode()


def proofs() -> Iterator[Case]:
    """Return the task with each proof."""
    task, other = logged_task(), signed(demanding(sample_task(PARTIES)), PARTIES).encode()
    good = proof_of(task)
    text = good.encode()
    yield "in the log, by two of three witnesses", None, task, text
    yield "by all three witnesses", None, task, proof_of(task, (2, 0, 1)).encode()
    yield "by a witness that nobody knows too", None, task, _with(good, "stranger.example").encode()
    yield "in a log of one entry", None, task, LoggedProof(0, b"", checkpoint_of([task])).encode()
    yield "a task that demands no log, with no proof", None, signed(vector_task(), PARTIES).encode(), None
    yield "no proof", "proof", task, None
    yield "an empty proof", "proof", task, b""
    yield "another kind of proof", "proof", task, vector_proofs()[1].encode()
    yield "a line's end more", "proof", task, text + b"\n"
    yield "an index with a zero before it", "proof", task, text.replace(b"index 1\n", b"index 01\n", 1)
    yield "a witness's signature twice", "proof", task, text + text.splitlines(keepends=True)[-1]
    yield "a second signature of a witness, at another time", "proof", task, text + _again(good)
    yield "a proof of another task", "inclusion", task, proof_of(other).encode()
    yield "the same task with a signature more", "inclusion", task, proof_of(task[:-1] + b" }").encode()
    elsewhere = checkpoint_of([b"a", b"b", b"c"])
    yield "a checkpoint of another tree", "inclusion", task, replace(good, signed=elsewhere).encode()
    yield "a checkpoint from before the task was added", "inclusion", task, _early(good).encode()
    yield "another place", "inclusion", task, replace(good, index=0).encode()
    yield "a hash less", "inclusion", task, replace(good, hashes=good.hashes[:32]).encode()
    yield "a hash more", "inclusion", task, replace(good, hashes=good.hashes + bytes(32)).encode()
    yield "a log of another name, with the same key", "log", task, proof_of(task, name="stats.example/two").encode()
    yield "a log of the same name, with another key", "log", task, proof_of(task, log=OTHER).encode()
    yield "no signature of the log", "log", task, _without_log(good).encode()
    yield "one witness", "witnesses", task, proof_of(task, (1,)).encode()
    yield "no witness", "witnesses", task, proof_of(task, ()).encode()
    yield (
        "one witness, and one that nobody knows",
        "witnesses",
        task,
        _with(proof_of(task, (1,)), "stranger.example").encode(),
    )
    yield (
        "one witness, and its key under another name",
        "witnesses",
        task,
        _with(proof_of(task, (1,)), WITNESS_KEYS[0].name, by=1).encode(),
    )
    yield "a witness's signature of another checkpoint", "signature", task, _moved(good, elsewhere.signatures[1:])
    yield "the log's signature of another checkpoint", "signature", task, _moved(good, elsewhere.signatures[:1])


def _with(proof: LoggedProof, name: str, by: int = 2) -> LoggedProof:
    """The proof, also signed by that witness under a name."""
    return replace(proof, signed=proof.signed.witnessed(key_of(name, WITNESSES[by]), WITNESSES[by], 1))


def _again(proof: LoggedProof) -> bytes:
    """A signature line of the first witness at another time."""
    later = proof.signed.witnessed(WITNESS_KEYS[0], WITNESSES[0], 1_800_000_000)
    return later.signatures[-1].line().encode()


def _early(proof: LoggedProof) -> LoggedProof:
    """The proof with a checkpoint of one entry."""
    return replace(proof, signed=checkpoint_of([b"another document"]))


def _without_log(proof: LoggedProof) -> LoggedProof:
    return replace(proof, signed=replace(proof.signed, signatures=proof.signed.signatures[1:]))


def _moved(proof: LoggedProof, foreign: tuple[Any, ...]) -> bytes:
    """The proof with signatures that its keys made for another checkpoint."""
    checkpoint = proof.signed
    for each in foreign:
        checkpoint = checkpoint.with_signature(each)
    return replace(proof, signed=checkpoint).encode()


def tasks() -> Iterator[Case]:
    """Return tasks whose member `log` is none that a task may have, each with the proof of this file."""
    good = task_content(demanding(vector_task()))
    log = good["log"]
    two = [each.encode() for each in WITNESS_KEYS[:2]]
    twice = [two[0], key_of("w9.example", WITNESSES[0]).encode()]
    of_one_name = [two[0], key_of(WITNESS_KEYS[0].name, WITNESSES[1]).encode()]
    id_of_another = two[0].replace(WITNESS_KEYS[0].id.hex(), WITNESS_KEYS[1].id.hex())
    for what, changed in (
        ("a threshold of half the witnesses", {"threshold": 1, "witnesses": two}),
        ("a threshold of 0", {"threshold": 0}),
        ("a threshold above the number of witnesses", {"threshold": 4}),
        ("true for the threshold", {"threshold": True, "witnesses": two[:1]}),
        ("no witnesses", {"threshold": 0, "witnesses": []}),
        ("a witness's key twice, under two names", {"witnesses": twice}),
        ("a witness's name twice, with two keys", {"witnesses": of_one_name}),
        ("the log's key as a witness's", {"witnesses": [*two, key_of("log.example", LOG).encode()]}),
        ("the key of a witness for that of the log", {"key": two[0]}),
        ("the key of a log for that of a witness", {"witnesses": [*two, key_of(NAME, OTHER, NoteRole.LOG).encode()]}),
        ("a key with the id of another", {"witnesses": [id_of_another, two[1]]}),
        ("a key with a space before it", {"key": f" {LOG_KEY.encode()}"}),
        ("a member that no version has", {"freshness": 60}),
    ):
        yield _refused(what, {**good, "log": {**log, **changed}})
    yield _refused("no threshold", {**good, "log": {name: log[name] for name in ("key", "witnesses")}})
    yield _refused("null for no log", {**good, "log": None})


def weak_keys() -> Iterator[Case]:
    """Return tasks with a key that more than one party can sign with, or that has two forms.

    But for the last two, the proof is by a log and two witnesses whose keys are right: a client that first looks at a
    key as it verifies would take these tasks.
    """
    two = [each.encode() for each in WITNESS_KEYS[:2]]
    yield "a witness's key with the largest y that a key may have", None, *_naming(witnesses=[*two, _weak(_LARGEST)])
    yield "a witness's key of mixed order", "value", *_naming(witnesses=[*two, _weak(_MIXED)])
    for name, public in {**WEAK_KEYS, "a point of large order as y = p + 3": _SECOND_FORM}.items():
        yield f"a witness's key is {name}", "value", *_naming(witnesses=[*two, _weak(public)])
    neutral = WEAK_KEYS["the neutral point"]
    key = NoteKey(NAME, NoteRole.LOG, bytes.fromhex(neutral))
    task, _ = _naming(key=key.encode())
    forged = _with_forged(proof_of(task), key)
    yield "the log's key is the neutral point, and anybody signed", "value", task, forged
    witness = NoteKey("weak.example", NoteRole.WITNESS, bytes.fromhex(neutral))
    task, _ = _naming(witnesses=[two[0], witness.encode()])
    forged = _with_forged(proof_of(task, (0,)), witness)
    yield "a witness's key is the neutral point, and anybody signed", "value", task, forged


_LARGEST = "e4" + "ff" * 30 + "7f"
"""y = p - 9: the largest y of a point of prime order."""

_MIXED = "ea" + "ff" * 30 + "7f"
"""y = p - 3: the largest y of a point, but for that of order 2; its order is twice, four or eight times the prime."""

_SECOND_FORM = "f0" + "ff" * 30 + "7f"
"""The point with y = 3 again: libraries that reduce y verify with it."""


def _weak(public: str) -> str:
    return NoteKey("weak.example", NoteRole.WITNESS, bytes.fromhex(public)).encode()


def _naming(**changed: object) -> tuple[bytes, bytes]:
    """A task with other keys, and its proof."""
    good = task_content(demanding(vector_task()))
    _, _, task, proof = _refused("", {**good, "log": {**good["log"], **changed}})
    assert proof is not None
    return task, proof


def _with_forged(proof: LoggedProof, key: NoteKey) -> bytes:
    """The proof with a signature that is right for the neutral point, whatever is signed: R is that point, s is 0."""
    time = b"" if key.role is NoteRole.LOG else bytes(8)
    forged = NoteSignature(key.name, key.id, time + bytes([1]) + bytes(63))
    return replace(proof, signed=proof.signed.with_signature(forged)).encode()


def _refused(what: str, content: Mapping[str, Any]) -> Case:
    body = canonical(content)
    signers = {"operator": PARTIES.operator, "shuffler": PARTIES.shuffler}
    signatures = {role: sign(TASK.format, body, each.key).hex() for role, each in signers.items()}
    task = canonical({"signatures": signatures, "task": content})
    return what, "value", task, proof_of(task).encode()


FeedCase = tuple[str, str | None, bytes]
"""What is different, the word for it, and the first entry of a feed."""


def entries() -> Iterator[FeedCase]:
    """Return entries of a feed that publish a logged task."""
    task, proof = signed(demanding(vector_task()), PARTIES), proof_of(logged_task()).encode()
    good = _both(Feed().publishing(task, log_proof=proof))
    yield "with its proof", None, good.encode()
    yield "with the proof that one more witness signed", None, replace(good, log_proof=_third()).encode()
    yield "without a proof", "proof", replace(good, log_proof=None).encode()
    yield (
        "with one witness too few",
        "witnesses",
        replace(good, log_proof=proof_of(logged_task(), (1,)).encode()).encode(),
    )
    plain = _both(Feed().publishing(signed(vector_task(), PARTIES)))
    yield "a proof beside a task that demands no log", "value", replace(plain, log_proof=proof).encode()


def _third() -> bytes:
    return proof_of(logged_task(), (0, 1, 2)).encode()


def _both(entry: FeedEntry) -> FeedEntry:
    return entry.signed_by(PARTIES.operator).signed_by(PARTIES.shuffler)


def content() -> dict[str, Any]:
    """Return what the file has."""
    return {
        "origin": "November 2026: a log, tasks and proofs made for this file; the keys protect nothing.",
        "operator_key": PARTIES.operator.public.hex(),
        "shuffler_key": PARTIES.shuffler.public.hex(),
        "log": POLICY.content(),
        "cases": [
            {
                "what": what,
                "because": because,
                "task": _base64(task),
                "proof": None if proof is None else _base64(proof),
            }
            for what, because, task, proof in (*proofs(), *tasks(), *weak_keys())
        ],
        "entries": [{"what": what, "because": because, "entry": _base64(entry)} for what, because, entry in entries()],
    }


def _base64(document: bytes) -> str:
    return base64.b64encode(document).decode()


def encoded() -> bytes:
    """Return the file."""
    return (json.dumps(content(), indent=1) + "\n").encode()


if __name__ == "__main__":
    FILE.write_bytes(encoded())
