"""Looks up texts in the tables of a round's results, for readers.

Looking up costs no privacy, for any texts and any number of times: the table was released, and computing from it is
post-processing. Every reader of the results may do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.records.results import QueryResult, RoundResults
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.queries.errors import AnswerError
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.texts.lookup import MOST_CANDIDATES, Decodable, unpacked


def read_candidates(path: Path) -> list[str]:
    """Read candidate texts, one a line, in UTF-8; empty lines are left out, and spaces belong to the text.

    Raises:
        HubbubError: if it is not UTF-8, has none, or too many.
        OSError: if it cannot be read.
    """
    return candidates_in(path.read_bytes(), str(path))


def candidates_in(content: bytes, name: str) -> list[str]:
    """Return the candidates in a file's content, as `read_candidates`; errors call it `name`.

    Raises:
        HubbubError: if it is not UTF-8, has none, or too many.
    """
    try:
        written = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HubbubError(f"{name} is not UTF-8 text: {error}; write one candidate a line") from error
    # Not splitlines: a candidate may contain characters that it treats as a line's end.
    lines = [line for line in written.replace("\r\n", "\n").split("\n") if line]
    if not 0 < len(lines) <= MOST_CANDIDATES:
        raise HubbubError(f"{name} has {len(lines)} candidates; give from 1 to {MOST_CANDIDATES}, one a line")
    return lines


def decoded(results: RoundResults, candidates: Sequence[str]) -> RoundResults:
    """Return a round's results with the candidates that stand out among the rows of each query that takes any text.

    Raises:
        UsageError: if no query of the round has a table to look texts up in.
        HubbubError: if a candidate cannot be a text, or a table is damaged.
    """
    if not any(each.estimates is not None and each.estimates.table for each in results.queries):
        raise UsageError("no query of this round has texts to decode: it asks for no text, or its texts were withheld")
    return replace(results, queries=tuple(_decoded(results, query, candidates) for query in results.queries))


def task_of(results: RoundResults) -> Task:
    """Return the task in a round's certificate.

    Raises:
        HubbubError: if the certificate cannot be read.
    """
    return _stated(results)[0]


def _stated(results: RoundResults) -> tuple[Task, list[int]]:
    """Return the task in a round's certificate, and how many dummies each query's batch has."""
    # Read without checks: `hubbub verify` checks a certificate, and reports its faults.
    try:
        body = read_json(results.certificate)["body"]
        task = SignedTask.from_json(body["task"]).task
        return task, [int(query["dummies"]) for query in body["queries"]]
    except (ValueError, KeyError, TypeError) as error:
        raise HubbubError(f"the round's certificate cannot be read: {error!r:.200}; ask the analyzer again") from error


def _decoded(results: RoundResults, result: QueryResult, candidates: Sequence[str]) -> QueryResult:
    if result.estimates is None or not result.estimates.table:
        return result
    task = task_of(results)
    query = task.queries[task.query_index(result.name)]
    if not isinstance(query.question, Decodable):
        raise HubbubError(
            f"query {result.name} has a table, but this version takes no candidates for it; use a newer hubbub"
        )
    try:
        found = query.question.decode(batch_of(results, result), candidates, results.id.round)
    except (ValueError, AnswerError) as error:
        raise HubbubError(f"query {result.name}: {error}") from error
    return replace(result, estimates=replace(found, table=result.estimates.table))


def batch_of(results: RoundResults, result: QueryResult) -> Debiased:
    """Return the batch in a query's table of a round's results.

    Raises:
        ValueError: if the table is damaged.
    """
    task, added = _stated(results)
    place = task.query_index(result.name)
    query, dummies = task.queries[place], added[place]
    table = b"" if result.estimates is None else result.estimates.table
    return query.debiased(unpacked(table, result.valid + dummies), dummies)
