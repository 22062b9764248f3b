"""Its name may be of any script, but has one form."""

from __future__ import annotations

import pytest

from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.signed_task import SignedTask
from hubbub.queries.errors import AnswerError, FieldError
from hubbub.queries.fields import check_query_name
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
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


WRITTEN = [
    "a\xa0b",
    "東京\u3000都",
    "می\u200cخواهم",
    "👩\u200d🔬",
    "🏴\U000e0067\U000e0062\U000e007f",
    "co\xadop",
    "\u200fא",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_what_languages_write_is_taken_everywhere_and_escaped_where_it_is_shown(text: str) -> None:
    Histogram("city", (text, "b")).check("query[0]")
    Number("city", 0.0, 1.0, text).check("query[0]")
    check_query_name("query[0]", text)
    with pytest.raises(AnswerError) as raised:
        Histogram("city", (text, "b")).encode("c", bytes)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("mark", [*"\n\x1b\x7f\x85\u2028\u2029\u202a\u202e\u2066\u2069\ue000\ud800\U000e0080\uffff"])
def test_what_is_no_writing_is_refused(mark: str) -> None:
    with pytest.raises(FieldError, match="printable characters"):
        Histogram("city", (f"a{mark}b", "b")).check("query[0]")
    with pytest.raises(FieldError, match="short text"):
        Number("city", 0.0, 1.0, f"a{mark}b").check("query[0]")


def test_a_signed_task_keeps_such_a_name() -> None:
    from dataclasses import replace

    parties = Parties.generate()
    task = sample_task(parties)
    query = task.queries[0]
    named = replace(task, queries=(replace(query, question=replace(query.question, name="日本 (a b)")),))
    assert SignedTask.decode(SignedTask(named).encode()).task == named
