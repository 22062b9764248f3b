"""Every form that is signed, sealed, stored or sent keeps its bytes, and every message its fields.

A store's form is its schema and version: `test_sqlite_layout.py` and `unit/service/postgres/test_versions.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest
from docs.test_wire import labels_of_the_source

from hubbub.protos.identity.formats import KINDS, Label
from support.source_tree import ROOT
from vectors.make_frozen import FILE, FORMS, PROTOS, forms, wire

KEPT: dict[str, dict[str, str]] = json.loads(FILE.read_bytes())

MORE = "run python tests/vectors/make_frozen.py, which adds it to tests/vectors/frozen.json"


def changed_forms(kept: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """In sentences, what is another form than it was."""
    differ = [name for name, digest in kept.items() if now.get(name) != digest]
    return [
        f"the bytes of {name} have changed or are gone: keep them, and give the new form a new name with the next "
        "version; its readers then refuse the other by name"
        for name in differ
    ] + [f"{name} is new: {MORE}" for name in now if name not in kept]


def changed_protos(kept: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """In sentences, what is another field, value or call than it was."""
    found = []
    for place, was in kept.items():
        become = now.get(place)
        if become is None:
            found.append(
                f"{place} was `{was}` and is gone: put it back; what nobody needs any more stays, marked as deprecated"
            )
        elif become != was:
            found.append(
                f"{place} was `{was}` and is `{become}`: put it back, and give what is new a number that was never "
                "used; a field's name is its name in JSON, so that stays too"
            )
    return found + [f"{place} is new: {MORE}" for place in now if place not in kept]


def test_no_form_has_changed() -> None:
    assert changed_forms(KEPT["forms"], forms()) == []


def test_no_message_has_changed() -> None:
    assert changed_protos(KEPT["protos"], wire()) == []


def test_each_format_and_label_is_frozen_with_a_version_in_its_name() -> None:
    named = {*(name for kind in KINDS for name in kind.formats), *(label.value for label in Label)}
    named |= {label.strip() for label in labels_of_the_source()}
    assert set(FORMS) == named
    assert [name for name in FORMS if not re.fullmatch(r"hubbub(/v\d+ [a-z ]+|-[a-z]+[/-]\d+)", name)] == []


def test_each_proto_file_is_frozen() -> None:
    files = {path.name for path in (ROOT / "protos" / "v1").glob("*.proto")}
    assert {file.name.rpartition("/")[2] for file in PROTOS} == files
    assert {file.package for file in PROTOS} == {"hubbub.v1"}


ENUM = "hubbub.v1.QueryState 1"


@pytest.mark.parametrize(
    ("place", "become", "said"),
    [
        ("hubbub.v1.Submission 4", None, "was `bytes proof` and is gone"),
        ("hubbub.v1.Submission 4", "string proof", "was `bytes proof` and is `string proof`: put it back"),
        ("hubbub.v1.Submission 4", "bytes mac", "a field's name is its name in JSON"),
        ("hubbub.v1.Enrolled 2", "hubbub.v1.Refusal refusal", "a number that was never used"),
        ("hubbub.v1.SubmitBatchResponse 1", "hubbub.v1.Answer answers", "was `repeated hubbub.v1.Answer answers`"),
        (ENUM, "QUERY_STATE_OTHER", "was `QUERY_STATE_PUBLISHED`"),
        ("hubbub.v1.SubmissionService/Submit", None, "is gone: put it back"),
        ("hubbub.v1.Submission 5", "bytes more", "hubbub.v1.Submission 5 is new: run python tests/vectors"),
    ],
)
def test_a_change_says_what_to_do(place: str, become: str | None, said: str) -> None:
    now = {name: each for name, each in wire().items() if name != place}
    (sentence,) = changed_protos(KEPT["protos"], now if become is None else now | {place: become})
    assert said in sentence


def test_other_bytes_say_what_to_do() -> None:
    now = forms()
    (sentence,) = changed_forms(KEPT["forms"], now | {"hubbub/v1 hop": "00"})
    assert sentence.startswith("the bytes of hubbub/v1 hop have changed or are gone: keep them, and give the new form")
    (sentence,) = changed_forms(KEPT["forms"], now | {"hubbub/v2 hop": "00"})
    assert sentence.startswith("hubbub/v2 hop is new: run python tests/vectors/make_frozen.py")
