"""Finds texts by their prefixes in the tables of a task's rounds, without a list of candidates.

It costs no privacy, like looking up candidates (`deploy.operator.lookup`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hubbub.deploy.operator.lookup import batch_of, task_of
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.records.results import QueryResult, RoundResults
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.texts.alphabet import Alphabet
from hubbub.queries.texts.heavy_hitters import HeavyHitterQuestion


def read_alphabet(characters: str) -> Alphabet:
    """Return the alphabet of the characters in a text.

    Raises:
        UsageError: if it has none, or cannot be written in UTF-8.
    """
    if not characters:
        raise UsageError("--alphabet is empty; give the characters that texts are made of, or leave it out for all")
    try:
        return Alphabet.of(characters)
    except UnicodeEncodeError as error:
        raise UsageError("--alphabet cannot be written in UTF-8; give whole characters") from error


def prefix_rounds(results: RoundResults) -> range:
    """Return the rounds before these results that ask for prefixes.

    Raises:
        UsageError: if no query of the task asks for any.
        HubbubError: if the certificate cannot be read.
    """
    questions = [query.question for query in task_of(results).queries]
    most = max((len(each.prefixes) for each in questions if isinstance(each, HeavyHitterQuestion)), default=0)
    if not most:
        remedy = "look candidates up with --candidates FILE, or write `prefixes` in the draft of a new task"
        raise UsageError(f"no query of task {results.id.task_name} asks for texts by prefixes; {remedy}")
    return range(min(most, results.id.round))


def find_prefixes(
    rounds: Sequence[RoundResults], alphabet: Alphabet | None, say: Callable[[str], None]
) -> RoundResults:
    """Return the last of a task's rounds with the texts that are found by prefixes among its rows.

    A round that is not given, or whose query was withheld, is stepped over: the next one continues in longer steps.
    Texts are looked for in the characters of the `alphabet`, in all that Unicode assigns if it is None; `say` is
    called with what is looked up.

    Raises:
        UsageError: if no query of the task asks for prefixes, or all that do were withheld in the last round.
        HubbubError: if a table is damaged, or prefixes are too far apart to be continued.
    """
    last = max(rounds, key=lambda each: each.id.round)
    prefix_rounds(last)
    queries = tuple(_discovered(rounds, query, last, alphabet, say) for query in last.queries)
    if queries == last.queries:
        raise UsageError(f"the texts of round {last.id.round} were withheld; name another round with --round")
    return replace(last, queries=queries)


def _discovered(
    rounds: Sequence[RoundResults],
    result: QueryResult,
    last: RoundResults,
    alphabet: Alphabet | None,
    say: Callable[[str], None],
) -> QueryResult:
    task = task_of(last)
    question = task.queries[task.query_index(result.name)].question
    if not isinstance(question, HeavyHitterQuestion) or not question.prefixes or result.estimates is None:
        return result
    try:
        batches: Mapping[int, Debiased] = {
            each.id.round: batch_of(each, query)
            for each in rounds
            for query in each.queries
            if query.name == result.name and query.estimates is not None
        }
        found = question.discover(last.id.round, batches, alphabet, say)
    except ValueError as error:
        raise HubbubError(f"query {result.name}: {error}; name the characters with --alphabet") from error
    return replace(result, estimates=replace(found, table=result.estimates.table))
