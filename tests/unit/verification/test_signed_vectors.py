"""The signed documents of tests/vectors/signed are read, verified and written again byte for byte."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from hubbub.client.session.trust import trusted_task
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical, sign
from hubbub.protos.identity.formats import CERTIFICATE, SIGNED
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.certificates import content_of, counts, encode
from support.messages import FORMAT_THAT_IS_READ, NOT_SIGNED_BY
from support.samples import Parties, sample_task, signed
from vectors.make_signed import FOLDER, vector_task
from vectors.make_signed import PARTIES as VECTORS

TASK = (FOLDER / "hubbub-task-1.json").read_bytes()
CERTIFIED = (FOLDER / "hubbub-certificate-1.json").read_bytes()
PARTIES = Parties.generate()


def test_no_vector_is_missing_or_skipped() -> None:
    """The others are read by tests of their own: test_successions.py, test_tickets.py, test_feed.py, and
    test_record_vectors.py.
    """
    names = {name for kind in SIGNED for name in kind.formats}
    assert {path.name for path in FOLDER.glob("*.json")} == {f"{name.replace('/', '-')}.json" for name in names}


# The task


def test_task_is_written_again_byte_for_byte_and_keeps_its_id() -> None:
    read = SignedTask.decode(TASK)
    assert read.encode() == TASK
    assert signed(vector_task(), VECTORS).encode() == TASK
    assert read.task.id.hex() == "9829ae92a49bddf0f566a6da648ed51a6cd4c06e684bc0ed0df2d174124d73c1"
    named = read.task.identities
    trusted = trusted_task(TASK, named.operator, named.shuffler)
    assert trusted.id == read.task.id
    assert type(trusted.privacy.epsilon_local) is float


# tests/unit/planning/test_kind_vectors.py changes bytes of smaller ones.
@pytest.mark.exhaustive
def test_changed_byte_of_a_task_is_refused() -> None:
    named = SignedTask.decode(TASK).task.identities
    for place in range(len(TASK)):
        changed = bytearray(TASK)
        changed[place] ^= 0x01
        with pytest.raises(HubbubError):
            SignedTask.decode(bytes(changed)).check(named.operator, named.shuffler)


# The certificate


def test_certificate_verifies_and_is_written_again_byte_for_byte() -> None:
    verified = verify(CERTIFIED, Pins())
    assert [record.reports for record in verified.records] == [130, 130]
    document = SignedDocument.from_json(parse_canonical(CERTIFIED))
    assert document.content(CERTIFICATE, verified.task.identities.analyzer)["round"] == 2
    assert canonical(document.as_json()) == CERTIFIED


# tests/unit/planning/test_kind_vectors.py changes bytes of smaller ones.
@pytest.mark.exhaustive
def test_changed_byte_of_a_certificate_is_refused() -> None:
    for place in range(0, len(CERTIFIED), 7):
        changed = bytearray(CERTIFIED)
        changed[place] ^= 0x01
        with pytest.raises(VerificationError):
            verify(bytes(changed), Pins())


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js, to ask ECMAScript itself")
@pytest.mark.parametrize("document", [TASK, CERTIFIED], ids=["task", "certificate"])
def test_ecmascript_writes_a_document_again_byte_for_byte(document: bytes) -> None:
    program = "process.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8'))))"
    ran = subprocess.run(["node", "-e", program], input=document, capture_output=True, check=True)
    assert ran.stdout == document


# Numbers


def certificate() -> dict[str, Any]:
    """Of a task of one query, most of whose numbers are whole: written without a fraction."""
    task = sample_task(
        PARTIES,
        minimum_reports=100,
        privacy=Privacy(10.0, 1e-2, 20.0, 1.0, 100.0),
        queries=vector_task().queries[:1],
    )
    return content_of(task, PARTIES, [counts(task, 0, 120)])


def members(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a statement has numbers."""
    if isinstance(value, dict | list):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from members(member, (*path, key))
    elif type(value) in (int, float):
        yield path


def put(content: dict[str, Any], path: tuple[Any, ...], change: Any) -> dict[str, Any]:
    changed: Any = copy.deepcopy(content)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = change(inner[path[-1]])
    return dict(changed)


CONTENT = certificate()
STATED = {name: CONTENT[name] for name in ("all_rounds", "queries", "round_total")}


@pytest.mark.parametrize("path", [*members(STATED), ("honest_share",)], ids=lambda path: ".".join(map(str, path)))
def test_truth_value_or_text_is_not_a_number_in_a_certificate(path: tuple[Any, ...]) -> None:
    for change in (bool, str):
        with pytest.raises(VerificationError):
            verify(encode(put(CONTENT, path, change), PARTIES), Pins())


COUNTS = [
    path for path in members(STATED) if path[-1] in ("honest_reports", "reports", "valid", "categories", "dummies")
]


@pytest.mark.parametrize("path", COUNTS, ids=lambda path: ".".join(map(str, path)))
def test_count_with_a_fraction_or_beyond_exact_numbers_is_refused(path: tuple[Any, ...]) -> None:
    for value in (0.5, 1e20):
        with pytest.raises(VerificationError):
            verify(encode(put(CONTENT, path, lambda count, add=value: count + add), PARTIES), Pins())


# Names


@pytest.mark.parametrize("format_", ["hubbub-certificate/2", "hubbub-task/1", None, 2])
def test_another_version_of_a_certificate_is_refused_by_name_in_whatever_form_it_is(format_: Any) -> None:
    value = {"body": {**CONTENT, "format": format_}, "signature": "00" * 64}
    for document in (canonical(value), json.dumps(value, indent=1).encode()):
        with pytest.raises(VerificationError) as caught:
            verify(document, Pins())
        named = "it names no format" if format_ is None else f"its format is {format_!r}"
        assert f"{named}; {FORMAT_THAT_IS_READ} hubbub-certificate/1" in str(caught.value)


def test_signature_under_the_name_of_another_kind_is_refused() -> None:
    body = canonical(CONTENT)
    for kind in set(SIGNED) - {CERTIFICATE}:
        forged = SignedDocument(body, sign(kind.format, body, PARTIES.analyzer.key))
        with pytest.raises(VerificationError, match=f"the certificate's {NOT_SIGNED_BY}"):
            verify(canonical(forged.as_json()), Pins())
