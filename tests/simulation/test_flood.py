"""All reports but one are the attacker's, who takes them out of the estimates again.

The victim answers four questions, each with one of three answers, drawn from the operating system. The attacker reads
what is published and says which it was. Of (ε, δ)-private estimates nobody is right more often than `most_right`.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest
from scipy import stats

from hubbub.accountant.bounds import epsilon_upper
from hubbub.accountant.certificate.ladder import ALONE
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.client import Fleet
from hubbub.deploy.local.pipeline import CALL_SECONDS, LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Receipt
from hubbub.protos.records.results import RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, ResultsCaller
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities, Privacy, Task
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import Pins, verify
from support.flooding import KNOWN, flood
from support.krr_queries import krr_query
from support.patience import PATIENCE
from support.samples import MOST, changed
from support.thoroughness import EXHAUSTIVE, usually

ANSWERS = ("never", "once", "often")
QUERIES, ROUNDS = 4, usually(6, 26)
GUESSES = QUERIES * ROUNDS
REPORTS = 150
GAMMA, DELTA = Fraction(1, 8), 0.05
DUMMIES = 60

FALSE_ALARM = 1e-6
"""Largest probability that a mode whose numbers are true is accused here."""


@dataclass(frozen=True)
class Way:
    """Whom a task admits, beside which dummies or noise, and what the attacker knows of each other report: its law."""

    admission: AdmissionPolicy
    dummies: int
    others: tuple[float, float, float]
    noise: NoiseLaw | None = None


BACKGROUND = float(GAMMA) / 3
FLOODED = Way(OPEN, 0, (1.0, 0.0, 0.0))
WITH_DUMMIES = Way(OPEN, DUMMIES, (1.0, 0.0, 0.0))
NOISE = NoiseLaw.of("geometric", Fraction(4, 5), 14)
WITH_NOISE = Way(OPEN, 0, (1.0, 0.0, 0.0), NOISE)
OF_PEOPLE = Way(ENROLLED, 0, (1 - 2 * BACKGROUND, BACKGROUND, BACKGROUND))


def most_right(epsilon: float) -> float:
    """How often at most anybody is right about one of three answers that are equally likely.

    Each answer x has P[right | x] <= e^ε P[x is said | y] + δ for the other two y. Summed over y and x, with S the sum
    of P[right | x], 2S <= e^ε (3 - S) + 6δ, so that S/3 <= (e^ε + 2δ)/(e^ε + 2).
    """
    return (math.exp(epsilon) + 2 * DELTA) / (math.exp(epsilon) + 2)


def most_hits(epsilon: float) -> int:
    """More hits than this among all guesses have a probability of FALSE_ALARM at most, where ε and δ are true."""
    return int(stats.binom.isf(FALSE_ALARM, GUESSES, most_right(epsilon)))


def shown(most: int) -> float:
    """The probability of more hits than that where the attacker reads every report, right with probability 11/12."""
    return float(stats.binom.sf(most, GUESSES, 1 - 2 * BACKGROUND))


def tasks(way: Way, identities: Identities) -> tuple[Task, ...]:
    """A task of one round for each round that is played."""
    asked = [krr_query(Histogram(f"q{each}", ANSWERS), int(GAMMA * 2**32)) for each in range(QUERIES)]
    queries = tuple(replace(query, noise=way.noise) for query in asked)
    schedule = Schedule(int(time.time()) - 1, 3600, 86_400, 1, "operator")
    privacy = Privacy(20.0, DELTA, epsilon_local=20.0, dummies=way.dummies)
    return tuple(
        changed(Task(f"r{number}", schedule, REPORTS, privacy, queries, identities, way.admission, MOST))
        for number in range(ROUNDS)
    )


async def answered(pipeline: LocalPipeline, task: SignedTask, people: Sequence[dict[str, str]]) -> None:
    fleet = Fleet(
        task.encode(),
        operator_key=pipeline.operator_key,
        shuffler_key=pipeline.shuffler_key,
        state=pipeline.folder.of("client") / "people.db",
        shuffler=pipeline.shuffler,
        authority=pipeline.authority,
        tickets=pipeline.ticket,
    )
    async with fleet:
        summary = await fleet.submit_many(((str(place), each) for place, each in enumerate(people)), 0)
    assert summary.accepted == len(people), summary.messages


@dataclass(frozen=True)
class Round:
    """What a round was: the victim's answers, what was published, and why the flood was refused, if it was."""

    truth: dict[str, str]
    results: RoundResults
    refused: frozenset[Reason]


async def played(way: Way, pipeline: LocalPipeline, task: SignedTask) -> Round:
    truth = {query.name: secrets.choice(ANSWERS) for query in task.task.queries}
    answers = await flood(pipeline.shuffler, TLS(pipeline.authority), task.task, REPORTS - 1)
    taken = sum(isinstance(answer, Receipt) for answer in answers)
    assert taken in (0, REPORTS - 1)
    # Where made-up devices are refused, people have to come, and the attacker knows what all of them answer.
    crowd = [dict.fromkeys(truth, ANSWERS[KNOWN])] * (REPORTS - 1 - taken)
    await answered(pipeline, task, [truth, *crowd])
    shuffler, analyzer = (pipeline.services[role].addresses for role in (Role.SHUFFLER, Role.ANALYZER))
    async with open_channel(shuffler["control"], pipeline.operator_tls) as channel:
        await ControlCaller(channel).close_round(task.task.id, 0, CALL_SECONDS)
    async with open_channel(analyzer["results"], pipeline.operator_tls) as channel:
        results = await ResultsCaller(channel).get_results(task.task.id, 0, CALL_SECONDS, 2 * CALL_SECONDS)
    return Round(truth, results, frozenset(answer.reason for answer in answers if isinstance(answer, Refusal)))


async def all_rounds(way: Way, folder: Path) -> list[Round]:
    async with (
        asyncio.timeout(PATIENCE),
        LocalPipeline(lambda identities: tasks(way, identities), folder) as pipeline,
    ):
        return [await played(way, pipeline, task) for task in pipeline.tasks]


def hits(way: Way, rounds: Sequence[Round]) -> int:
    """How many of all answers the attacker says rightly."""
    return sum(guess(way, each.results, name) == answer for each in rounds for name, answer in each.truth.items())


def guess(way: Way, results: RoundResults, name: str) -> str:
    """The likeliest answer, by the counts that the published estimates were made of.

    Counts in which the victim's report is v are N_v / p_v times as likely as others, where p_v is the chance of v for
    each of those who hide it. Of a flood they are known, and only the victim's report and the dummies are left.
    """
    (found,) = (query.estimates for query in results.queries if query.name == name)
    assert found is not None
    values = {row.key[1]: row.estimate.value for row in found.rows if row.estimate is not None}
    counts = [values[each] * float(1 - GAMMA) + REPORTS * BACKGROUND + way.dummies / 3 for each in ANSWERS]
    if way.others == FLOODED.others:
        counts[KNOWN] -= REPORTS - 1
        odds = counts
    else:
        odds = [count / chance for count, chance in zip(counts, way.others, strict=True)]
    return ANSWERS[max(range(3), key=odds.__getitem__)]


def certified(rounds: Sequence[Round]) -> float:
    """The largest ε that a certificate states of one query; they are verified, and say whom they admit."""
    stated = [verify(each.results.certificate, Pins()).content["queries"] for each in rounds]
    return max(query["epsilon_upper"] for queries in stated for query in queries)


# Shows what the rounds with dummies and with noise below do not: how far a flood gets without them.
@pytest.mark.exhaustive
def test_a_flood_breaks_an_open_task_whose_assumption_is_wrong(tmp_path: Path) -> None:
    """Each guess is right with probability 11/12; all of them fail to show it with probability 1e-7 at most."""
    rounds = asyncio.run(all_rounds(FLOODED, tmp_path))
    epsilon = certified(rounds)
    assert epsilon < 1
    assert all(not each.refused for each in rounds)
    assert shown(most_hits(epsilon)) > 1 - 1e-7
    assert hits(FLOODED, rounds) > most_hits(epsilon)
    for each in rounds:
        assert verify(each.results.certificate, Pins()).admission["mode"] == "open"


# test_running_audit.py has a flood of an enrolled task refused, and test_flood's round with noise is flooded whole.
@pytest.mark.exhaustive
def test_a_flood_of_an_enrolled_task_is_refused_and_the_guess_is_what_the_certificate_allows(tmp_path: Path) -> None:
    """A true certificate is accused with probability 1e-6 at most."""
    rounds = asyncio.run(all_rounds(OF_PEOPLE, tmp_path))
    assert all(each.refused == {Reason.NOT_ENROLLED} for each in rounds)
    assert hits(OF_PEOPLE, rounds) <= most_hits(certified(rounds))
    for each in rounds:
        assert verify(each.results.certificate, Pins()).admission["mode"] == "enrolled"


# The round with noise below is flooded too; what dummies are worth is tested in tests/oracle without services.
@pytest.mark.exhaustive
def test_dummies_keep_a_flooded_round_at_what_they_are_worth(tmp_path: Path) -> None:
    """The ε is that of one honest report among the dummies, as planning counts. A true one is accused with 1e-6."""
    rounds = asyncio.run(all_rounds(WITH_DUMMIES, tmp_path))
    (query, *_) = tasks(WITH_DUMMIES, Identities(b"o", b"s", b"a"))[0].queries
    worth = epsilon_upper(query.mechanism, 1, DELTA, dummies=DUMMIES)
    assert worth < 0.5
    assert shown(most_hits(worth)) > 1 - 1e-7
    assert hits(WITH_DUMMIES, rounds) <= most_hits(worth)


def test_noise_keeps_a_flooded_open_round_at_what_its_certificate_states_of_anybody(tmp_path: Path) -> None:
    """The certificate says it of one honest report; the honest share plays no part. A true one is accused with 1e-6."""
    rounds = asyncio.run(all_rounds(WITH_NOISE, tmp_path))
    assert all(not each.refused for each in rounds)
    stated = [verify(each.results.certificate, Pins()).content["queries"] for each in rounds]
    worth = max(query[ALONE] for queries in stated for query in queries)
    assert worth < 0.6
    # As many as would show a false one; a few show one that is false by far.
    assert not EXHAUSTIVE or shown(most_hits(worth)) > 1 - 1e-7
    assert most_hits(worth) < GUESSES
    assert hits(WITH_NOISE, rounds) <= most_hits(worth)
    # The sum of the noise is drawn anew for each batch, and the shuffler signs it.
    assert len({query["dummies"] for queries in stated for query in queries}) > QUERIES
