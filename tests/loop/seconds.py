"""Asks the accountant every question of every mechanism, and prints the seconds of the processor that each took.

    python tests/loop/seconds.py [--seed S] [--minutes M] [--limit SECONDS] [--worst N] [--kind KIND] [--json FILE]

Questions are drawn from a grid of mechanisms, reports, local ε, rounds, δ, dummies and noise, and from what commands
calibrate, plot and simulate. Each is asked as a new process would be: nothing is cached. A question that takes more
than the limit is listed, and the status is then 1.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import FrameType
from typing import cast

from hubbub.accountant import assess, compose, compose_delta, delta_bracket, epsilon_bracket, rdp_lower, rdp_upper
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import (
    KRR,
    RAPPOR,
    AnyMechanism,
    Common,
    Finite,
    Gaussian,
    Generic,
    Hashed,
    Laplace,
    LocalMechanism,
    TreeNodes,
    WithNoise,
)
from hubbub.accountant.mechanisms import Sequence as SequenceLaw
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.pairs import Part
from hubbub.queries.errors import TaskError

sys.path.append(str(Path(__file__).parents[1]))

from loop.command_seconds import COMMANDS, Timed

REPORTS = (1, 2, 3, 10, 128, 10**3, 10**5, 10**7)
LOCAL, ROUNDS = (1e-3, 0.03, 0.5, 1.0, 4.0, 8.0, 18.0), (1, 2, 16, 365, 1000, 10**4)
DELTAS, DUMMIES = (1e-6, 1e-6, 1e-12, 1e-30, 0.01), (0, 0, 0, 1, 1000)
"""What questions are drawn from; what is likelier is there several times."""

MOST = 60.0
"""Seconds of the processor after which a question is given up."""


class TooLong(BaseException):
    """A question took more than `MOST`; no handler of the accountant catches it."""


def _numerator(chance: Fraction) -> int:
    return min(2**32 - 1, max(1, round(chance * 2**32)))


def _tiny(local: float) -> Finite:
    """A law of two inputs with outputs of probability 1e-12, of about this local ε."""
    tiny, ratio = Fraction(1, 10**12), Fraction(math.exp(local)).limit_denominator(10**6)
    high = (1 - 4 * tiny) * ratio / (1 + ratio)
    low = 1 - 4 * tiny - high
    return Finite(((high, low, 3 * tiny, tiny), (low, high, tiny, 3 * tiny)))


def _wide(local: float) -> Finite:
    """A law of eight inputs and sixteen outputs, of at most this local ε."""
    draw, ratio = random.Random(7), Fraction(math.exp(local)).limit_denominator(10**6)
    rows = []
    for _ in range(8):
        weights = [1 + (ratio - 1) * draw.randint(0, 8) / 8 for _ in range(16)]
        total = sum(weights)
        rows.append(tuple(each / total for each in weights))
    return Finite(tuple(rows))


def _three(local: float) -> Finite:
    ratio = Fraction(math.exp(local)).limit_denominator(10**6)
    total = ratio + 2
    return Finite(((ratio / total, 1 / total, 1 / total), (1 / total, ratio / total, 1 / total)))


def _tree(local: float) -> TreeNodes:
    return TreeNodes(64, 4, _numerator(Fraction(1 / (1 + math.expm1(local) / 8))), 2**28)


def _noisy(randomizer: KRR | Hashed) -> WithNoise:
    return WithNoise(randomizer, NoiseLaw.of("geometric", Fraction(9, 10), 200))


KINDS: Mapping[str, Callable[[float], AnyMechanism]] = {
    "krr-2": partial(KRR.from_local_epsilon, 2),
    "krr-3": partial(KRR.from_local_epsilon, 3),
    "krr-16": partial(KRR.from_local_epsilon, 16),
    "hashed": partial(Hashed.from_local_epsilon, 1024, 1),
    "rappor-2": lambda local: RAPPOR.from_local_epsilon(2, local, Fraction(1, 2)),
    "rappor-32": lambda local: RAPPOR.from_local_epsilon(32, local, Fraction(1, 2)),
    "generic": Generic,
    "common": Common,
    "laplace": Laplace,
    "gaussian": lambda local: Gaussian(2 / local),
    "finite": _three,
    "finite-wide": _wide,
    "finite-tiny": _tiny,
    "tree": _tree,
    "signs": lambda local: SequenceLaw(local, local / 2, 1000),
    "noise-krr-2": lambda local: _noisy(KRR.from_local_epsilon(2, local)),
    "noise-krr-16": lambda local: _noisy(KRR.from_local_epsilon(16, local)),
    "noise-hashed": lambda local: _noisy(Hashed.from_local_epsilon(1024, 1, local)),
}
"""A mechanism of each kind, by its local ε."""


@dataclass(frozen=True)
class Asked:
    """A question."""

    kind: str
    what: str
    local: float
    reports: int
    rounds: int
    dummies: int
    delta: float
    rate: Fraction | None = None

    def ask(self) -> object:
        """Return its answer."""
        mechanism, order = KINDS[self.kind](self.local), 8.0
        rows: Mapping[str, Callable[[], object]] = {
            "epsilon": lambda: epsilon_bracket(mechanism, self.reports, self.delta, dummies=self.dummies),
            "delta": lambda: delta_bracket(mechanism, self.reports, self._epsilon, dummies=self.dummies),
            "compose": lambda: compose([self._part(mechanism)], self.delta),
            "compose-delta": lambda: compose_delta([self._part(mechanism)], self._epsilon * math.sqrt(self.rounds)),
            "bounds": lambda: assess(
                mechanism, self.reports, self.delta, dummies=self.dummies, rounds=self.rounds, order=order
            ),
            "rdp": lambda: (
                rdp_upper(mechanism, self.reports, order, dummies=self.dummies),
                rdp_lower(mechanism, self.reports, order, dummies=self.dummies),
            ),
        }
        return rows[self.what]()

    @property
    def _epsilon(self) -> float:
        """An ε that is about what shuffling leaves."""
        return min(self.local * 0.9, 10 * math.expm1(self.local / 2) / math.sqrt(self.reports))

    def _part(self, mechanism: AnyMechanism) -> Part:
        # Of noise without a local ε a part is refused, as people are told.
        return Part(cast(LocalMechanism, mechanism), self.reports, self.rounds, self.dummies, sampling_rate=self.rate)


WHAT = ("epsilon", "delta", "compose", "compose", "compose", "compose-delta", "bounds", "rdp")
"""What is asked; to compose takes longest, so it is asked most."""


def questions(seed: int, kinds: Sequence[str], what: Sequence[str], commands: Sequence[str] = ()) -> Iterator[Timed]:
    """Draw questions for ever, each kind and each command as often; of mechanisms none if nothing is asked of them."""
    draw = random.Random(seed)
    while True:
        yield from (COMMANDS[command](draw) for command in commands)
        for kind in kinds if what else ():
            rate = Fraction(draw.randint(1, 9), 10) if draw.random() < 0.1 and kind.startswith("krr") else None
            yield Asked(
                kind, draw.choice(what), draw.choice(LOCAL), draw.choice(REPORTS), draw.choice(ROUNDS),
                0 if rate else draw.choice(DUMMIES), draw.choice(DELTAS), rate,
            )  # fmt: skip


def forget() -> None:
    """Empty every cache of the accountant, as a new process has none."""
    for name, module in list(sys.modules.items()):
        if name.startswith("hubbub"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


@contextmanager
def _given_up() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def seconds_of(asked: Timed) -> tuple[float, str]:
    """Return the seconds that a question took, and the name of what was raised, if anything."""
    forget()
    started, said = time.process_time(), ""
    try:
        with _given_up():
            asked.ask()
    except (AccountingError, TaskError) as error:
        said = type(error).__name__
    except TooLong:
        said = "given up"
    except Exception as error:
        said = f"FAULT {error!r}"
    return time.process_time() - started, said


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it from the command line."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--seed", type=int, default=0, help="of the draws")
    options.add_argument("--minutes", type=float, default=10.0, help="stop after so many")
    options.add_argument("--limit", type=float, default=1.0, help="seconds of the processor for a question")
    options.add_argument("--worst", type=int, default=10, help="how many of the longest are listed")
    options.add_argument("--kind", choices=list(KINDS), action="append", help="ask this kind alone")
    choices = sorted({*WHAT, *COMMANDS})
    options.add_argument("--what", choices=choices, action="append", help="ask this alone")
    options.add_argument("--json", type=Path, help="write every question to this file, a line each")
    given = options.parse_args(arguments)
    end, found = time.monotonic() + 60 * given.minutes, []
    asked_for = given.what or (WHAT if given.kind else [*WHAT, *COMMANDS])
    commands, what = ([each for each in asked_for if (each in COMMANDS) is named] for named in (True, False))
    for asked in questions(given.seed, given.kind or list(KINDS), what, commands):
        seconds, said = seconds_of(asked)
        found.append((seconds, said, asked))
        if given.json:
            with given.json.open("a") as file:
                file.write(json.dumps([round(seconds, 3), said, repr(asked)]) + "\n")
        if time.monotonic() >= end:
            break
    found.sort(key=lambda each: -each[0])
    faults = [each for each in found if each[1].startswith("FAULT")]
    late = sum(each[0] > given.limit for each in found)
    print(f"{len(found)} questions, {late} over {given.limit:g} s, {len(faults)} faults")
    for seconds, said, asked in [*faults, *found[: given.worst]]:
        print(f"{seconds:7.2f} s  {asked} {said}")
    return 1 if late or faults else 0


if __name__ == "__main__":
    sys.exit(main())
