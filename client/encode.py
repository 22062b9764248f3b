"""Encodes a submission, the first stage of ESA (Bittau et al. 2017): answers, symbols, reports, sealed reports.

Each question knows how an answer becomes a symbol (`queries`). An answer to a sum by digits becomes a symbol for each
digit, all of them from one draw (`protos.task.asked_question`). An answer that does not fit is an error. Its message
names what would fit but never repeats the answer, because messages end up in logs.

Each symbol becomes a report, drawn from exactly the distribution that the certificate is computed for. A report is
drawn once; a retry sends the same report. Each report is sealed to the analyzer, and all of them together to the
shuffler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import Sealer
from hubbub.protos.task.task import Task
from hubbub.queries.errors import AnswerError, shown
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
        AnswerError: if an answer does not fit its question, the task asks none of its name, or `answers` is no mapping.
    """
    if not isinstance(answers, Mapping):
        raise not_a_mapping(answers)
    names = [asked.name for asked in task.asked]
    if unknown := sorted(set(answers) - set(names), key=str):
        raise AnswerError(f"{shown(unknown[0])} is no query of task {task.name}; it asks {listed(names)}")
    return tuple(
        symbol
        for asked in task.asked
        for symbol in asked.encoded(task.queries, answers.get(asked.name), number, memories, random)
    )


def not_a_mapping(answers: object) -> AnswerError:
    """Return the error of answers that are no mapping."""
    kind = type(answers).__name__
    return AnswerError(f"the answers are of type {kind}; give a mapping from each query's name to its answer")


def randomize_all(task: Task, symbols: Sequence[int], random: Random) -> tuple[bytes, ...]:
    """Return one report per query, drawn independently; `symbols` are in the task's order.

    Raises:
        HubbubError: if a report does not have the one length of all its query's reports.
    """
    pairs = zip(task.queries, symbols, strict=True)
    reports = tuple(query.randomize(symbol, random) for query, symbol in pairs)
    for query, report in zip(task.queries, reports, strict=True):
        # Encryption does not hide lengths: an envelope of another length would identify its device.
        if len(report) != query.report_bytes:
            raise HubbubError(
                f"a report of {query.name} has {len(report)} bytes, but {query.report_bytes} are expected; nothing "
                "was sent: correct the randomizer, or report the fault if it is hubbub's own"
            )
    return reports


def seal(sealer: Sealer, reports: Sequence[bytes], submission_id: bytes) -> Submission:
    """Return the submission with that id (16 bytes); `reports` are in the order of the task's queries."""
    inners = [sealer.inner(report, query) for query, report in enumerate(reports)]
    return Submission(submission_id, sealer.outer(inners, submission_id))
