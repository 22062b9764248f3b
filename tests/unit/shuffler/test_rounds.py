"""The life of a round."""

from __future__ import annotations

from unit.shuffler.world import MINIMUM, World

from hubbub.protos.messages import RoundState


async def test_round_at_its_minimum_is_released_whole_and_erased(world: World) -> None:
    await world.fill(MINIMUM)
    await world.cut()
    await world.over()
    assert world.state is RoundState.ERASED
    assert sorted(world.analyzer.symbols(0)) == sorted(i % 3 for i in range(MINIMUM))
    assert sorted(world.analyzer.symbols(1)) == sorted(i % 9 for i in range(MINIMUM))
    assert (await world.status()).submissions == MINIMUM


async def test_round_under_its_minimum_expires_and_nothing_is_sent(world: World) -> None:
    submissions = await world.fill(MINIMUM - 1)
    await world.cut()
    await world.over()
    assert world.state is RoundState.EXPIRED
    assert not {"begin", "put", "commit"} & set(world.analyzer.calls)
    assert (await world.status()).submissions == MINIMUM - 1
    assert not any(submission.id in world.bytes_on_disk() for submission in submissions)
