"""What is frequent is found, counted without bias, and hardly anything else is found.

A population of Zipf's law, with texts of several scripts and lengths, one a beginning of another. A mean passes within
Z standard errors; Z = 4.9 is a two-sided false-alarm rate of 1e-6 a check, and there are at most 24. Seeds are fixed,
so a run does not flake.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from hubbub.planning.simulate.compare import Pool
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.estimates import Estimates
from hubbub.queries.longitudinal.over_rounds import RoundContext
from hubbub.queries.query import Query
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.texts.alphabet import Alphabet
from hubbub.queries.texts.heavy_hitters import find_heavy_hitters, steps_of
from hubbub.queries.texts.text import DIGESTS, Text
from support.prefix_batches import batches
from support.thoroughness import usually

Z = 4.9
BATCHES = usually(12, 24)
PEOPLE = 20_000
WORD = Text("word", prefixes=(2, 4, 6))
RANDOMIZER = HashedResponse(DIGESTS, 1024, 64, int(0.3 * 2**32))
NAMED = ("google", "maps", "wetter", "straße", "cat", "catalog", "日本", "a", "mail", "web", "wiki", "music")
RANKS = 3000
LETTERS = Alphabet.of("abcdefghijklmnopqrstuvwxyzß日本")


def name_of(rank: int) -> str:
    """The first are named; the others have letters that tell nothing of each other."""
    if rank < len(NAMED):
        return NAMED[rank]
    return "".join(chr(97 + (rank * 7919 // 26**place + 11 * place) % 26) for place in range(5))


def population() -> dict[str, int]:
    shares = 1 / np.arange(1, RANKS + 1)
    people = np.maximum(1, np.floor(PEOPLE * shares / shares.sum())).astype(int)
    held: dict[str, int] = {}
    for rank, number in enumerate(people.tolist()):
        held[name_of(rank)] = held.get(name_of(rank), 0) + number
    return held


HELD = population()


def told(_: str) -> None:
    """Nobody listens."""


@cache
def found(wrong: int = 0) -> tuple[Estimates, ...]:
    """What is found in each of many batches; `wrong` shifts γ's numerator for the analyzer, and nothing that hashes."""
    generator, results = np.random.default_rng(23), []
    for number in range(BATCHES if not wrong else 2):
        sent = HashedResponse(DIGESTS, RANDOMIZER.cells, RANDOMIZER.rows, RANDOMIZER.gamma + number)
        drawn = batches(WORD, sent, HELD, generator)
        if wrong:
            drawn = {place: Debiased(_Mistaken(sent, wrong), each.tally) for place, each in drawn.items()}
        results.append(find_heavy_hitters(WORD, 3, drawn, LETTERS, told))
    return tuple(results)


class _Mistaken(HashedResponse):
    """A randomizer with the hash functions of another, whose γ is taken to be smaller."""

    def __init__(self, sent: HashedResponse, wrong: int) -> None:
        super().__init__(sent.symbols, sent.cells, sent.rows, sent.gamma)
        object.__setattr__(self, "_wrong", wrong)

    @property
    def truthful(self) -> float:
        less: int = self._wrong  # type: ignore[attr-defined]
        return 1 - (self.gamma - less) / 2**32


def counts(estimates: Estimates) -> dict[str, tuple[float, float]]:
    return {
        row.category: (row.estimate.value, row.estimate.standard_error or 0.0)
        for row in estimates.rows
        if row.statistic == "count" and row.category is not None and row.estimate is not None
    }


def test_frequent_texts_are_found_every_time_and_counted_without_bias() -> None:
    results = [counts(each) for each in found()]
    (step,) = steps_of(WORD, RANDOMIZER, PEOPLE, 0)[-1:]
    frequent = [text for text in NAMED if HELD[text] > 2 * step.found_from and len(text.encode()) <= 8]
    assert len(frequent) >= 8
    for text in frequent:
        each = [result[text] for result in results]
        errors = np.array([value - HELD[text] for value, _ in each])
        stated = np.mean([error**2 for _, error in each])
        assert abs(errors.mean()) < Z * np.sqrt(stated / BATCHES), text
        assert 0.4 < errors.std() / np.sqrt(stated) < 1.9, text


def test_hardly_anything_is_found_that_nobody_holds() -> None:
    """At most 5 % are expected to be; of more than ten a batch, 5 % and Z deviations of a binomial law are not seen."""
    results = [text for each in found() for text in counts(each)]
    false = sum(text not in HELD for text in results)
    assert len(results) > 10 * BATCHES
    assert false < 0.05 * len(results) + Z * np.sqrt(0.05 * 0.95 * len(results))


def test_an_analyzer_of_another_law_is_seen() -> None:
    """With a γ of 0.2 instead of 0.3, counts come out by an eighth too small: many standard errors of their mean."""
    results = [counts(each) for each in found(int(0.1 * 2**32))]
    each = [result["google"] for result in results]
    off = abs(np.mean([value - HELD["google"] for value, _ in each]))
    assert off > 3 * Z * np.sqrt(np.mean([error**2 for _, error in each]) / len(each))


def test_reports_of_devices_themselves_are_decoded() -> None:
    """Not drawn many at once: each by the code that a device runs, with bytes of the operating system's kind."""
    query, random = Query(WORD, RANDOMIZER), Pool(np.random.default_rng(5).bytes)
    people = [text for text, number in HELD.items() for _ in range(number)]
    drawn = {}
    for number in range(4):
        symbols = {text: query.encode_at(text, RoundContext(number), random).symbol for text in HELD}
        reports = b"".join(query.randomize(symbols[text], random) for text in people)
        drawn[number] = Debiased(RANDOMIZER, RANDOMIZER.tally(reports))
    result = counts(find_heavy_hitters(WORD, 3, drawn, LETTERS, told))
    for text in NAMED[:8]:
        value, error = result[text]
        assert abs(value - HELD[text]) < Z * error
    assert sum(text not in HELD for text in result) <= 2
