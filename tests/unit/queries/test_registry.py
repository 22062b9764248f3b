"""How they stand in drafts and tasks, and that an unknown one is never another."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.protos.errors import TaskError
from hubbub.protos.identity.documents import canonical
from hubbub.protos.identity.keys import Identity
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.signed_task import read_task
from hubbub.protos.task.task import Task, task_content
from hubbub.queries.errors import FieldError
from hubbub.queries.fields import DEFAULT_RANDOMIZER, SHARED_KEYS
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.query import Query, read_question
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.top import Top
from hubbub.queries.questions.variance import Variance
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Randomizer
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.queries.registry import PLANNED, QUESTIONS, RANDOMIZERS, keys_of, question_of, randomizer_of
from hubbub.queries.texts.text import Text
from support.krr_queries import unary_query
from support.ladder_randomizer import Ladder
from support.messages import UNKNOWN_KEY
from support.samples import HALF, Parties, sample_task


def _identity(number: int) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


PARTIES = Parties(_identity(1), _identity(2), _identity(3))
KRR_TASK = sample_task(PARTIES)
CARRIER, DELAY = (query.question for query in KRR_TASK.queries)
UNARY_TASK = sample_task(
    PARTIES, queries=(unary_query(CARRIER, 3 * 2**30, 2**30), unary_query(DELAY, HALF, 5, levels=7))
)
QUESTION_KINDS = " or ".join(f"'{kind}'" for kind in QUESTIONS)
PLANNED_KINDS = " or ".join(f"'{kind}'" for kind in PLANNED)
OURS: tuple[type[Randomizer], ...] = (KRandomizedResponse, UnaryEncoding, HashedResponse)
RANDOMIZER_KINDS = " or ".join(f"'{kind}'" for kind in RANDOMIZERS)
UNKNOWN: list[Any] = ["", "rappor", "KRR", "krr ", None, 1, True, ["krr"], {"krr": 1}, "x" * 10_000]


def changed(task: Task, **members: Any) -> dict[str, Any]:
    """A task's JSON with other members of its first query; ... takes one away."""
    content = deepcopy(task_content(task))
    query = content["queries"][0]
    for key, value in members.items():
        query[key] = value
        if value is ...:
            del query[key]
    return content


# Unknown kinds


@pytest.mark.parametrize("kind", UNKNOWN, ids=lambda kind: f"{kind!s:.10}")
def test_an_unknown_kind_is_an_error_that_names_the_known(kind: Any) -> None:
    with pytest.raises(FieldError, match=rf"query\[0\].kind is .*; it must be {QUESTION_KINDS}$") as caught:
        question_of("query[0]", kind)
    assert len(str(caught.value)) < 250
    with pytest.raises(FieldError, match=rf"query\[0\].randomizer is .*; it must be {RANDOMIZER_KINDS}$") as caught:
        randomizer_of("query[0]", kind)
    assert len(str(caught.value)) < 250


def test_a_draft_is_told_that_planning_may_choose_too() -> None:
    content = {"name": "theme", "kind": "histogram", "categories": ["a", "b"], "randomizer": "oak"}
    with pytest.raises(FieldError, match=rf"randomizer is 'oak'; it must be {RANDOMIZER_KINDS} or 'auto'$"):
        read_question("query[0]", content)


def test_a_contributed_randomizer_whose_mechanism_is_its_law_is_found_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """CONTRIBUTING allows it: a table of exact probabilities names no randomizer."""
    monkeypatch.setitem(RANDOMIZERS, Ladder.kind, Ladder)  # type: ignore[arg-type]  # a mapping that is a dict
    assert randomizer_of("t", Ladder.kind) is Ladder
    query = Query(replace(CARRIER, randomizer=Ladder.kind), Ladder(3, HALF))  # type: ignore[arg-type]  # it has what the accountant needs
    assert query.mechanism.content()["mechanism"] == "finite"
    assert Query.read("query[0]", query.content()) == query


def test_every_known_kind_is_found_by_its_own_word() -> None:
    assert {kind: question_of("t", kind) for kind in QUESTIONS} == {
        "histogram": Histogram,
        "sum": Number,
        "distribution": Distribution,
        "grouped": Grouped,
        "variance": Variance,
        "top": Top,
        "text": Text,
        "longitudinal": Longitudinal,
    }
    ours: dict[str, type[Randomizer]] = {"krr": KRandomizedResponse, "unary": UnaryEncoding, "hashed": HashedResponse}
    # A contributed randomizer is one more.
    assert ours.items() <= {kind: randomizer_of("t", kind) for kind in RANDOMIZERS}.items()
    for kind, each in (*QUESTIONS.items(), *RANDOMIZERS.items()):
        assert each.kind == kind


@pytest.mark.parametrize("randomizer", OURS, ids=lambda each: each.kind)
def test_a_class_derived_from_a_randomizer_is_read_as_its_own_for_type_checkers(randomizer: type[Randomizer]) -> None:
    """A contribution may be derived from one of these. It may itself state its own class."""
    assert randomizer.read.__annotations__["return"] == "Self"


def test_a_randomizer_s_kind_is_its_mechanism_s() -> None:
    """Tasks, ledgers and certificates name the mechanism: it must be the randomizer that a device runs."""
    made = (KRandomizedResponse(3, HALF), UnaryEncoding(3, HALF, 1), HashedResponse(3, 16, 4, HALF))
    assert {each.kind for each in made} <= set(RANDOMIZERS)
    for each in made:
        assert each.mechanism.content()["mechanism"] == each.kind


@pytest.mark.parametrize("kind", [kind for kind in UNKNOWN if kind is not None], ids=lambda kind: f"{kind!s:.10}")
def test_a_frozen_task_of_an_unknown_kind_is_refused(kind: Any) -> None:
    with pytest.raises(TaskError, match=rf"query\[0\].kind is .*; it must be {PLANNED_KINDS}$"):
        read_task(changed(KRR_TASK, kind=kind))
    for task in (KRR_TASK, UNARY_TASK):
        with pytest.raises(TaskError, match=rf"query\[0\].mechanism is .*; it must be {RANDOMIZER_KINDS}$"):
            read_task(changed(task, mechanism=kind))


# Drafts

DRAFT = """\
[task]
name = "flights"
start = 2026-01-01T00:00:00Z
length = "1h"
grace = "1m"
minimum_reports = 20

[privacy]
epsilon = 10
delta = 5e-3

[[query]]
name = "carrier"
kind = "histogram"
categories = ["AA", "B6", "UA"]
"""


@pytest.mark.parametrize("written", ['"rappor"', '""', '"KRR"', "1", "true", '["krr"]', "{krr = 1}"])
def test_a_draft_with_an_unknown_randomizer_is_refused_at_its_line(written: str) -> None:
    with pytest.raises(
        TaskError, match=rf"^line 16: query\[0\].randomizer is .*; it must be {RANDOMIZER_KINDS} or 'auto'$"
    ):
        read_draft(f"{DRAFT}randomizer = {written}\n")


@pytest.mark.parametrize("written", ['"median"', '"number"', '""', "1", "[]"])
def test_a_draft_with_an_unknown_kind_is_refused_at_its_line(written: str) -> None:
    with pytest.raises(TaskError, match=rf"^line 14: query\[0\].kind is .*; it must be {QUESTION_KINDS}$"):
        read_draft(DRAFT.replace('"histogram"', written))


def test_a_draft_names_its_randomizer_or_takes_krr() -> None:
    assert read_draft(DRAFT).questions == (CARRIER,)
    assert read_draft(DRAFT + 'randomizer = "krr"\n').questions == (CARRIER,)
    (unary,) = read_draft(DRAFT + 'randomizer = "unary"\n').questions
    assert unary == Histogram("carrier", ("AA", "B6", "UA"), randomizer="unary")
    assert CARRIER.randomizer == DEFAULT_RANDOMIZER == "krr"


@pytest.mark.parametrize("key", ["mechanism", "gamma", "truthful", "other", "levels"])
def test_a_draft_says_nothing_that_planning_chooses(key: str) -> None:
    with pytest.raises(TaskError, match=rf"query\[0\].{key} {UNKNOWN_KEY}"):
        read_draft(f"{DRAFT}{key} = [1, 4294967296]\n")


# Frozen tasks


@pytest.mark.parametrize("task", [KRR_TASK, UNARY_TASK], ids=["krr", "unary"])
def test_a_query_without_a_mechanism_is_refused(task: Task) -> None:
    with pytest.raises(TaskError, match=r"query\[0\].mechanism is missing; add it"):
        read_task(changed(task, mechanism=...))


def test_a_unary_query_names_its_mechanism_and_both_probabilities() -> None:
    carrier, delay = task_content(UNARY_TASK)["queries"]
    assert carrier == {
        "categories": ["AA", "B6", "UA"],
        "kind": "histogram",
        "mechanism": "unary",
        "name": "carrier",
        "optional": False,
        "other": [2**30, 2**32],
        "truthful": [3 * 2**30, 2**32],
        "weight": 1.0,
    }
    assert {"mechanism", "truthful", "other", "levels"} <= set(delay)
    assert "gamma" not in delay


def test_a_unary_task_comes_back_as_it_was() -> None:
    read = read_task(task_content(UNARY_TASK))
    assert read == UNARY_TASK
    assert read.canonical == UNARY_TASK.canonical == canonical(task_content(UNARY_TASK))
    assert [query.randomizer for query in read.queries] == [
        UnaryEncoding(3, 3 * 2**30, 2**30),
        UnaryEncoding(9, HALF, 5),
    ]


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"gamma": [1, 2**32]}, "members that are not read here"),
        ({"truthful": ...}, r"query\[0\].truthful is missing; add it"),
        ({"other": ...}, r"query\[0\].other is missing; add it"),
        ({"mechanism": "krr"}, r"query\[0\].gamma is missing; add it"),
        ({"mechanism": "krr", "gamma": [1, 2**32]}, "members that are not read here"),
        ({"randomizer": "unary"}, "members that are not read here"),
        ({"symbols": 3}, "members that are not read here"),
        ({"truthful": [3, 4]}, r"query\[0\].truthful is \[3, 4\]; it must be"),
        ({"other": [3 * 2**30, 2**32]}, "must be below truthful"),
        ({"other": [2**32 - 1, 2**32]}, "must be below truthful"),
        ({"other": [0, 2**32]}, "with w from 1"),
        ({"truthful": [2**32, 2**32]}, "with w from 1"),
        ({"categories": [str(number) for number in range(4097)]}, "4097 symbols are too many for a bit each"),
    ],
    ids=range(13),
)
def test_a_unary_query_of_another_form_is_refused(members: dict[str, Any], says: str) -> None:
    with pytest.raises(TaskError, match=says) as caught:
        read_task(changed(UNARY_TASK, **members))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("members", [{"mechanism": "unary"}, {"mechanism": "unary", "gamma": ...}], ids=range(2))
def test_krr_is_not_read_as_unary(members: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match=r"query\[0\].truthful is missing; add it"):
        read_task(changed(KRR_TASK, **members))


def test_no_answer_counts_as_a_symbol_of_the_limit() -> None:
    """4,096 categories fill the bits; one more symbol for "no answer" is one too many."""
    names = [str(number) for number in range(4096)]
    assert read_task(changed(UNARY_TASK, categories=names)).queries[0].symbols == 4096
    with pytest.raises(TaskError, match="4097 symbols are too many"):
        read_task(changed(UNARY_TASK, categories=names, optional=True))


@pytest.mark.parametrize("task", [KRR_TASK, UNARY_TASK], ids=["krr", "unary"])
def test_a_query_reads_what_it_writes(task: Task) -> None:
    for query in task.queries:
        assert Query.read("query[0]", query.content()) == query


KINDS_GOLDEN = {
    Query(Distribution("s", (0.0, 0.5, 2.0), (0.5,), "min"), KRandomizedResponse(2, HALF)): (
        '{"edges":[0,0.5,2],"gamma":[2147483648,4294967296],"kind":"distribution","mechanism":"krr","name":"s","optional":false,'
        '"quantiles":[0.5],"unit":"min","weight":1}'
    ),
    Query(Variance("v", -1.0, 1.0, levels=2), KRandomizedResponse(4, HALF)): (
        '{"gamma":[2147483648,4294967296],"kind":"variance","levels":2,"lower":-1,"mechanism":"krr","name":"v","optional":false,"unit":"",'
        '"upper":1,"weight":1}'
    ),
    Query(Top("t", ("a", "b"), false_discovery_rate=0.1), KRandomizedResponse(2, HALF)): (
        '{"categories":["a","b"],"false_discovery_rate":0.1,"gamma":[2147483648,4294967296],"kind":"top","mechanism":"krr","name":"t",'
        '"optional":false,"weight":1}'
    ),
    Query(Grouped("g", (Histogram("r", ("n", "s")),), Number("g", 0.0, 1.0, levels=1)), KRandomizedResponse(4, HALF)): (
        '{"by":[{"categories":["n","s"],"name":"r"}],"gamma":[2147483648,4294967296],"kind":"grouped","mechanism":"krr","name":"g",'
        '"of":{"kind":"sum","levels":1,"lower":0,"optional":false,"unit":"","upper":1},"optional":false,"weight":1}'
    ),
}
"""Queries of each kind as tasks have them, signed byte by byte."""


@pytest.mark.parametrize("query", KINDS_GOLDEN, ids=lambda query: query.question.kind)
def test_a_kind_s_signed_bytes_are_these(query: Query) -> None:
    assert canonical(query.content()) == KINDS_GOLDEN[query].encode()
    assert Query.read("query[0]", query.content()) == query


@pytest.mark.parametrize("kind", QUESTIONS)
def test_the_keys_of_a_kind_of_question_are_those_that_its_reader_takes(kind: str) -> None:
    known = ", ".join(sorted(SHARED_KEYS.union(*keys_of(QUESTIONS[kind]))))
    with pytest.raises(FieldError, match=rf"query\[0\]\.zzzzzz {UNKNOWN_KEY}; it knows {known}$"):
        read_question("query[0]", {"name": "a", "kind": kind, "zzzzzz": 1})


def test_a_question_whose_reader_checks_no_keys_is_a_fault_of_its_author() -> None:
    class Careless(Histogram):
        @classmethod
        def read(cls, fields: Any) -> Histogram:
            del fields
            return Histogram("a", ("b", "c"))

    with pytest.raises(NotImplementedError, match=r"Careless\.read checks no keys"):
        keys_of(Careless)


@pytest.mark.parametrize("kind", [*RANDOMIZERS.values(), *SENDINGS.values()], ids=lambda kind: kind.__name__)
def test_each_randomizer_says_in_words_what_a_device_does_and_its_name_in_brackets(kind: type[Randomizer]) -> None:
    """Those who are asked read it: `hubbub dictionary` and `hubbub sign` show it in the place of a bare kind."""
    words, _, name = kind.in_words.partition(" (")
    assert words.startswith("a device ")
    assert len(words.split()) > 5
    assert name.endswith(")")
    assert kind.kind not in words.split()
    assert [other for other in (*RANDOMIZERS.values(), *SENDINGS.values()) if other.in_words == kind.in_words] == [kind]
