"""Its name may be of any script, but has one form."""

from __future__ import annotations

import pytest

from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.signed_task import SignedTask
from hubbub.queries.errors import FieldError
from hubbub.queries.fields import check_query_name
from support.samples import Parties, sample_task
from support.source_tree import ROOT

SAMPLE = ROOT / "deploy" / "samples" / "task.toml"


@pytest.mark.parametrize("name", ["carrier", "日本", "a b", "a_b", "dep delay (min)", "1st", "é", "x" * 63, "a:b", "'"])
def test_a_query_may_have_any_printable_name(name: str) -> None:
    check_query_name("query[0]", name)
    text = SAMPLE.read_text().replace("@START@", "2026-01-01T00:00:00Z").replace('"theme"', f'"{name}"')
    assert read_draft(text).questions[0].name == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "use 1 to 63 printable characters"),
        ("x" * 64, "use 1 to 63 printable characters"),
        ("a\tb", "use 1 to 63 printable characters"),
        ("\u202eabc", "use 1 to 63 printable characters"),
        ("\udcff", "use 1 to 63 printable characters"),
        (5, "use 1 to 63 printable characters"),
        ("a=b", "it must have no ="),
        (" a", "spaces at its ends"),
        ("e\u0301", r"composed form \(NFC\)"),
    ],
)
def test_a_name_that_could_be_taken_for_another_is_refused(name: object, says: str) -> None:
    with pytest.raises(FieldError, match=says):
        check_query_name("query[0]", name)


def test_a_signed_task_keeps_such_a_name() -> None:
    from dataclasses import replace

    parties = Parties.generate()
    task = sample_task(parties)
    query = task.queries[0]
    named = replace(task, queries=(replace(query, question=replace(query.question, name="日本 (a b)")),))
    assert SignedTask.decode(SignedTask(named).encode()).task == named
