"""What was signed, reported and published of each kind of question is read, verified and written again unchanged."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from hubbub.accountant.mechanisms.noise_law import FAMILIES
from hubbub.client.session.trust import trusted_task
from hubbub.deploy.operator.lookup import decoded
from hubbub.protos.errors import HubbubError
from hubbub.protos.records.results import RoundResults
from hubbub.protos.rpc.results import read_results, write_results
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.v1 import results_pb2
from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.registry import PLANNED
from hubbub.queries.texts.lookup import unpacked
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.samples import signed
from vectors.make_kinds import DEVICES, FOLDER, KINDS, WORDS, published, task_of
from vectors.make_signed import PARTIES

pytestmark = pytest.mark.usefixtures("composed_once")

IN_EVERY_DOCUMENT = {Histogram.kind, Number.kind}
"""The kinds of the documents in tests/vectors/signed."""

each = pytest.mark.parametrize("name", KINDS)


def kept(name: str, file: str) -> bytes:
    return (FOLDER / name / file).read_bytes()


def signed_task(name: str) -> SignedTask:
    return SignedTask.decode(kept(name, "task.json"))


def rounds(name: str) -> list[bytes]:
    return [kept(name, f"reports-{number}.bin") for number in range(KINDS[name].rounds)]


def read(document: bytes) -> RoundResults:
    return read_results(results_pb2.RoundResults.FromString(document))


def test_every_kind_and_strategy_has_vectors_and_no_file_is_skipped() -> None:
    questions = [kind.query.question for kind in KINDS.values()]
    assert {question.kind for question in questions} | IN_EVERY_DOCUMENT == set(PLANNED)
    assert {getattr(question, "strategy", None) for question in questions} - {None} == set(SENDINGS)
    assert {kind.query.noise.family for kind in KINDS.values() if kind.query.noise is not None} == set(FAMILIES)
    files = {"task.json", "certificate.json", "results.bin"}
    expected = {
        FOLDER / name / file
        for name, kind in KINDS.items()
        for file in files | {f"reports-{number}.bin" for number in range(kind.rounds)}
    }
    assert {path for path in FOLDER.rglob("*") if path.is_file() and path.name != "README.md"} == expected


# Tasks


@each
def test_task_is_written_again_byte_for_byte(name: str) -> None:
    document, task = kept(name, "task.json"), signed_task(name)
    assert task.encode() == document
    assert task.task.queries == (KINDS[name].query,)
    assert signed(task_of(name), PARTIES).encode() == document
    named = task.task.identities
    assert trusted_task(document, named.operator, named.shuffler).id == task.task.id


@pytest.mark.sampled(4)
@each
def test_changed_byte_of_a_task_is_refused(name: str) -> None:
    document, named = kept(name, "task.json"), signed_task(name).task.identities
    for place in range(0, len(document), 5):
        with pytest.raises(HubbubError):
            SignedTask.decode(changed(document, place)).check(named.operator, named.shuffler)


def changed(document: bytes, place: int) -> bytes:
    return document[:place] + bytes([document[place] ^ 0x01]) + document[place + 1 :]


# Certificates


@each
def test_certificate_verifies_and_states_what_was_delivered(name: str) -> None:
    verified = verify(kept(name, "certificate.json"), Pins())
    assert verified.task == signed_task(name).task
    assert verified.content["round"] == KINDS[name].rounds - 1
    assert [record.reports for record in verified.records] == [DEVICES]
    assert ("horizon" in verified.content) == (KINDS[name].rounds > 1)


@pytest.mark.sampled(4)
@each
def test_changed_byte_of_a_certificate_is_refused(name: str) -> None:
    document = kept(name, "certificate.json")
    for place in range(0, len(document), 41):
        with pytest.raises(VerificationError):
            verify(changed(document, place), Pins())


# Reports and results


@each
def test_results_are_written_again_byte_for_byte(name: str) -> None:
    document = kept(name, "results.bin")
    results = read(document)
    assert write_results(results).SerializeToString(deterministic=True) == document
    assert results.certificate == kept(name, "certificate.json")
    assert results.id.task_id == signed_task(name).task.id


@each
def test_reports_give_the_results_that_were_published(name: str) -> None:
    kept_results = read(kept(name, "results.bin"))
    made = published(signed_task(name).task, rounds(name), kept_results.certificate)
    ours, theirs = flat(without_table(made, name)), flat(without_table(kept_results, name))
    assert ours.keys() == theirs.keys()
    assert {key: (ours[key], theirs[key]) for key in ours if not alike(ours[key], theirs[key])} == {}
    tables = [results.queries[0].estimates.table for results in (made, kept_results)]  # type: ignore[union-attr]
    assert bool(tables[0]) == bool(tables[1]) == (name == "text")
    if name == "text":
        # Compressed, and so only the same up to the library that compresses.
        made_cells, kept_cells = (unpacked(table, DEVICES).counts for table in tables)
        assert np.array_equal(made_cells, kept_cells)


def without_table(results: RoundResults, name: str) -> RoundResults:
    """What there was when the vectors were made: no counts beside the estimates.

    What hashed counts said about zero was wrong then: it was worked out as if each cell were a count.
    """
    (query,) = results.queries
    assert query.estimates is not None
    untold = {"p_value": None, "significant": None} if name == "hashed" else {}
    rows = tuple(replace(row, **untold) for row in query.estimates.rows)  # type: ignore[arg-type]
    estimates = replace(query.estimates, rows=rows, table=b"")
    return replace(results, queries=(replace(query, estimates=estimates, counts=b"", rounds=()),))


def alike(one: Any, other: Any) -> bool:
    """Whether values are the same, but for the last digits of another machine's arithmetic."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return type(one) is type(other) and bool(one == other)


def flat(value: Any) -> dict[str, Any]:
    """All that a value holds, by where it is."""
    inner: dict[Any, Any] = {}
    if isinstance(value, dict):
        inner = value
    elif isinstance(value, tuple | list):
        inner = dict(enumerate(value))
    elif hasattr(value, "__dataclass_fields__"):
        inner = {key: getattr(value, key) for key in value.__dataclass_fields__}
    else:
        return {"": value}
    return {f"{key}.{more}": found for key, member in inner.items() for more, found in flat(member).items()}


def test_selections_and_tables_are_among_the_results() -> None:
    (top,), (text,) = read(kept("top", "results.bin")).queries, read(kept("text", "results.bin")).queries
    assert top.estimates is not None
    assert top.estimates.notes
    assert text.estimates is not None
    assert len(unpacked(text.estimates.table, text.valid).counts) == DEVICES


def test_texts_are_looked_up_in_the_table_that_was_published() -> None:
    (text,) = decoded(read(kept("text", "results.bin")), [*WORDS, "cocoa"]).queries
    assert text.estimates is not None
    found = {row.category: row.estimate for row in text.estimates.rows if row.statistic == "count"}
    assert "tea" in found
    assert "cocoa" not in found
    tea = found["tea"]
    assert tea is not None
    assert tea.lower <= sum(KINDS["text"].answer(device, 0) == "tea" for device in range(DEVICES)) <= tea.upper


@pytest.mark.sampled(4)
@each
def test_changed_byte_of_the_results_is_refused_or_read_as_something_else(name: str) -> None:
    document = kept(name, "results.bin")
    # Of the values themselves: what a class prints leaves out long bytes.
    whole = repr(asdict(read(document)))
    for place in range(0, len(document), 7):
        try:
            found = repr(asdict(read(changed(document, place))))
        except (DecodeError, HubbubError):
            continue
        assert found != whole, f"byte {place} says nothing"
