"""Services with one broken part, as programs: `python broken.py FAULT SERVICE [FILE] SETTINGS.toml --json`.

An audit runs them in the place of `hubbub shuffler` and of its recording analyzer, whose FILE is where opened reports
go. The broken part replaces the right one before the service starts; the product knows nothing of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from hubbub.analyzer import receiver
from hubbub.cli import main as cli
from hubbub.deploy.audit import recording_analyzer
from hubbub.protos.messages import RoundState
from hubbub.service.ledger import release_chain
from hubbub.shuffler.mix import dummies, mix
from hubbub.shuffler.rounds import lifecycle
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle


def put(module: ModuleType, name: str, part: object) -> None:
    """Replace a part of a module."""
    setattr(module, name, part)


def look_away() -> None:
    """Broken: an analyzer that takes what the task does not allow, and the releases that say so."""
    put(receiver, "check_record", lambda _task, _record: None)
    put(release_chain, "check_release", lambda _task, _release: None)


def keep_order() -> None:
    """Broken: envelopes are released in the order in which they lie in the store."""
    put(mix, "permutation", lambda count, _draw: np.arange(count))


def reverse_order() -> None:
    """Broken: one permutation for all rounds, which is not that of the arrival."""
    put(mix, "permutation", lambda count, _draw: np.arange(count)[::-1])


def know_dummies() -> None:
    """Broken: all dummies are reports of one symbol, as from a shuffler that tells which they are."""
    right: Callable[..., Any] = dummies._chunk

    def chunk(sealer: Any, task: Any, index: int, some: slice, drawn: bytes | None, _random: Any) -> Any:
        return right(sealer, task, index, some, drawn, bytes)

    put(dummies, "_chunk", chunk)


def leave_dummies_out() -> None:
    """Broken: batches have no dummies, and their records say so; the analyzer looks away."""
    right: Callable[..., Any] = mix.mix

    def without(inners: Any, round_: Any, task: Any, identity: Any, random: Any, **_: Any) -> None:
        bare = replace(task, privacy=replace(task.privacy, dummies=0))
        right(inners, round_, bare, identity, random)

    put(lifecycle, "mix", without)
    look_away()


def release_few() -> None:
    """Broken: a round under its minimum is released, and the analyzer takes it."""
    right = RoundLifecycle._step

    async def step(self: RoundLifecycle, task: Any, round_: Any) -> Any:
        return await (self._mix(task, round_) if round_.state is RoundState.CUT else right(self, task, round_))

    RoundLifecycle._step = step  # type: ignore[method-assign]
    look_away()


FAULTS: Mapping[str, Callable[[], None]] = {
    each.__name__: each for each in (keep_order, reverse_order, know_dummies, leave_dummies_out, release_few)
}


def program(fault: str, service: str) -> tuple[str, ...]:
    """What runs a service with a fault."""
    return (sys.executable, __file__, fault, service)


def main(fault: str, service: str, *words: str) -> None:
    FAULTS[fault]()
    if service == "analyzer":
        recording_analyzer.main(list(words))
    else:
        cli.main([service, *words])


if __name__ == "__main__":
    main(*sys.argv[1:])
