"""Signed forms of every version that was ever written are read, verified and written again byte for byte."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.accountant.certificate.members import CERTIFICATE_FORMAT
from hubbub.client.session.trust import trusted_task
from hubbub.protos.enrollment.tickets import TICKET_FORMAT
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import Label, SignedDocument, canonical, parse_canonical, sign
from hubbub.protos.identity.keys import CORE_ROLES, KEY_RECORD_FORMAT, Role
from hubbub.protos.identity.successions import SUCCESSION_FORMAT
from hubbub.protos.records.batch import BATCH_RECORD_FORMAT, HOP_RECORD_FORMAT, UNSTATED_FORMAT
from hubbub.protos.task.admission import ENROLLED
from hubbub.protos.task.formats import CERTIFICATE_FORMS, TASK_FORMS, Form, version_at
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy, Task
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.certificates import content_of, counts, encode
from support.samples import Parties, sample_task

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "vectors" / "signed"
TASKS = [FOLDER / f"{form.name.replace('/', '-')}.json" for form in TASK_FORMS]
CERTIFICATES = [FOLDER / f"{form.name.replace('/', '-')}.json" for form in CERTIFICATE_FORMS]
PARTIES = Parties.generate()
OLD, UNCOUNTED, NEW = CERTIFICATE_FORMS


def name(path: Path) -> str:
    return path.stem


def test_no_vector_is_missing_or_skipped() -> None:
    # Read by tests of their own: test_successions.py, and test_batch.py.
    others = [FOLDER / f"hubbub-{form}.json" for form in ("batch-2", "hop-1", "succession-1")]
    assert sorted(FOLDER.glob("*.json")) == sorted([*TASKS, *CERTIFICATES, *others])
    assert [path.name[-6] for path in (*TASKS, *CERTIFICATES)] == ["1", "2", "3", "4", "1", "2", "3"]


# Tasks


@pytest.mark.parametrize("path", TASKS, ids=name)
def test_task_of_every_version_is_written_again_byte_for_byte(path: Path) -> None:
    document = path.read_bytes()
    signed = SignedTask.decode(document)
    assert signed.encode() == document
    signed.check(signed.task.identities.operator, signed.task.identities.shuffler)


IDS = {
    "hubbub-task/1": "65679ff07de58cfc8c1998ac4bf0b5d40be3a9e3c6210d04564be6414587dd6b",
    "hubbub-task/2": "f3a88a452a4add3e08671666361da853ebff60ce55823bd601bb1989eec25a82",
    "hubbub-task/3": "db0c2da7190c26cebbf6566c20613e7208642ba98b735aaa0b89217b95094a20",
    "hubbub-task/4": "b86b1d2bf25c1e3dfea525b213406f2e91a0878100959579fd119b156aff03a9",
}


@pytest.mark.parametrize("path", TASKS, ids=name)
def test_task_of_every_version_keeps_its_id(path: Path) -> None:
    task = SignedTask.decode(path.read_bytes()).task
    assert task.id.hex() == IDS[task.format]


def test_versions_of_a_task_differ_in_their_form_alone() -> None:
    first, second, third, fourth = (SignedTask.decode(path.read_bytes()).task for path in TASKS)
    assert repr(replace(first, format=second.format)) == repr(second)
    assert repr(replace(second, format=third.format, stated=ENROLLED)) == repr(third)
    privacy = replace(third.privacy, large_delta="a vector – these are nobody's answers")
    more = {"maximum_reports": 2_000_000, "privacy": privacy}
    assert repr(replace(third, format=fourth.format, **more)) == repr(fourth)


@pytest.mark.parametrize("path", TASKS, ids=name)
def test_device_trusts_and_runs_a_task_of_every_version(path: Path) -> None:
    document = path.read_bytes()
    named = SignedTask.decode(document).task.identities
    task = trusted_task(document, named.operator, named.shuffler)
    assert task.id.hex() == IDS[task.format]
    assert type(task.privacy.epsilon_local) is float


@pytest.mark.parametrize("path", TASKS, ids=name)
def test_changed_byte_of_a_task_of_any_version_is_refused(path: Path) -> None:
    document = path.read_bytes()
    named = SignedTask.decode(document).task.identities
    for place in range(len(document)):
        changed = bytearray(document)
        changed[place] ^= 0x01
        with pytest.raises(HubbubError):
            SignedTask.decode(bytes(changed)).check(named.operator, named.shuffler)


# Certificates


@pytest.mark.slow(fast=["hubbub-certificate-2"])
@pytest.mark.parametrize("path", CERTIFICATES, ids=name)
def test_certificate_of_every_version_verifies_and_is_written_again_byte_for_byte(path: Path) -> None:
    document = path.read_bytes()
    verified = verify(document, Pins())
    assert [record.reports for record in verified.records] == [130, 130]
    form = next(form for form in CERTIFICATE_FORMS if form.name == verified.content["format"])
    signed = SignedDocument.from_json(parse_canonical(document, form.version), form.version)
    assert signed.content(form.label, verified.task.identities.analyzer)["round"] == 2
    assert written_again(signed) == document


def written_again(document: SignedDocument) -> bytes:
    body = document.body.decode()
    return f'{{"body":{body},"signature":"{document.signature.hex()}"}}'.encode()


def test_certificates_of_every_version_state_the_same_numbers() -> None:
    contents = [verify(path.read_bytes(), Pins()).content for path in CERTIFICATES]
    numbers = [
        {member: content[member] for member in ("all_rounds", "honest_share", "queries", "round", "round_total")}
        for content in contents
    ]
    assert repr(numbers[0]) == repr(numbers[1])  # 4 and 4.0 differ there
    # Computed by a later version, and so only as good in the last digits; the counts are the same.
    stated, before = (each["queries"] for each in (numbers[2], numbers[1]))
    assert [each["honest_reports"] for each in stated] == [each["honest_reports"] for each in before]
    assert [each["epsilon_upper"] for each in stated] == pytest.approx([each["epsilon_upper"] for each in before], 1e-4)
    assert type(numbers[1]["all_rounds"]["budget"]) is float


@pytest.mark.slow(fast=["hubbub-certificate-1"])
@pytest.mark.parametrize("path", CERTIFICATES, ids=name)
def test_changed_byte_of_a_certificate_of_any_version_is_refused(path: Path) -> None:
    document = path.read_bytes()
    for place in range(0, len(document), 7):
        changed = bytearray(document)
        changed[place] ^= 0x01
        with pytest.raises(VerificationError):
            verify(bytes(changed), Pins())


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js, to ask ECMAScript itself")
@pytest.mark.parametrize("path", [TASKS[1], CERTIFICATES[1]], ids=name)
def test_ecmascript_writes_a_document_of_version_2_again_byte_for_byte(path: Path) -> None:
    program = "process.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8'))))"
    document = path.read_bytes()
    ran = subprocess.run(["node", "-e", program], input=document, capture_output=True, check=True)
    assert ran.stdout == document


# One version inside another


def sample(form: str) -> Task:
    """A task of one query, most of whose numbers are whole: written without a fraction from version 2 on."""
    task = sample_task(PARTIES, minimum_reports=100, privacy=Privacy(10.0, 1e-2, 20.0, 1.0, 100.0))
    return replace(task, format=form, queries=task.queries[:1])


def certificate(task_form: str, form: Form) -> dict[str, Any]:
    task = sample(task_form)
    return content_of(task, PARTIES, [counts(task, 0, 120)], form=form.name)


def test_certificate_of_version_2_of_a_task_of_version_1_verifies() -> None:
    task = sample("hubbub-task/1")
    document = encode(certificate(task.format, NEW), PARTIES)
    assert b'"epsilon":10,' in document
    verified = verify(document, Pins(**{role.value: PARTIES.public.of(role) for role in CORE_ROLES}))
    assert repr(verified.task) == repr(task)
    assert verified.task.id == task.id
    assert b'"epsilon":10.0,' in verified.task.canonical


def test_signatures_over_the_other_version_s_bytes_of_a_task_are_refused_in_a_certificate() -> None:
    content = certificate("hubbub-task/1", NEW)
    body = canonical(content["task"]["task"])
    for label in (Label.TASK, Label.TASK_V1):
        for role in (Role.OPERATOR, Role.SHUFFLER):
            identity = getattr(PARTIES, role.value)
            content["task"]["signatures"][role.value] = sign(label, body, identity.key).hex()
        with pytest.raises(VerificationError, match="the task's signature is not by"):
            verify(encode(content, PARTIES), Pins())


def test_task_of_version_2_in_a_certificate_of_version_1_is_refused() -> None:
    with pytest.raises(VerificationError, match="hubbub-task/2 cannot be part of a document of version 1"):
        verify(encode(certificate("hubbub-task/2", OLD), PARTIES), Pins())


@pytest.mark.parametrize("form", CERTIFICATE_FORMS, ids=lambda form: form.name)
def test_signature_under_the_label_of_the_other_version_is_refused(form: Form) -> None:
    document = encode(certificate("hubbub-task/1", form), PARTIES)
    value = parse_canonical(document, form.version)
    body = SignedDocument.from_json(value, form.version).body
    for other in set(CERTIFICATE_FORMS) - {form}:
        signature = sign(other.label, body, PARTIES.analyzer.key)
        forged = written_again(SignedDocument(body, signature, form.version))
        assert len(forged) == len(document)
        with pytest.raises(VerificationError, match="the certificate's signature is not by"):
            verify(forged, Pins())


# Numbers


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


STATED = {name: certificate("hubbub-task/2", NEW)[name] for name in ("all_rounds", "queries", "round_total")}
WHOLE = ("honest_share",)


@pytest.mark.parametrize("path", [*members(STATED), WHOLE], ids=lambda path: ".".join(map(str, path)))
def test_truth_value_or_text_is_not_a_number_in_a_certificate(path: tuple[Any, ...]) -> None:
    content = certificate("hubbub-task/2", NEW)
    for change in (bool, str):
        with pytest.raises(VerificationError):
            verify(encode(put(content, path, change), PARTIES), Pins())


COUNTS = [
    path for path in members(STATED) if path[-1] in ("honest_reports", "reports", "valid", "categories", "dummies")
]


@pytest.mark.parametrize("path", COUNTS, ids=lambda path: ".".join(map(str, path)))
def test_count_with_a_fraction_or_beyond_exact_numbers_is_refused(path: tuple[Any, ...]) -> None:
    content = certificate("hubbub-task/2", NEW)
    for value in (0.5, 1e20):
        with pytest.raises(VerificationError):
            verify(encode(put(content, path, lambda count, add=value: count + add), PARTIES), Pins())


def test_number_of_a_certificate_of_version_1_has_one_form() -> None:
    content = certificate("hubbub-task/1", OLD)
    verify(encode(content, PARTIES), Pins())
    with pytest.raises(VerificationError, match="honest_share is 1,"):
        verify(encode(put(content, WHOLE, int), PARTIES), Pins())


# Names


@pytest.mark.parametrize("format_", ["hubbub-certificate/4", "hubbub-task/2", None, 2])
def test_unknown_version_of_a_certificate_is_refused_by_name(format_: Any) -> None:
    value = {"body": {**certificate("hubbub-task/2", NEW), "format": format_}, "signature": "00" * 64}
    for document in (canonical(value), json.dumps(value, indent=1).encode()):
        with pytest.raises(VerificationError) as caught:
            verify(document, Pins())
        assert f"{format_!r} is not a form that is read here" in str(caught.value)
        assert "hubbub-certificate/1 and hubbub-certificate/2 and hubbub-certificate/3" in str(caught.value)


def test_new_certificates_have_the_newest_version() -> None:
    assert NEW.name == CERTIFICATE_FORMAT


def test_versions_have_names_labels_and_forms_of_their_own() -> None:
    for forms in (TASK_FORMS, CERTIFICATE_FORMS):
        # What a form is written in changed once; it has a third version where it has new members.
        assert [form.version for form in forms] == [1, *[2] * (len(forms) - 1)]
        for number, form in enumerate(forms, 1):
            assert form.name.endswith(f"/{number}")
            assert form.label.value.startswith(f"hubbub/v{number} ")
    assert len({form.label for form in (*TASK_FORMS, *CERTIFICATE_FORMS)}) == 7


def test_document_of_the_forms_has_a_row_for_each() -> None:
    text = (ROOT / "docs" / "formats.md").read_text()
    rows = re.findall(r"(?m)^\| [a-z ]+ \| `([a-z/0-9-]+)` \| [^|]+ \| `([a-z0-9/ ]+)` \|", text)
    records = [
        (KEY_RECORD_FORMAT, Label.KEY_RECORD.value),
        (UNSTATED_FORMAT, Label.BATCH_RECORD.value),
        (BATCH_RECORD_FORMAT, Label.BATCH_RECORD_V2.value),
        (HOP_RECORD_FORMAT, Label.HOP_RECORD.value),
        (TICKET_FORMAT, Label.TICKET.value),
        (SUCCESSION_FORMAT, Label.SUCCESSION.value),
    ]
    assert rows == [*((form.name, form.label.value) for form in (*TASK_FORMS, *CERTIFICATE_FORMS)), *records]


@pytest.mark.parametrize("value", [None, 1, [], {}, {"body": 1}, {"body": {}}, {"format": "hubbub-certificate/1"}])
def test_document_without_a_format_is_read_as_the_newest(value: Any) -> None:
    assert version_at(CERTIFICATE_FORMS, "body")(value) == NEW.version
