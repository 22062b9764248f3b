"""Texts that nobody listed are found round by round, within a limit of work, and shown for what they are."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hubbub.accountant.mechanisms.noise_law import ChainNoise, NoiseLaw
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.estimates import Estimates
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.hashed_noise import added_moments
from hubbub.queries.texts import heavy_hitters
from hubbub.queries.texts.alphabet import Alphabet
from hubbub.queries.texts.heavy_hitters import find_heavy_hitters, last_step, steps_of
from hubbub.queries.texts.lookup import _discoveries, stands_out_from
from hubbub.queries.texts.text import DIGESTS, Text
from support.estimate_rows import number
from support.prefix_batches import batches

WORD = Text("word", optional=False, prefixes=(2, 4))
RANDOMIZER = HashedResponse(DIGESTS, 1024, 64, 2**29)
HELD = {"cat": 300, "catalog": 500, "catch": 400, "straße": 600, "a": 200, **{f"only{n}": 1 for n in range(300)}}
LETTERS = Alphabet.of("abcdefghijklmnopqrstuvwxyzß")
"""Texts with digits are outside."""

BATCHES = batches(WORD, RANDOMIZER, HELD, np.random.default_rng(7))


def found(estimates: Estimates) -> list[tuple[str, str | None, float | None]]:
    return [(row.statistic, row.category, row.at) for row in estimates.rows]


def said(_: str) -> None:
    """Nobody listens."""


def test_texts_are_found_and_those_that_are_too_long_up_to_their_beginning() -> None:
    told: list[str] = []
    estimates = find_heavy_hitters(WORD, 2, BATCHES, LETTERS, told.append)
    # "straße" and "catalog" have seven bytes: one more than four, the last prefix, and two, the last step.
    assert set(found(estimates)) == {
        ("count", "catch", None),
        ("count", "cat", None),
        ("count", "a", None),
        ("beginning", "stra…", 1),
        ("beginning", "cata…", 1),
        ("beginning", "only…", 1),
        ("answered", None, None),
    }
    assert [row.category for row in estimates.rows][:3] == ["catch", "cat", "a"]
    for text, people in (("cat", 300), ("catch", 400), ("a", 200)):
        estimate = number(estimates, "count", text)
        assert abs(estimate.value - people) < 5 * estimate.standard_error
        assert estimate.simultaneous is not None
        assert estimate.simultaneous[0] < estimate.lower < people < estimate.upper < estimate.simultaneous[1]
    assert [sentence.partition(":")[0] for sentence in told] == [
        "round 0, 2 bytes",
        "round 1, 4 bytes",
        "round 2, whole texts",
    ]
    assert estimates.notes[0].startswith("round 0, 2 bytes: 4 of 1,4")


def test_a_round_for_prefixes_shows_what_it_tells() -> None:
    estimates = find_heavy_hitters(WORD, 1, BATCHES, LETTERS, said)
    assert set(found(estimates)) == {
        *(("count", text, None) for text in ("cat", "a")),
        *(("beginning", text, 1) for text in ("catc…", "cata…", "stra…", "only…")),
        ("answered", None, None),
    }
    assert found(find_heavy_hitters(WORD, 0, BATCHES, LETTERS, said))[:2] == [
        ("count", "a", None),
        ("beginning", "ca…", 0),
    ]


def test_a_round_that_is_missing_is_stepped_over() -> None:
    without = {place: batch for place, batch in BATCHES.items() if place != 0}
    few = Alphabet.of("acdegnoltsrß")
    assert {each[:2] for each in found(find_heavy_hitters(WORD, 1, without, few, said))} >= {
        ("count", "cat"),
        ("beginning", "stra…"),
        ("beginning", "cata…"),
    }


def test_of_rounds_for_whole_texts_the_last_one_is_read() -> None:
    """What an earlier one found by a collision would be found again: both have the same digests."""
    nobody = batches(WORD, RANDOMIZER, {f"x{n}": 1 for n in range(2000)}, np.random.default_rng(1))[2]
    asked = {**BATCHES, 2: nobody, 3: BATCHES[2]}
    assert found(find_heavy_hitters(WORD, 3, asked, LETTERS, said)) == found(
        find_heavy_hitters(WORD, 2, BATCHES, LETTERS, said)
    )


def test_no_text_is_found_where_none_is_frequent() -> None:
    alone = batches(WORD, RANDOMIZER, {f"{n:04d}": 1 for n in range(2000)}, np.random.default_rng(2))
    assert found(find_heavy_hitters(WORD, 2, alone, LETTERS, said)) == [("answered", None, None)]


def test_the_most_frequent_beginnings_are_continued_as_far_as_the_limit_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    each = LETTERS.count(b"ca", 2, unended=True)
    monkeypatch.setattr(heavy_hitters, "MOST_LOOKED_UP", 2 * each + 10)
    estimates = find_heavy_hitters(WORD, 1, BATCHES, LETTERS, said)
    assert "; of 3 beginnings the 2 most frequent were continued, as at most" in estimates.notes[1]
    # "on", with 300 people, is the third.
    assert ("beginning", "on…", 0) in found(estimates)
    assert ("beginning", "cata…", 1) in found(estimates)


def test_a_step_that_is_too_long_for_one_beginning_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy_hitters, "MOST_LOOKED_UP", 1000)
    says = (
        r"one beginning of 0 bytes has 1,\d+ continuations of 2 bytes, and at most 1,000 are looked up; name the char"
    )
    with pytest.raises(ValueError, match=says):
        find_heavy_hitters(WORD, 2, BATCHES, LETTERS, said)


def test_a_text_without_prefixes_is_looked_up_from_a_list() -> None:
    with pytest.raises(ValueError, match="asks every round for whole texts; look up candidates instead"):
        find_heavy_hitters(Text("word"), 0, {0: BATCHES[2]}, None, said)


def test_candidates_are_looked_up_as_their_round_asks() -> None:
    listed = ["catalog", "catamaran", "cat", "dog"]
    assert [each[:2] for each in found(WORD.decode(BATCHES[1], listed, 1))] == [
        ("beginning", "cata…"),
        ("count", "cat"),
        ("answered", None),
    ]
    assert [each[1] for each in found(WORD.decode(BATCHES[2], listed, 2))] == ["catalog", "cat", None]


def test_whole_texts_are_longer_than_the_last_prefix_by_the_last_step() -> None:
    assert [last_step(each) for each in ((3,), (2, 4), (3, 5, 6))] == [3, 2, 1]


@pytest.mark.parametrize("looked_up", [1, 100, 27_165])
@pytest.mark.parametrize("spread", [0.5, 19.5, 4000.0])
def test_the_count_that_stands_out_is_that_of_the_procedure(looked_up: int, spread: float) -> None:
    least = stands_out_from(spread, looked_up)
    for factor, discovered in ((1 + 1e-9, 1), (1 - 1e-9, 0)):
        over = least * factor / spread
        logs = np.zeros(looked_up)
        logs[-1] = -spread * ((1 + over) * np.log1p(over) - over)
        assert len(_discoveries(-logs, logs)) == discovered


def test_a_plan_says_what_each_round_takes() -> None:
    steps = steps_of(WORD, RANDOMIZER, 20_000, 0)
    assert [(each.round, each.length) for each in steps] == [(0, 2), (1, 4), (2, None)]
    # Python 3.11 has Unicode 14. Later versions assign characters that begin with two further bytes.
    two = 27165 if unicodedata.unidata_version == "14.0.0" else 27166
    assert [each.look_ups for each in steps] == [two, two, 10951]
    assert [each.beginnings for each in steps] == [1, 184, 456]
    assert steps[0].stands_out_from < steps[1].stands_out_from < steps[1].found_from
    hit, miss = RANDOMIZER.variances(np.array([1.0, 0.0])).tolist()
    for each in steps:
        error = np.sqrt(20_000 * miss + each.found_from * (hit - miss))
        assert each.found_from - 1.96 * error == pytest.approx(each.stands_out_from)
    assert steps_of(Text("word"), RANDOMIZER, 20_000, 0) == ()


NOISE = NoiseLaw.of("geometric", Fraction(6065, 10000), 25)


def test_a_plan_beside_noise_has_the_error_of_its_law() -> None:
    """However many dummies that makes: the count that stands out is found by a bound of the noise itself."""
    (first, *_), (plain, *_) = (steps_of(WORD, RANDOMIZER, 20_000, 7, noise) for noise in (ChainNoise(NOISE), None))
    assert replace(first, stands_out_from=0.0, found_from=0.0) == replace(plain, stands_out_from=0.0, found_from=0.0)
    keep, (hit, miss) = RANDOMIZER.support_gap, RANDOMIZER.variances(np.array([1.0, 0.0])).tolist()
    law, people = added_moments(RANDOMIZER, ChainNoise(NOISE)), 20_000 * miss
    assert first.stands_out_from == stands_out_from(people * keep**2, first.look_ups, law) / keep
    noisy = people + 64 * float(NOISE.variance) * (1 - 1 / 1024) / keep**2
    error = np.sqrt(noisy + first.found_from * (hit - miss))
    assert first.found_from - 1.96 * error == pytest.approx(first.stands_out_from)
    assert WORD.steps(RANDOMIZER, 20_000, 7, ChainNoise(NOISE))[0] == first


def test_texts_are_found_beside_noise_in_every_cell() -> None:
    """25 dummies a cell: 1.6 million in all, whose noise is that of half a million uniform ones."""
    added = np.random.default_rng(5)
    law = np.array([weight / 2**128 for weight in NOISE.weights])
    noisy = {}
    for number_, batch in BATCHES.items():
        z = added.choice(len(law), RANDOMIZER.report_symbols, p=law / law.sum())
        tally = batch.tally + RANDOMIZER.tally(RANDOMIZER.reports_of(z.tolist()))
        noisy[number_] = Debiased(RANDOMIZER, tally, int(z.sum()), ChainNoise(NOISE))
    estimates = find_heavy_hitters(WORD, 2, noisy, LETTERS, said)
    assert {each for each in found(estimates) if each[0] == "count"} == {
        ("count", "catch", None),
        ("count", "cat", None),
        ("count", "a", None),
    }
    for text, people in (("cat", 300), ("catch", 400), ("a", 200)):
        estimate = number(estimates, "count", text)
        assert abs(estimate.value - people) < 5 * estimate.standard_error
        # Of uniform dummies, as many would add 25 · 64 to the variance; these add Var z · 64.
        assert estimate.standard_error < 1.5 * np.sqrt(64 * float(NOISE.variance)) / RANDOMIZER.support_gap + 10
