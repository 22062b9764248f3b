"""How counts of noisy batches are compared with the law: a right one is hardly ever accused, and narrower ones are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.deploy.audit.noise import NoisyRound, beyond, check_rounds, compare, distances
from hubbub.deploy.audit.worst_case import worst_case_of
from hubbub.protos.errors import UsageError
from hubbub.protos.task.task import Task
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.question import symbols_of
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.texts.text import Text
from support.krr_queries import krr_query
from support.samples import Parties, sample_task

LAW = NoiseLaw.of("geometric", Fraction(4, 5), 14)
THREE = replace(krr_query(Histogram("theme", ("light", "dark", "system")), 2**30), noise=LAW)
TWO = replace(krr_query(Histogram("seen", ("yes", "no")), 2**30), noise=LAW)
HASHED = Query(Text("editor"), HashedResponse(symbols_of(Text("editor")), 4, 2, 2**30), LAW)
QUERIES = {"three": THREE, "two": TWO, "hashed": HASHED}
PEOPLE, ROUNDS, ERROR = 5, 200, 1e-3

Draw = Callable[[Query], tuple[int, ...]]


def task(query: Query) -> Task:
    return sample_task(Parties.generate(), queries=(query,))


def played(query: Query, draw: Draw, seed: int = 1) -> list[NoisyRound]:
    """Rounds of the worst case, with noise that is drawn so."""
    random, worst = np.random.default_rng(seed), worst_case_of(query)
    found = []
    for number in range(ROUNDS):
        answers = [worst.answer(number % 2 == 0), *[worst.others] * (PEOPLE - 1)]
        own = (query.randomizer.randomize(query.encode(each, random.bytes), random.bytes) for each in answers)
        noise = query.randomizer.reports_of(draw(query))  # type: ignore[attr-defined]
        found.append(NoisyRound(b"".join(own) + noise, number % 2 == 0, PEOPLE))
    return found


def of(law: NoiseLaw, offset: int = 0) -> Draw:
    """Draw from another law than the query's, around another middle."""
    random = np.random.default_rng(2)
    return lambda query: tuple(z + offset for z in replace(query, noise=law).draw_noise(random.bytes))


@pytest.mark.parametrize("name", QUERIES)
def test_noise_of_the_law_is_consistent(name: str) -> None:
    query = QUERIES[name]
    found = compare(task(query), worst_case_of(query), played(query, of(LAW)), ERROR)
    assert found.consistent
    assert found.draws == ROUNDS * {"three": 3, "two": 1, "hashed": 8}[name]
    assert 0 < found.least <= found.far


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(
    ("law", "offset"),
    [
        (NoiseLaw.of("geometric", Fraction(4, 5), 7), 7),
        (NoiseLaw.of("geometric", Fraction(1, 2), 14), 0),
        (NoiseLaw.of("geometric", Fraction(1, 2), 3), 0),
    ],
    ids=["half the reach", "narrower", "elsewhere"],
)
def test_noise_of_a_narrower_law_is_seen_wherever_its_middle_is(name: str, law: NoiseLaw, offset: int) -> None:
    query = QUERIES[name]
    assert not compare(task(query), worst_case_of(query), played(query, of(law, offset)), ERROR).consistent


@pytest.mark.parametrize("z", [0, 14, 28])
def test_numbers_that_are_not_drawn_are_seen(z: int) -> None:
    found = compare(task(THREE), worst_case_of(THREE), played(THREE, lambda _: (z,) * 3), ERROR)
    assert not found.consistent
    assert found.far < found.expected


def test_distances_are_the_least_ones_that_so_many_draws_exceed() -> None:
    masses = [weight / 2**128 for weight in LAW.weights]
    for distance, share in zip(distances(LAW), (1 / 2, 1 / 4, 1 / 16), strict=True):
        exact = sum(mass for z, mass in enumerate(masses) if abs(z - LAW.reach) > distance)
        assert beyond(LAW, distance) == pytest.approx(exact, rel=1e-12)
        assert beyond(LAW, distance) <= share < beyond(LAW, distance - 1)


@pytest.mark.parametrize("shift", range(-9, 10))
@pytest.mark.parametrize("law", [LAW, NoiseLaw.of("gaussian", Fraction(9), 6)], ids=["geometric", "gaussian"])
def test_no_shift_makes_a_draw_less_often_far_than_its_law(law: NoiseLaw, shift: int) -> None:
    """The inequality that the comparison rests on, by whole numbers: whatever people's reports are."""
    for distance in range(law.reach):
        far = sum(weight for z, weight in enumerate(law.weights) if abs(z + shift - law.reach) > distance)
        assert far >= sum(weight for z, weight in enumerate(law.weights) if abs(z - law.reach) > distance)


def test_fewer_far_counts_than_the_least_have_the_probability_of_the_error_at_most() -> None:
    found = compare(task(THREE), worst_case_of(THREE), played(THREE, of(LAW)), ERROR)
    # One query, three distances, and as many centers as the law has values.
    share, chance = ERROR / 3 / 29, beyond(LAW, found.distance)
    assert (
        stats.binom.cdf(found.least - 1, found.draws, chance)
        <= share
        < stats.binom.cdf(found.least, found.draws, chance)
    )


def test_rounds_that_could_not_contradict_the_law_are_refused_with_the_number_that_could() -> None:
    with pytest.raises(
        UsageError, match=r"8 rounds with all their people are too few .* of query seen; ask"
    ) as refused:
        check_rounds(task(TWO), 8, ERROR)
    enough = int(str(refused.value).partition("ask for ")[2].partition(",")[0])
    check_rounds(task(TWO), enough, ERROR)
    with pytest.raises(UsageError):
        check_rounds(task(TWO), enough - 1, ERROR)
    check_rounds(task(krr_query(Histogram("plain", ("a", "b")), 2**30)), 1, ERROR)
