"""Finds texts that nobody listed, from the tables of rounds that asked for longer and longer beginnings.

In the first round's table every beginning of that length is looked up. In each later table, the continuations of the
beginnings that stood out of the table before are looked up, and the texts that had ended there. A text is found if each
of its beginnings stood out, and then the text itself.

Error rates: the look-ups of a round depend only on earlier rounds, whose randomness is independent of the round's own.
Reports are drawn again, and each length has other digests. So in each round Benjamini and Yekutieli's procedure keeps
the expected share of false discoveries, given all earlier rounds, at most `lookup.FALSE_DISCOVERIES`. Estimates are
those of one round, not a mean over rounds, because other people may have answered the earlier rounds.

If nothing longer was found for a beginning, it is returned as a beginning. False discoveries are hardly ever
continued, so among these beginnings their share may be larger than in their round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from hubbub.queries.estimation.bands import Z_95
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row
from hubbub.queries.randomizers.hashed_decoding import Symbols
from hubbub.queries.randomizers.hashed_noise import added_moments
from hubbub.queries.randomizers.randomizer import Randomizer, equal_dummies
from hubbub.queries.texts.alphabet import Alphabet, every_character
from hubbub.queries.texts.lookup import FALSE_DISCOVERIES, OfTexts, answered, row_of, standing_out, stands_out_from
from hubbub.queries.texts.prefixes import Digests, Prefix

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise

MOST_LOOKED_UP = 5_000_000
"""Most look-ups in one round: about twenty seconds, and a gigabyte."""


@dataclass(frozen=True)
class PrefixStep:
    """The work of one round.

    Attributes:
        round: its number.
        length: the bytes that it asks for; None if it asks for whole texts.
        look_ups: the number of look-ups for one beginning.
        beginnings: how many beginnings fit the limit.
        stands_out_from: the count that stands out of all these look-ups together.
        found_from: how many people must have a text for its count to be as large in 39 of 40 rounds. Both counts leave
            out the noise from collisions of common texts.
    """

    round: int
    length: int | None
    look_ups: int
    beginnings: int
    stands_out_from: float
    found_from: float


@runtime_checkable
class HeavyHitterQuestion(Protocol):
    """A question whose answers are found by prefixes over rounds, if it has `prefixes`."""

    @property
    def prefixes(self) -> tuple[int, ...]:
        """The lengths in bytes that the first rounds ask for."""

    def discover(
        self, number: int, batches: Mapping[int, Debiased], alphabet: Alphabet | None, say: Callable[[str], None]
    ) -> Estimates:
        """Return the texts that are frequent, from the batches of the rounds up to `number`."""

    def steps(
        self, randomizer: Randomizer, people: int, dummies: int, noise: ChainNoise | None = None
    ) -> tuple[PrefixStep, ...]:
        """Return the work to decode each round, and the counts that stand out of it."""


class _OfPrefixes(OfTexts, Protocol):
    """The members of `text.Text` that the search needs."""

    @property
    def name(self) -> str: ...
    @property
    def prefixes(self) -> tuple[int, ...]: ...
    def length_in(self, number: int) -> int | None: ...


@dataclass(frozen=True)
class _FoundText:
    """A beginning or a text that stood out of a round's table."""

    round: int
    said: Prefix
    estimate: Estimate


@dataclass(frozen=True)
class _SearchState:
    """The state after the rounds so far; the last one asked for beginnings of `length` bytes.

    `ended` are the whole texts that stood out of the last round. `beginnings` are the beginnings that may be continued,
    by their bytes. `leaves` are the beginnings of earlier rounds that were not continued.
    """

    length: int
    ended: tuple[_FoundText, ...]
    beginnings: Mapping[bytes, _FoundText | None]
    leaves: tuple[_FoundText, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _LookedUp:
    """The look-ups of one round: blocks of a beginning, its continuations, and whether the text ends after them."""

    blocks: Sequence[tuple[bytes, Sequence[bytes], bool]]

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """The indices at the blocks' ends, shape (blocks,)."""
        return np.cumsum([len(block[1]) for block in self.blocks], dtype=np.int64)

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def __getitem__(self, place: int) -> Prefix:
        index = int(np.searchsorted(self.ends, place, "right"))
        beginning, continuations, ended = self.blocks[index]
        return Prefix(beginning + continuations[place - int(self.ends[index])], ended)

    def symbols(self, digests: Digests, limit: int) -> Symbols:
        """Return the symbols, in range(limit), shape (len(self),)."""
        joined = b"".join([digests.joined(*block) for block in self.blocks])
        return np.frombuffer(joined, dtype="<u8").astype(np.uint64) % np.uint64(limit)


def find_heavy_hitters(
    question: _OfPrefixes,
    number: int,
    batches: Mapping[int, Debiased],
    alphabet: Alphabet | None,
    say: Callable[[str], None],
) -> Estimates:
    """Return the texts that stand out of the table of round `number`, and the beginnings without a longer find.

    `batches` are the published ones, by round. If a round is missing, the next one continues in longer steps. Texts are
    searched in the characters of the `alphabet`; None means all characters that Unicode assigns. `say` is called with a
    line on the look-ups of each round.

    Raises:
        ValueError: if the question has no prefixes, or one beginning alone needs more look-ups than the limit.
    """
    if not question.prefixes:
        raise ValueError(f"{question.name} asks every round for whole texts; look up candidates instead")
    # Only the last of the rounds for whole texts: they share their digests, so its finds must not depend on the others.
    rounds = [each for each in sorted(batches) if each == number or each < min(number, len(question.prefixes))]
    state = _SearchState(0, (), {b"": None})
    characters = alphabet or every_character()
    for each in rounds:
        state = _step(question, each, batches[each], state, characters, say)
    rows = [row_of(each.said, each.estimate, each.round) for each in _shown(state)]
    everybody = Row("answered", answered(question, batches[number]))
    return Estimates(question.kind, (*rows, everybody), notes=(*state.notes, _RATE))


_RATE = (
    f"false-discovery rate {FALSE_DISCOVERIES:.0%} in each round; the band over all that a round looked up covers "
    "what it found. A beginning that nothing longer was found of is more often a false discovery than others are"
)


def _shown(state: _SearchState) -> list[_FoundText]:
    unended = [*state.leaves, *(each for each in state.beginnings.values() if each is not None)]
    return [*state.ended, *sorted(unended, key=lambda each: -each.estimate.value)]


def _step(
    question: _OfPrefixes,
    number: int,
    debiased: Debiased,
    state: _SearchState,
    alphabet: Alphabet,
    say: Callable[[str], None],
) -> _SearchState:
    length = question.length_in(number)
    reach = last_step(question.prefixes) if length is None else length - state.length
    most = MOST_LOOKED_UP - len(state.ended)
    kept = _kept(state, alphabet, reach, length is not None, most)
    asked = "whole texts" if length is None else f"{length} bytes"
    looked_up = _LookedUp(tuple(_blocks(state.ended, kept, alphabet, reach, length is not None)))
    say(f"round {number}, {asked}: {len(looked_up):,} are looked up")
    symbols = looked_up.symbols(Digests.at(question.name, length), question.answers)
    found = [_FoundText(number, looked_up[place], each) for place, each in standing_out(question, debiased, symbols)]
    note = f"round {number}, {asked}: {len(found):,} of {len(looked_up):,} looked up stand out of the noise"
    if len(kept) < len(state.beginnings):
        note += (
            f"; of {len(state.beginnings):,} beginnings the {len(kept):,} most frequent were continued, as at most "
            f"{MOST_LOOKED_UP:,} are looked up: a smaller alphabet reaches more, and so do shorter steps"
        )
    # A text that ended earlier does not count as a continuation of the beginning that it equals.
    continued = {each.said.content[: state.length] for each in found if len(each.said.content) > state.length}
    leaves = [each for beginning, each in state.beginnings.items() if each is not None and beginning not in continued]
    return _SearchState(
        state.length if length is None else length,
        tuple(each for each in found if each.said.ended),
        {each.said.content: each for each in found if not each.said.ended},
        (*state.leaves, *leaves),
        (*state.notes, note),
    )


def _kept(state: _SearchState, alphabet: Alphabet, reach: int, unended: bool, most: int) -> list[bytes]:
    """Return the beginnings whose continuations are looked up: the most frequent, as many as the limit allows."""
    kept, total = [], 0
    for beginning in state.beginnings:
        total += alphabet.count(beginning, reach, unended)
        if total > most:
            break
        kept.append(beginning)
    if state.beginnings and not kept:
        raise ValueError(
            f"one beginning of {state.length} bytes has {total:,} continuations of {reach} bytes, and at most "
            f"{MOST_LOOKED_UP:,} are looked up; name the characters that texts are made of, or ask for shorter steps"
        )
    return kept


def _blocks(
    ended: Sequence[_FoundText], beginnings: Sequence[bytes], alphabet: Alphabet, reach: int, unended: bool
) -> Iterator[tuple[bytes, Sequence[bytes], bool]]:
    if ended:
        yield b"", [each.said.content for each in ended], True
    for beginning in beginnings:
        ends, further = alphabet.continuations(beginning, reach)
        if ends:
            yield beginning, ends, True
        if unended and further:
            yield beginning, further, False


def last_step(prefixes: Sequence[int]) -> int:
    """Return the most bytes by which a text may exceed the last beginning and still be found: the last step."""
    return prefixes[-1] - (prefixes[-2] if len(prefixes) > 1 else 0)


def steps_of(
    question: _OfPrefixes, randomizer: Randomizer, people: int, dummies: int, noise: ChainNoise | None = None
) -> tuple[PrefixStep, ...]:
    """Return the work to decode each round with so many people and dummies, and the counts that stand out of it.

    If the shufflers add noise, only its law matters, and not how many `dummies` that makes.
    """
    hit, miss = randomizer.variances(np.array([1.0, 0.0])).tolist()
    of_dummies = equal_dummies(randomizer, dummies, noise) * randomizer.dummy_variance(np.array([1.0, 0.0]))
    variance, moments = people * miss + of_dummies, None if noise is None else added_moments(randomizer, noise)
    bounded = (variance if moments is None else people * miss) * randomizer.support_gap**2
    alphabet, before, steps = every_character(), 0, []
    for number in range(len(question.prefixes) + 1 if question.prefixes else 0):
        length = question.length_in(number)
        reach = last_step(question.prefixes) if length is None else length - before
        each = alphabet.count(b"", reach, length is not None)
        # The first round continues only the empty beginning.
        fitting = min(MOST_LOOKED_UP // each, 1) if number == 0 else MOST_LOOKED_UP // each
        least = stands_out_from(bounded, max(each * fitting, 1), moments) / randomizer.support_gap
        found = _found_from(least, variance, hit - miss)
        steps.append(PrefixStep(number, length, each, fitting, least, found))
        before = length or before
    return tuple(steps)


def _found_from(least: float, variance: float, own: float) -> float:
    """Return the count x with x − 1.96·√(variance + own·x) = least."""
    half = Z_95**2 * own / 2
    return least + half + math.sqrt(max(0.0, half**2 + Z_95**2 * (variance + own * least)))
