"""Shows what a device would send for its answers. Nothing is sent, stored or spent.

A preview draws reports as `submit` does, and drops them. It is for whoever builds or checks an application: it contains
the encoded answers, so an application must neither send nor log it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from hubbub.client.privacy.ledger import rounded_up
from hubbub.client.session.session import Session
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES
from hubbub.queries.errors import AnswerError
from hubbub.queries.query import Query
from hubbub.queries.questions.bit import Bit
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Value


@dataclass(frozen=True)
class PreviewedQuery:
    """One query's part of a submission.

    Attributes:
        name: the query's name.
        encoded: in words, what the answer is encoded into before it is randomized.
        symbols: how many different symbols an answer may be encoded into.
        own: the probability that a report counts for the symbol that was encoded; None if reports of several rounds
            are linked.
        other: the probability that it counts for any one other symbol; None likewise.
        epsilon_local: the local ε of this query in this round, rounded up.
        report: one report, drawn for this preview. Another draw gives another one.
    """

    name: str
    encoded: str = field(repr=False)
    symbols: int
    own: float | None
    other: float | None
    epsilon_local: float
    report: bytes = field(repr=False)


@dataclass(frozen=True)
class Preview:
    """What a device would send for its answers to a round.

    Attributes:
        task: the task's name.
        task_id: its id in hex (64 digits).
        round: the round.
        queries: each query's part, in the task's order.
        submission_bytes: the length of a submission's id and sealed envelope, the same for every answer.
        epsilon_local: what this round would add to the device's local ε, rounded up.
        not_sent: why `submit` would not send these answers, in words; None if it would.
    """

    task: str
    task_id: str
    round: int
    queries: tuple[PreviewedQuery, ...]
    submission_bytes: int
    epsilon_local: float
    not_sent: str | None


def preview(session: Session, name: str, answers: Mapping[str, Value], wanted: int | None) -> Preview:
    """Return what the device of that name would send; it reads the state file, and changes nothing in it.

    Raises:
        AnswerError, NoRound, StateError: as `Device.submit` does.
    """
    now = session.clock()
    of, cost = session.choose(wanted, now), session.answer_cost(now)
    seen = session.state.look(of, name, now, cost, memory=session.remembers)
    if seen.entry is not None and seen.memory:
        # What is remembered is of after these answers.
        raise AnswerError(
            f"round {of.number} was answered before, and its first answers stay; answers to a question over time are "
            "previewed before they are given, or for a later round"
        )
    encoded, reports = session.randomized(answers, of.number, seen.memory, session.random)
    answered = sum(account.rounds for account in session.state.accounts(name) if account.task_id == of.task_id)
    prices = [Fraction(query.local_cost(answered)) for query in session.task.queries]
    parts = zip(session.task.queries, encoded, prices, reports, strict=True)
    not_sent = (
        "the device has opted out"
        if seen.opted_out
        else f"round {of.number} was answered before, and its first answers stay"
        if seen.entry is not None
        else None
        if seen.refusal is None
        else str(seen.refusal)
    )
    return Preview(
        task=session.task.name,
        task_id=session.task.id.hex(),
        round=of.number,
        queries=tuple(_previewed(query, each.symbol, price, report) for query, each, price, report in parts),
        submission_bytes=SUBMISSION_ID_BYTES + session.task.outer_bytes,
        epsilon_local=rounded_up(sum(prices, Fraction(0))),
        not_sent=not_sent,
    )


def _previewed(query: Query, symbol: int, price: Fraction, report: bytes) -> PreviewedQuery:
    linked, randomizer = query.horizon is not None, query.randomizer
    return PreviewedQuery(
        name=query.name,
        encoded=_in_words(query, symbol),
        symbols=query.symbols,
        own=None if linked else randomizer.support_gap + randomizer.support_other,
        other=None if linked else randomizer.support_other,
        epsilon_local=rounded_up(price),
        report=report,
    )


def _in_words(query: Query, symbol: int) -> str:
    """Return what a symbol stands for."""
    question = query.question
    if symbol == question.answers:
        return "no answer"
    if isinstance(question, Histogram):
        return question.categories[symbol]
    if isinstance(question, Bit):
        return f"digit {symbol}"
    if isinstance(question, Number):
        value = question.lower + question.width * symbol / (question.answers - 1)
        return f"{value:g} {question.unit}".strip()
    return f"symbol {symbol} of 0 to {query.symbols - 1}"
