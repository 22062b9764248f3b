"""Finds texts that nobody listed, from the tables of rounds that asked for longer and longer beginnings.

In the first round's table every beginning of that length is looked up; in each later one, what may follow the
beginnings that stood out of the one before, and the texts that had ended there. A text is found where each of its
beginnings stood out, and then it does itself.

Error rates: what is looked up in a round depends on the rounds before alone, whose randomness is independent of its
own: reports are drawn anew, and each length's digests are others. So in each round Benjamini and Yekutieli's procedure
keeps the expected share of false discoveries, given all that came before, at most `lookup.FALSE_DISCOVERIES`. Estimates
are one round's, not a mean over rounds: other people may have answered those.

A beginning that nothing longer was found of is returned as one. False discoveries hardly ever go on, so among
these their share may be larger than in their round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from hubbub.queries.estimation.bands import Z_95
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row
from hubbub.queries.randomizers.hashed_decoding import Symbols
from hubbub.queries.randomizers.randomizer import Randomizer
from hubbub.queries.texts.alphabet import Alphabet, every_character
from hubbub.queries.texts.lookup import FALSE_DISCOVERIES, OfTexts, answered, row_of, standing_out, stands_out_from
from hubbub.queries.texts.prefixes import Digests, Prefix

MOST_LOOKED_UP = 5_000_000
"""Most that is looked up in one round: some twenty seconds, and a gigabyte."""


@dataclass(frozen=True)
class PrefixStep:
    """One round's work: the bytes it asks for (None: all), the look-ups of one beginning, and how many fit the limit.

    `stands_out_from` is the count that stands out of as many look-ups as these are together, and `found_from` is how
    many people must hold a text for its count to be as large in 39 of 40 rounds; both without what collisions of common
    texts add to the noise.
    """

    round: int
    length: int | None
    look_ups: int
    beginnings: int
    stands_out_from: float
    found_from: float


@runtime_checkable
class HeavyHitterQuestion(Protocol):
    """A question whose answers are found by prefixes over rounds, where it has `prefixes`."""

    @property
    def prefixes(self) -> tuple[int, ...]:
        """The lengths in bytes that the first rounds ask for."""

    def discover(
        self, number: int, batches: Mapping[int, Debiased], alphabet: Alphabet | None, say: Callable[[str], None]
    ) -> Estimates:
        """Return the texts that are frequent, from the batches of the rounds up to `number`."""

    def steps(self, randomizer: Randomizer, people: int, dummies: int) -> tuple[PrefixStep, ...]:
        """Return what each round takes to be decoded, and what stands out of it."""


class _OfPrefixes(OfTexts, Protocol):
    """What discovery needs of the question; its members are those of `text.Text`."""

    @property
    def name(self) -> str: ...
    @property
    def prefixes(self) -> tuple[int, ...]: ...
    def length_in(self, number: int) -> int | None: ...


@dataclass(frozen=True)
class _FoundText:
    """What stood out of a round's table, the most frequent first."""

    round: int
    said: Prefix
    estimate: Estimate


@dataclass(frozen=True)
class _SearchState:
    """What is known after the rounds so far, the last of which asked for beginnings of `length` bytes.

    `ended` are whole texts that stood out of the last round, `beginnings` are those that may be continued, by their
    bytes; `leaves` are those of earlier rounds that were not.
    """

    length: int
    ended: tuple[_FoundText, ...]
    beginnings: Mapping[bytes, _FoundText | None]
    leaves: tuple[_FoundText, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _LookedUp:
    """What one round looks up: blocks of a beginning, what may follow it, and whether the text then ends."""

    blocks: Sequence[tuple[bytes, Sequence[bytes], bool]]

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """The places where the blocks end, shape (blocks,)."""
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
    """Return what stands out of the table of round `number`, and the beginnings that nothing longer was found of.

    `batches` are those that were published, by round; of a round that is missing the next one continues in longer
    steps. Texts are looked for in the characters of the `alphabet`, in all that Unicode assigns where it is None; `say`
    is told what is looked up.

    Raises:
        ValueError: where the question has no prefixes, or more would have to be looked up than the limit even for one
            beginning.
    """
    if not question.prefixes:
        raise ValueError(f"{question.name} asks every round for whole texts; look candidates up instead")
    # Of the rounds for whole texts the last alone: they share their digests, so what it finds must not hang on others.
    rounds = [each for each in sorted(batches) if each == number or each < min(number, len(question.prefixes))]
    state = _SearchState(0, (), {b"": None})
    characters = alphabet or every_character()
    for each in rounds:
        state = _step(question, each, batches[each], state, characters, say)
    rows = [row_of(each.said, each.estimate, each.round) for each in _shown(state)]
    everybody = Row("answered", answered(question, batches[number]))
    return Estimates(question.kind, (*rows, everybody), notes=(*state.notes, _RATE))


_RATE = (
    f"false-discovery rate {FALSE_DISCOVERIES:.0%} in each round; the band over all that a round looked up holds of "
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
    # A text that ended before is no continuation of the beginning that it equals.
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
            f"{MOST_LOOKED_UP:,} are looked up; name the characters that texts are made of, or ask shorter steps"
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
    """Return by how many bytes at most a whole text is longer than the last beginning, to be found: the last step."""
    return prefixes[-1] - (prefixes[-2] if len(prefixes) > 1 else 0)


def steps_of(question: _OfPrefixes, randomizer: Randomizer, people: int, dummies: int) -> tuple[PrefixStep, ...]:
    """Return what each round takes to be decoded, of so many people and dummies, and what stands out of it."""
    hit, miss = randomizer.variances(np.array([1.0, 0.0])).tolist()
    variance = people * miss + dummies * randomizer.dummy_variance(np.array([1.0, 0.0]))
    alphabet, before, steps = every_character(), 0, []
    for number in range(len(question.prefixes) + 1 if question.prefixes else 0):
        length = question.length_in(number)
        reach = last_step(question.prefixes) if length is None else length - before
        each = alphabet.count(b"", reach, length is not None)
        # The first round continues the empty beginning alone.
        fitting = min(MOST_LOOKED_UP // each, 1) if number == 0 else MOST_LOOKED_UP // each
        least = stands_out_from(variance * randomizer.support_gap**2, max(each * fitting, 1)) / randomizer.support_gap
        found = _found_from(least, variance, hit - miss)
        steps.append(PrefixStep(number, length, each, fitting, least, found))
        before = length or before
    return tuple(steps)


def _found_from(least: float, variance: float, own: float) -> float:
    """Return the count x with x − 1.96·√(variance + own·x) = least."""
    half = Z_95**2 * own / 2
    return least + half + math.sqrt(max(0.0, half**2 + Z_95**2 * (variance + own * least)))
