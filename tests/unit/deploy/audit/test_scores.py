"""Each sees what it is for, in views made by hand; every kind of question and randomizer can be attacked."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np
import pytest

from hubbub.deploy.audit.inference import attack
from hubbub.deploy.audit.scores import COUNTS, ROWS, ScoredRound, scored
from hubbub.deploy.audit.worst_case import WorstCase, worst_case_of
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.queries.texts.text import Text
from support.krr_queries import krr_query, report

GAMMA = 2**30
WORST = worst_case_of(krr_query(Histogram("theme", ("light", "dark", "system")), GAMMA))
EPSILON_LOCAL = WORST.query.mechanism.epsilon_local


def view(*symbols: int) -> bytes:
    return b"".join(map(report, symbols))


def values(worst: tuple[WorstCase, ...], *seen: bytes | None) -> dict[str, float]:
    found = scored(worst, [ScoredRound(True, seen)])
    return dict(zip(found.names, found.values[0].tolist(), strict=True))


def test_the_worst_case_is_two_answers_and_a_third_one_for_everyone_else() -> None:
    assert (WORST.first, WORST.second, WORST.others) == ("light", "dark", "system")
    assert (WORST.answer(True), WORST.answer(False)) == ("light", "dark")


def test_where_there_are_two_answers_everyone_else_holds_the_second() -> None:
    worst = worst_case_of(krr_query(Histogram("seen", ("yes", "no")), GAMMA))
    assert (worst.first, worst.second, worst.others) == ("yes", "no", "no")
    optional = worst_case_of(krr_query(Histogram("seen", ("yes",), optional=True), GAMMA))
    assert (optional.first, optional.second, optional.others) == ("yes", None, None)


def test_counts_do_not_see_the_order_and_places_do() -> None:
    one, other = values((WORST,), view(0, 2, 2)), values((WORST,), view(2, 2, 0))
    assert one[COUNTS] == pytest.approx(other[COUNTS])
    assert one[COUNTS] > 0
    assert (one["place 0"], other["place 0"]) == (pytest.approx(EPSILON_LOCAL), pytest.approx(0.0))
    assert (one["place 0 from the end"], other["place 0 from the end"]) == (0.0, pytest.approx(EPSILON_LOCAL))


def test_counts_are_the_exact_likelihood_ratio_of_a_shuffled_batch() -> None:
    """P[counts | first] by listing who of three sent which report: the victim's law and twice that of the others."""
    mechanism = WORST.query.mechanism
    laws = [mechanism.law(symbol) for symbol in range(3)]  # type: ignore[union-attr]
    seen = (0, 1, 2)

    def probability(victim: int) -> Fraction:
        places = [(seen[i], [seen[j] for j in range(3) if j != i]) for i in range(3)]
        return sum((laws[victim][y] * laws[2][a] * laws[2][b] for y, (a, b) in places), Fraction(0))

    exact = log(probability(0) / probability(1))
    assert values((WORST,), view(*seen))[COUNTS] == pytest.approx(exact, abs=1e-12)
    assert values((WORST,), view(0, 0, 2))[COUNTS] > exact


def test_nothing_seen_scores_nothing() -> None:
    assert values((WORST,), None) == {COUNTS: 0.0}


def test_places_beyond_a_shorter_batch_score_nothing() -> None:
    found = scored((WORST,), [ScoredRound(True, (view(0, 0),)), ScoredRound(False, (view(1),))])
    assert found.values[1][found.names.index("place 1")] == 0.0


def test_queries_that_are_permuted_alike_are_seen_by_their_rows() -> None:
    """Rows of two queries: that one row says the first answer twice tells more than two rows that say it once each."""
    both = (WORST, WORST)
    assert values(both, view(0, 2, 2), view(0, 2, 2))[ROWS] > values(both, view(0, 2, 2), view(2, 0, 2))[ROWS]
    assert ROWS not in values(both, view(0, 2), view(0, 2, 2))
    assert ROWS not in values((WORST,), view(0, 2))


def test_a_fixed_permutation_is_caught_at_whatever_place_it_puts_the_victim() -> None:
    """The victim is the fourth of nine from the end: 200 rounds, a γ of 1/4; missed less than once in 10⁶."""
    generator, rounds = np.random.default_rng(3), []
    randomize = WORST.query.randomizer.randomize
    for number in range(200):
        reports = [randomize(2, generator.bytes) for _ in range(9)]
        reports[-4] = randomize(number % 2, generator.bytes)
        rounds.append(ScoredRound(number % 2 == 0, (b"".join(reports),)))
    found = attack(scored((WORST,), rounds), 0.01, 0.01)
    assert found.event.score in ("place 5", "place 3 from the end")
    assert found.epsilon > 0.5


RANDOMIZERS = {
    "krr": KRandomizedResponse(3, GAMMA),
    "unary": UnaryEncoding(3, 2**31, 2**29),
    "hashed": HashedResponse(3, 5, 7, GAMMA),
}


@pytest.mark.parametrize("kind", RANDOMIZERS)
def test_likelihoods_are_in_the_ratios_that_are_drawn(kind: str) -> None:
    """5,000 reports of a symbol, drawn from L(own): L(other)/L(own) has the mean 1; 6 deviations are one in 10⁸."""
    randomizer, source = RANDOMIZERS[kind], np.random.default_rng(4).bytes
    for own, other in ((0, 1), (1, 2)):
        reports = b"".join(randomizer.randomize(own, source) for _ in range(5_000))
        ratios = randomizer.likelihoods(reports, other) / randomizer.likelihoods(reports, own)
        assert ratios.max() <= np.exp(randomizer.mechanism.epsilon_local) * (1 + 1e-9)
        assert abs(ratios.mean() - 1) < 6 * ratios.std() / 5_000**0.5


def test_texts_are_attacked_through_their_hashes() -> None:
    worst = worst_case_of(Query(Text("word"), HashedResponse(2**64, 64, 16, GAMMA)))
    symbol = worst.query.encode(worst.first, lambda _: b"")
    batch = b"".join(worst.query.randomizer.randomize(symbol, np.random.default_rng(5).bytes) for _ in range(50))
    found = worst.likelihoods(batch)
    assert np.log(found.first / found.second).sum() > 50
