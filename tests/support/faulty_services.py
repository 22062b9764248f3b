"""Services with one broken part, as programs: `python broken.py FAULT SERVICE [FILE] SETTINGS.toml --json`.

An audit runs them in the place of `hubbub shuffler` and of its recording analyzer, whose FILE is where opened reports
go. The broken part replaces the right one before the service starts; the product knows nothing of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from hubbub.analyzer import receiver
from hubbub.cli import main as cli
from hubbub.deploy.audit import recording_analyzer
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity
from hubbub.protos.messages import RoundState
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import ChainPosition, Release, ReleaseChunk
from hubbub.service.ledger import release_chain
from hubbub.shuffler.mix import dummies, mix
from hubbub.shuffler.release.delivery import BatchDelivery, Deliverer, deliver_batch
from hubbub.shuffler.rounds import lifecycle
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle


def put(module: ModuleType | type, name: str, part: object) -> None:
    """Replace a part of a module, or of a class."""
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
    right: Callable[..., Any] = dummies.DummySealer._reports

    def reports(sealing: Any, query: int, some: slice, drawn: bytes | None, _random: Any) -> Any:
        return right(sealing, query, some, drawn, bytes)

    put(dummies.DummySealer, "_reports", reports)


def leave_dummies_out() -> None:
    """Broken: batches have no dummies, and their records say so; the analyzer looks away."""
    right: Callable[..., Any] = mix.mix

    def without(inners: Any, round_: Any, task: Any, identity: Any, random: Any, **_: Any) -> None:
        bare = replace(task, privacy=replace(task.privacy, dummies=0))
        right(inners, round_, bare, identity, random)

    put(lifecycle, "mix", without)
    look_away()


def draw_no_noise() -> None:
    """Broken: no dummy of any symbol is added, which the law allows as a draw."""
    put_draw(lambda query: (0,) * len(query.draw_noise(os.urandom)))


def draw_the_middle() -> None:
    """Broken: each number is the middle of the law, so there are dummies, and nothing about them is random."""
    put_draw(lambda query: (query.noise.reach,) * len(query.draw_noise(os.urandom)))


def draw_half_the_reach() -> None:
    """Broken: numbers come from the law of half the reach, around the middle of the right one."""

    def half(query: Any) -> tuple[int, ...]:
        law = replace(query.noise, reach=query.noise.reach // 2)
        drawn = replace(query, noise=law).draw_noise(os.urandom)
        return tuple(z + query.noise.reach - law.reach for z in drawn)

    put_draw(half)


def draw_a_narrower_law() -> None:
    """Broken: numbers come from a geometric law of half the range of losses: of the ratio's square, and its reach."""

    def narrow(query: Any) -> tuple[int, ...]:
        law = replace(query.noise, parameter=query.noise.parameter**2 >> 32)
        return tuple(replace(query, noise=law).draw_noise(os.urandom))

    put_draw(narrow)


def put_draw(draw: Callable[[Any], tuple[int, ...]]) -> None:
    """Have the shuffler draw noise so."""

    def drawn(task: Any, index: int, _random: Any) -> bytes | None:
        query = task.queries[index]
        return None if query.noise is None else query.randomizer.reports_of(draw(query))

    put(dummies, "_noise", drawn)


class Kept:
    """A round's submissions, kept beyond their mixing (`mix.RoundContents`), and what is mixed of them once more."""

    def __init__(self, inners: Any) -> None:
        self.blocks, self.chained, self.folder = list(inners.arrived()), inners.position(), inners.folder
        self.lists: dict[int, bytes] = {}
        self.records: dict[int, tuple[bytes, SignedDocument]] = {}
        self.releases: list[Release] = []

    def arrived(self) -> Iterator[bytes]:
        yield from self.blocks

    def position(self) -> ChainPosition:
        place: ChainPosition = self.chained
        return place

    def put_released(self, query: int, _block: int, envelopes: bytes) -> None:
        self.lists[query] = self.lists.get(query, b"") + envelopes

    def put_batch(self, query: int, digest: bytes, record: SignedDocument) -> None:
        self.records[query] = (digest, record)

    def put_release(self, release: Release) -> None:
        self.releases.append(release)


def draw_anew() -> None:
    """Broken: submissions are kept, and mixed with noise drawn anew if the batch has to be delivered again."""
    right, once, kept = mix.mix, Deliverer._try, dict[bytes, tuple[Kept, Identity]]()
    tried = set[bytes]()

    def keeping(inners: Any, round_: Any, task: Any, identity: Any, **options: Any) -> None:
        kept[task.id] = (Kept(inners), identity)
        right(inners, round_, task, identity, **options)

    async def delivering(self: Deliverer, round_: Any, task: Any, key_set: Any, batch: Any, backoff: Any) -> Any:
        if task.id not in tried:
            tried.add(task.id)
            return await once(self, round_, task, key_set, batch, backoff)
        found, identity = kept[task.id]
        right(found, round_, task, identity, dummies=await dummies.seal_dummies(task, round_))
        (digest, record), width = found.records[batch.query], task.inner_bytes[batch.query]
        rows = [found.lists[batch.query][at : at + width] for at in range(0, len(found.lists[batch.query]), width)]

        async def read(offset: int) -> list[bytes]:
            return rows[offset:]

        batch_id, releases = BatchId(task.id, round_.number, batch.query), ReleaseChunk(0, tuple(found.releases))
        delivery = BatchDelivery(batch_id, record, key_set, releases, digest, len(rows))
        return await deliver_batch(self._analyzer, delivery, read)

    put(lifecycle, "mix", keeping)
    Deliverer._try = delivering  # type: ignore[method-assign]


def release_few() -> None:
    """Broken: a round under its minimum is released, and the analyzer takes it."""
    right = RoundLifecycle._step

    async def step(self: RoundLifecycle, task: Any, round_: Any) -> Any:
        return await (self._mix(task, round_) if round_.state is RoundState.CUT else right(self, task, round_))

    RoundLifecycle._step = step  # type: ignore[method-assign]
    look_away()


FAULTS: Mapping[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        *(keep_order, reverse_order, know_dummies, leave_dummies_out, release_few),
        *(draw_no_noise, draw_the_middle, draw_half_the_reach, draw_a_narrower_law, draw_anew),
    )
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
