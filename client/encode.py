"""Turns a person's answers into symbols, one for each query, before anything is randomized.

An answer to a sum by digits becomes a symbol for each digit, all of them from one draw (`protos.task.asked`).

Each question knows how an answer becomes a symbol (`queries`). An answer that does not fit is an error. Its message
names what would fit but never repeats the answer, because messages end up in logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hubbub.protos.task.task import Task
from hubbub.queries.errors import AnswerError
from hubbub.queries.longitudinal.over_rounds import Encoded, Memory
from hubbub.queries.questions.question import Value, listed
from hubbub.queries.randomizers.sampling import Random

_NOTHING: Mapping[str, Memory] = MappingProxyType({})


def encode_all(
    task: Task, answers: Mapping[str, Value], random: Random, number: int = 0, memories: Mapping[str, Memory] = _NOTHING
) -> tuple[Encoded, ...]:
    """Return one symbol per query, in the task's order; a question that `answers` does not name has no answer.

    `number` is the round, and `memories` is the memory that the device kept after its last round, by query. Each symbol
    comes with the memory to keep after this round, if there is one.

    Raises:
        AnswerError: if an answer does not fit its question, or the task asks none of its name.
    """
    names = [asked.name for asked in task.asked]
    if not set(answers) <= set(names):
        raise AnswerError(f"an answer belongs to no query of task {task.name}; it asks {listed(names)}")
    return tuple(
        symbol
        for asked in task.asked
        for symbol in asked.encoded(task.queries, answers.get(asked.name), number, memories, random)
    )
