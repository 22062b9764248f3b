"""Runs a task on a table of data without a network, and returns its estimates and its privacy.

It runs one round. If a text is asked by prefixes, it runs as many rounds as finding the text takes, each with the same
answers.

Reports are drawn exactly as devices draw them. Nothing is sealed or shuffled, because estimates depend on counts alone.
The stated privacy is that of a shuffled batch of this size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.planning.digits import PlannedSum
from hubbub.planning.planned import Plan, PlannedQuery, expected_errors, expected_sums
from hubbub.planning.simulate.dataset import Dataset, truth_of
from hubbub.planning.simulate.truth import query_document, sum_compared
from hubbub.protos.records.results import QueryResult, QueryState, SumResult
from hubbub.queries.estimation.estimates import BEGINNING, Estimates, Truth
from hubbub.queries.longitudinal.over_rounds import Batch, RoundContext
from hubbub.queries.query import Query
from hubbub.queries.questions.bit import digits_in, stepped
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.randomizer import Imitable, Tally
from hubbub.queries.randomizers.sampling import Random
from hubbub.queries.texts.heavy_hitters import HeavyHitterQuestion
from hubbub.queries.texts.lookup import Decodable


def simulate(
    plan: Plan, dataset: Dataset, progress: Callable[[int], None], random: Random = os.urandom
) -> dict[str, Any]:
    """Return the estimates with their true values, and the certificate's numbers, as one JSON document.

    Below the task's minimum nothing would be released: `released` is false, and there is no privacy to state.
    Estimates are those after the last of the `rounds` that are run. Privacy is stated for all of these rounds.

    `dataset` has a column for each question of the draft. `progress` is called with the number of devices after every
    thousand devices.

    Raises:
        AnswerError: if the data does not fit the task.
    """
    queries, sums, counted, rounds = [], [], [], most_rounds(plan)
    released = dataset.devices >= plan.draft.minimum_reports
    for asked in plan.asked:
        if isinstance(asked, PlannedSum):
            truth, answers = truth_of(dataset, asked.question), dataset.answers[asked.name].to_pylist()
            every = [(query, {0: batch}) for query, batch in _digits(asked, answers, progress, random)]
            sums.append(_sum_document(asked, [batches[0] for _, batches in every], truth, released))
            # What a digit was rounded to is drawn, so it has no truth to compare with.
            truths: list[Truth] = [{}] * len(every)
        else:
            every = [_one_query(asked, dataset, plan.draft.privacy.dummies, progress, random)]
            truths = [truth_of(dataset, asked.query.question)]
        for (query, batches), truth in zip(every, truths, strict=True):
            document, count = _outcome(query, batches, truth, released)
            queries.append(document)
            counted.append(count)
    history = [RoundCounts(number, tuple(counted)) for number in range(rounds)]
    return {
        "task": plan.draft.name,
        "devices": dataset.devices,
        "minimum_reports": plan.draft.minimum_reports,
        "rounds": rounds,
        "released": released,
        "unusable": {name: dict(counts) for name, counts in dataset.unusable.items()},
        "expected": expected_errors(plan.queries),
        **({"expected_sums": expected_sums(plan.queries), "sums": sums} if sums else {}),
        "queries": queries,
        "privacy": _privacy(plan, history) if released else None,
    }


def _one_query(
    planned: PlannedQuery, dataset: Dataset, dummies: int, progress: Callable[[int], None], random: Random
) -> tuple[Query, dict[int, Batch]]:
    answers = dataset.answers[planned.name].to_pylist()
    return planned.query, _simulated(planned.query, answers, dummies, progress, random)


def _outcome(
    query: Query, batches: Mapping[int, Batch], truth: Truth, released: bool
) -> tuple[dict[str, Any], QueryCount]:
    """Return a query's part of the document, and the count that privacy is stated for."""
    question, valid = query.question, batches[0].tally.valid - batches[0].dummies
    # The minimum is about people: dummies hide them, but do not count as reports.
    state = QueryState.PUBLISHED if released else QueryState.WITHHELD
    estimates = _found(query, batches, truth) if released else None
    result = QueryResult(query.name, state, valid, valid, {}, estimates)
    document = query_document(result, question.kind, _with_nobody(truth, estimates), question.optional)
    noise = 0 if query.noise is None else batches[0].dummies
    return document, QueryCount(query.name, query.mechanism, valid, valid, {}, noise=noise)


def _digits(
    planned: PlannedSum, answers: Sequence[Value], progress: Callable[[int], None], random: Random
) -> list[tuple[Query, Batch]]:
    """Return the batch of each digit's query; each answer is rounded once, as a device does it."""
    number, queries, found = stepped(planned.question), planned.queries, []
    rounded = [number.encode(answer, random) for answer in answers]
    for place, query in enumerate(queries):
        digits = [digits_in(each, len(queries))[place] for each in rounded]
        people = tally_of(query, digits, progress, random, 0)
        of_dummies, added = tally_of_dummies(query, 0, random)
        found.append((query, Batch(people + of_dummies, added)))
    return found


def _sum_document(planned: PlannedSum, batches: Sequence[Batch], truth: Truth, released: bool) -> dict[str, Any]:
    """Return a sum's part of the document, with its true value."""
    from hubbub.queries.estimation.digits import combined

    pairs = zip(planned.queries, batches, strict=True)
    debiased = [query.debiased(batch.tally, batch.dummies) for query, batch in pairs]
    estimates = combined(planned.question, debiased) if released else None
    return sum_compared(SumResult(planned.name, tuple(query.name for query in planned.queries), estimates), truth)


def _privacy(plan: Plan, history: Sequence[RoundCounts]) -> dict[str, Any]:
    stated = statement(Terms.of(plan.draft), history)
    noise = all(planned.query.noise is not None for planned in plan.queries)
    return {"admission": plan.draft.admission.statement(noise=noise), **stated}


def most_rounds(plan: Plan) -> int:
    """Return how many rounds are run: one, or as many as the question with the most prefixes needs."""
    return max(whole_round(planned.query) + 1 for planned in plan.queries)


def reports_drawn(plan: Plan, devices: int) -> int:
    """Return how many reports a simulation draws."""
    return devices * sum(whole_round(planned.query) + 1 for planned in plan.queries)


def whole_round(query: Query) -> int:
    """Return the first round that asks for all of an answer: 0, or the one after those for prefixes."""
    return len(query.question.prefixes) if isinstance(query.question, HeavyHitterQuestion) else 0


def _simulated(
    query: Query, answers: Sequence[Value], dummies: int, progress: Callable[[int], None], random: Random
) -> dict[int, Batch]:
    """Return a query's batch of each round up to the round for whole answers; all devices answer all rounds."""
    batches = {}
    for number in range(whole_round(query) + 1):
        people = tally_of(query, answers, progress, random, number)
        of_dummies, added = tally_of_dummies(query, dummies, random)
        batches[number] = Batch(people + of_dummies, added)
    return batches


def _found(query: Query, batches: Mapping[int, Batch], truth: Truth) -> Estimates:
    """Return the estimates that are published after the last round, with the texts that were found by prefixes."""
    last = whole_round(query)
    if isinstance(query.question, HeavyHitterQuestion) and query.question.prefixes:
        debiased = {number: query.debiased(each.tally, each.dummies) for number, each in batches.items()}
        return query.question.discover(last, debiased, None, lambda _: None)
    return estimates_of(query, batches[last].tally, batches[last].dummies, truth)


def _with_nobody(truth: Truth, estimates: Estimates | None) -> Truth:
    """Return the truth with a count of 0 for each text that was found but nobody gave, so a false discovery shows."""
    rows = () if estimates is None else estimates.rows
    nobody = {row.key: 0.0 for row in rows if row.statistic in ("count", BEGINNING)}
    return {**nobody, **truth}


def estimates_of(query: Query, tally: Tally, dummies: int, truth: Truth) -> Estimates:
    """Return the estimates of a round that asks for whole answers; texts in the data are looked up."""
    last = whole_round(query)
    if not isinstance(query.question, Decodable):
        return query.estimates_over(last, {last: Batch(tally, dummies)})
    candidates = [category for statistic, category in truth if statistic == "count" and category is not None]
    return query.question.decode(query.debiased(tally, dummies), candidates, last)


def tally_of_dummies(query: Query, dummies: int, random: Random) -> tuple[Tally, int]:
    """Return the counts of the reports that the shufflers add to a batch, and their number.

    If the query has noise, each shuffler draws its numbers from its law. Otherwise they are `dummies` uniform reports.
    """
    randomizer = query.randomizer
    if query.noise is None:
        return randomizer.tally(randomizer.dummies(dummies, random)), dummies
    if not isinstance(randomizer, Imitable):
        raise TypeError(f"reports of {randomizer.kind} cannot be added symbol by symbol")
    draws = [query.draw_noise(random) for _ in range(query.shufflers)]
    counts = [sum(each) for each in zip(*draws, strict=True)]
    return randomizer.tally(randomizer.reports_of(counts)), sum(counts)


def tally_of(
    query: Query, answers: Sequence[Value], progress: Callable[[int], None], random: Random, number: int
) -> Tally:
    """Return the counts of the reports for these answers, each drawn as a device draws it in round `number`.

    `progress` is called with the number of devices after every thousand devices.

    Raises:
        AnswerError: if an answer does not fit the query.
    """
    tally = query.randomizer.tally(b"")
    # Counted a thousand at a time, so that memory does not grow with the data.
    for start in range(0, len(answers), 1000):
        some = answers[start : start + 1000]
        symbols = (query.encode_at(value, RoundContext(number), random).symbol for value in some)
        reports = b"".join(query.randomize(symbol, random) for symbol in symbols)
        tally += query.randomizer.tally(reports)
        progress(len(some))
    return tally
