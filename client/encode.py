"""Turns a person's answers into symbols, one for each query, before anything is randomized.

Each question knows how an answer becomes a symbol (`queries`). An answer that does not fit is an error. Its message
names what would fit but never repeats the answer, because messages end up in logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hubbub.protos.task.task import Task
from hubbub.queries.errors import AnswerError
from hubbub.queries.longitudinal.over_rounds import Encoded, Memory, RoundContext
from hubbub.queries.questions.question import Value, listed
from hubbub.queries.randomizers.sampling import Random

_NOTHING: Mapping[str, Memory] = MappingProxyType({})


def encode_all(
    task: Task, answers: Mapping[str, Value], random: Random, number: int = 0, memories: Mapping[str, Memory] = _NOTHING
) -> tuple[Encoded, ...]:
    """Return one symbol per query, in the task's order; a query that `answers` does not name has no answer.

    `number` is the round, and `memories` is the memory that the device kept after its last round, by query. Each symbol
    comes with the memory to keep after this round, if there is one.

    Raises:
        AnswerError: if an answer does not fit its query, or the task has no query of its name.
    """
    names = [query.name for query in task.queries]
    if not set(answers) <= set(names):
        raise AnswerError(f"an answer belongs to no query of task {task.name}; it asks {listed(names)}")
    return tuple(
        query.encode_at(answers.get(query.name), RoundContext(number, memories.get(query.name)), random)
        for query in task.queries
    )
