"""A log takes tasks, successions and certificates that are signed by all whom they name, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hubbub.protos.identity.documents import canonical, parse_canonical
from hubbub.protos.merkle import leaf_hash
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transparency_log.entries import LogEntry
from hubbub.protos.transparency_log.signed_notes import LogError
from vectors.make_signed import FOLDER, PARTIES, vector_task


def vector(kind: str) -> bytes:
    return (FOLDER / f"hubbub-{kind}-1.json").read_bytes()


@pytest.mark.parametrize("kind", ["task", "succession", "certificate"])
def test_a_signed_document_is_an_entry_with_its_own_bytes_as_leaf(kind: str) -> None:
    entry = LogEntry.read(vector(kind))
    assert entry.kind.format == f"hubbub-{kind}/1"
    assert entry.leaf == leaf_hash(vector(kind))
    assert kind in entry.words


def test_a_certificate_is_known_by_its_task_and_round() -> None:
    entry, task = LogEntry.read(vector("certificate")), vector_task()
    body = parse_canonical(vector("certificate"))["body"]
    assert (entry.round, entry.task_id) == (body["round"], SignedTask.from_json(body["task"]).task.id)
    assert LogEntry.read(vector("task")).task_id == task.id


@pytest.mark.parametrize("kind", ["batch", "feed", "hop", "key", "oblivious", "ticket"])
def test_other_documents_are_refused(kind: str) -> None:
    with pytest.raises(LogError, match=r"a log takes signed tasks, successions and certificates|cannot be logged"):
        LogEntry.read(vector(kind))


def changed(kind: str, change: Callable[[Any], object]) -> bytes:
    value = parse_canonical(vector(kind))
    change(value)
    return canonical(value)


def half_signed() -> bytes:
    return SignedTask(vector_task()).signed_by(PARTIES.operator).encode()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", r"it is an empty file|it is "),
        (b"\x00\x01", r"it is .*; a log takes"),
        (b"[]", r"it is .*; a log takes"),
        (b"{}", r"it is neither a task nor a succession nor a certificate"),
        (b'{"body":[]}', r"it is neither a task"),
        (b'{"body":{"format":3}}', r"it is neither a task"),
        (b'{"a":1,"a":2}', r"the key 'a' occurs twice.*; a log takes"),
        (vector("task") + b"\n", r"not in canonical form.*; a log takes signed tasks"),
        (vector("task")[:-1], r"not canonical JSON"),
        (half_signed(), r"the shuffler has not signed the task"),
        (SignedTask(vector_task()).encode(), r"the operator has not signed the task"),
        (changed("task", lambda value: value["task"].update(name="other")), r"the task's signature is not by"),
        (changed("task", lambda value: value["task"].update(format="hubbub-task/9")), r"its format is 'hubbub-task/9'"),
        (changed("succession", lambda value: value["body"].update(format="hubbub-succession/9")), r"succession/9"),
        (changed("succession", lambda value: value["body"].update(begins=5)), r"forged, or was changed"),
        (changed("certificate", lambda value: value["body"].update(format="hubbub-certificate/9")), r"its format is"),
        (changed("certificate", lambda value: value["body"].update(round=10**6)), r"has no round 1000000"),
        (changed("certificate", lambda value: value["body"].update(round=True)), r"has no round True"),
        (changed("certificate", lambda value: value["body"].update(delta=0.5)), r"certificate's signature is not by"),
        (changed("certificate", lambda value: value["body"].pop("task")), r"a member is missing"),
        (changed("certificate", lambda value: value.pop("signature")), r"members body and signature"),
        (changed("certificate", lambda value: value["body"].update(successions=3)), r"has another form"),
    ],
)  # fmt: skip
def test_what_is_changed_or_not_signed_is_refused_by_name(document: bytes, message: str) -> None:
    with pytest.raises(LogError, match=message):
        LogEntry.read(document)
