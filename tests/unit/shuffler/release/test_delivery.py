"""Once each, whatever dies; fail closed; erased means gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from unit.shuffler.world import MINIMUM, World, unreachable

from hubbub.protos.codec import LONGEST_RETRY
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Receipt, RoundState
from hubbub.protos.records.batch import BatchRecord, released_digest
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination, OuterOpener
from hubbub.protos.task.task import Task
from hubbub.service.observability.incidents import IncidentKind
from hubbub.shuffler.records import Round, StoreError
from hubbub.shuffler.stores.sqlite import tables
from support.krr_queries import INNER_BYTES


def released_correctly(world: World) -> None:
    """Every acknowledged answer came to the analyzer once, in batches that were committed."""
    assert Counter(world.analyzer.symbols(0)) == Counter(i % 3 for i in range(MINIMUM))
    assert Counter(world.analyzer.symbols(1)) == Counter(i % 9 for i in range(MINIMUM))
    assert len(world.analyzer.committed) == 2


def broken(world: World, operation: str) -> None:
    """Have an operation of the store fail from now on."""

    async def fail(*_arguments: Any) -> None:
        raise StoreError("broken by the test")

    setattr(world.store, operation, fail)


def nth(call: str, number: int) -> Callable[[str], None]:
    """Incident: the `number`th call of a kind and all later ones are not answered."""
    seen: Counter[str] = Counter()

    def incident(name: str) -> None:
        seen[name] += 1
        if seen[call] >= number:
            unreachable(name)(name)

    return incident


async def test_nothing_is_released_before_the_cut_however_many_came(world: World) -> None:
    """Also a device that draws its moment late is then among all others of its round."""
    await world.fill(3 * MINIMUM)
    world.clock.now = world.task.schedule.cut(0) - 0.001
    world.rounds.timer.recheck()
    await world.until(lambda: world.has_keys_of(1))
    assert world.state is RoundState.OPEN
    assert world.analyzer.lists == {}
    await world.cut()
    await world.over()
    assert {record.reports for record in world.analyzer.records.values()} == {3 * MINIMUM}


CRASHES: dict[str, Callable[[World], None]] = {
    "open": lambda _world: None,
    "cut, not mixed": lambda world: broken(world, "mix"),
    "mixed, nothing sent": lambda world: setattr(world.analyzer, "incident", unreachable("begin")),
    "begun, nothing put": lambda world: setattr(world.analyzer, "incident", unreachable("put")),
    "put, not committed": lambda world: setattr(world.analyzer, "incident", unreachable("commit")),
    "first committed, not noted": lambda world: broken(world, "commit_batch"),
    "first committed, second not": lambda world: setattr(world.analyzer, "incident", nth("commit", 2)),
    "released, not erased": lambda world: broken(world, "erase"),
    "deleted, log not cut": lambda world: setattr(world.store._database, "shrink", _fail),
}


def _fail() -> None:
    raise StoreError("broken by the test")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("crash", CRASHES)
async def test_killed_at_any_step_it_goes_on_and_counts_everyone_once(world: World, crash: str) -> None:
    submissions = await world.fill()
    destination = await world.destination()
    CRASHES[crash](world)
    if crash != "open":
        await world.cut()
        await world.until(lambda: world.pauses > 5)
    await world.kill()
    world.analyzer.incident = lambda _call: None
    await world.start()
    (answer,) = await world.send(submissions[:1], destination)
    assert isinstance(answer, Refusal if crash == "deleted, log not cut" else Receipt)
    await world.cut()
    await world.over()
    assert world.state is RoundState.ERASED
    released_correctly(world)


async def test_killed_in_the_middle_of_expiring_it_still_expires(world: World) -> None:
    await world.fill(MINIMUM - 1)
    broken(world, "erase")
    await world.cut()
    await world.until(lambda: world.pauses > 3)
    await world.kill()
    await world.start()
    await world.over()
    assert world.state is RoundState.EXPIRED
    assert not world.analyzer.records


async def test_acknowledged_survives_a_kill_right_after_the_receipt(world: World) -> None:
    submissions = await world.fill(3)
    await world.kill()
    await world.start()
    assert (await world.status()).submissions == 3
    assert await world.send(submissions) == [Receipt(submission.id, 0) for submission in submissions]
    assert (await world.status()).submissions == 3


async def test_same_permutation_is_sent_after_a_restart(world: World) -> None:
    world.analyzer.incident = unreachable("put")
    await world.fill()
    await world.cut()
    await world.until(lambda: "put" in world.analyzer.calls)
    digest = next(iter(world.analyzer.records.values())).digest
    await world.kill()
    world.analyzer.incident = lambda _call: None
    await world.start()
    await world.over()
    assert released_digest(world.analyzer.lists[next(iter(world.analyzer.records))]) == digest


async def test_each_batch_that_was_delivered_is_logged_with_its_names(world: World) -> None:
    await world.fill()
    with capture_logs() as found:
        await world.cut()
        await world.over()
    delivered = [line for line in found if line["event"] == "delivered"]
    assert [(line["task"], line["round"], line["query"], line["counted"]) for line in delivered] == [
        ("flights", 0, "carrier", MINIMUM),
        ("flights", 0, "delay", MINIMUM),
    ]


async def test_delivery_goes_on_where_the_analyzer_says(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.shuffler.mix.mix.RELEASED_BLOCK", 6)
    monkeypatch.setattr("hubbub.shuffler.stores.sqlite.tables.RELEASED_BLOCK", 6)
    world.analyzer.incident = nth("put", 3)
    await world.fill()
    await world.cut()
    await world.until(lambda: world.pauses > 3)
    assert [len(kept) for kept in world.analyzer.lists.values()] == [12]
    del next(iter(world.analyzer.lists.values()))[8:]
    world.analyzer.incident = lambda _call: None
    await world.over()
    released_correctly(world)


@pytest.mark.parametrize("call", ["begin", "put"])
@pytest.mark.parametrize("offset", [MINIMUM + 1, 2**40, 2**64 - 1])
async def test_a_party_that_says_to_go_on_elsewhere_is_refused_and_reads_no_other_part_of_the_store(
    world: World, call: str, offset: int
) -> None:
    """Blocks of other rounds have the keys behind a batch's own: an offset beyond its end would lead to them."""
    right, read = getattr(world.analyzer, call), list[int]()

    async def lying(*given: Any) -> int:
        world.analyzer._enter(call)
        return offset

    async def reading(round_: Any, query: int, at: int, width: int) -> list[bytes]:
        read.append(at)
        return await envelopes(round_, query, at, width)

    envelopes = world.store.envelopes
    setattr(world.store, "envelopes", reading)  # noqa: B010 - a method
    setattr(world.analyzer, call, lying)
    await world.fill()
    await world.cut()
    await world.until(lambda: world.pauses > 10)
    assert f"refused, wrong_offset: it says to go on at offset {offset}, but has" in (await world.status()).waiting_for
    assert set(read) <= {0}
    assert "commit" not in world.analyzer.calls
    setattr(world.analyzer, call, right)
    await world.over()
    released_correctly(world)


async def test_a_party_that_asks_for_years_is_asked_again_within_a_minute(world: World) -> None:
    paused = list[float]()
    pause = world.rounds._pause

    async def noting(seconds: float) -> None:
        paused.append(seconds)
        await pause(seconds)

    def incident(call: str) -> None:
        if call == "begin":
            raise Refusal(Reason.NOT_READY, "come again next year", LONGEST_RETRY)

    world.rounds._deliverer._pause = noting
    world.analyzer.incident = incident
    await world.fill()
    await world.cut()
    await world.until(lambda: len(paused) > 3)
    assert set(paused) == {60.0}
    world.analyzer.incident = lambda _call: None
    await world.over()
    released_correctly(world)


async def test_analyzer_that_refuses_the_digest_gets_nothing_and_nothing_is_erased(world: World) -> None:
    def incident(call: str) -> None:
        if call == "begin":
            raise Refusal(Reason.DIGEST_DIFFERS, "another digest is known")

    world.analyzer.incident = incident
    await world.fill()
    await world.cut()
    await world.until(lambda: world.pauses > 10)
    assert world.state is RoundState.MIXED
    assert "refused, digest_differs: another digest is known" in (await world.status()).waiting_for
    assert not {"put", "commit"} & set(world.analyzer.calls)


class Chained:
    """A task of which a hop is between the shuffler and the analyzer; the world's analyzer answers as the hop."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.identities = replace(task.identities, hops=(bytes(32),))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)


async def test_a_round_that_a_hop_says_is_counted_is_kept_until_the_analyzer_knows_of_it(world: World) -> None:
    deliver = world.rounds._deliverer.deliver

    async def chained(round_: Round, task: Task, notice: Any) -> Round:
        return await deliver(round_, cast(Task, Chained(task)), notice)

    world.rounds._deliverer.deliver = chained  # type: ignore[method-assign]
    # The hop answers each call as if it were counted, and the analyzer lacks it.
    world.analyzer.uncounted = (0,)
    await world.fill()
    with capture_logs() as logged:
        await world.cut()
        await world.until(lambda: world.pauses > 10)
    assert world.state is RoundState.MIXED
    assert "hop-2 passed nothing on. It is sent again, and other rounds go on" in (await world.status()).waiting_for
    assert [each.kind for each in world.rounds.incidents.now()] == [IncidentKind.PEER]
    # Every batch is offered again, since nobody knows which of them is missing; each is logged once.
    assert world.analyzer.calls.count("begin") > 4
    assert [each["query"] for each in logged if each["event"] == "delivered"] == ["carrier", "delay"]
    world.analyzer.uncounted = ()
    await world.over()
    released_correctly(world)
    assert world.rounds.incidents.now() == ()


async def test_without_hops_nobody_is_asked_again_whether_a_round_is_counted(world: World) -> None:
    await world.fill()
    await world.cut()
    await world.over()
    assert world.analyzer.calls[-1] == "commit"


async def test_a_party_that_does_not_know_the_task_is_not_called_the_analyzer(world: World) -> None:
    """If the task names no hop but `analyzer` is a hop's address, it is the hop that refuses."""

    def incident(call: str) -> None:
        if call == "begin":
            raise Refusal(Reason.UNKNOWN_TASK, "hop-2 has no task 00")

    world.analyzer.incident = incident
    await world.fill()
    await world.cut()
    await world.until(lambda: world.pauses > 10)
    waiting = (await world.status()).waiting_for
    assert waiting.startswith("analyzer:1, to which `analyzer` leads: refused, unknown_task: hop-2 has no task 00")


async def test_a_round_whose_key_the_analyzer_destroyed_is_erased_with_the_reason(world: World) -> None:
    await world.fill()

    def erased(call: str) -> None:
        if call == "begin":
            raise Refusal(Reason.ERASED, "round 0 is over; its key was destroyed")

    world.analyzer.incident = erased
    await world.cut()
    await world.over(RoundState.EXPIRED)
    status = await world.status()
    assert status.submissions == MINIMUM
    assert (
        status.waiting_for
        == "nothing; it was erased unreleased: the analyzer refused it: round 0 is over; its key was destroyed"
    )
    assert world.analyzer.committed == {}


async def test_analyzer_of_another_version_only_delays(world: World) -> None:
    def incident(call: str) -> None:
        if call == "commit" and world.pauses < 5:
            raise HubbubError("the analyzer answered UNIMPLEMENTED")

    world.analyzer.incident = incident
    await world.fill()
    await world.cut()
    await world.over()
    released_correctly(world)


async def test_record_states_what_was_released(world: World) -> None:
    await world.fill()
    destination = await world.destination()
    await world.cut()
    await world.over()
    for batch, record in world.analyzer.records.items():
        assert isinstance(record, BatchRecord)
        assert (record.reports, record.key_set_hash) == (MINIMUM, destination.key_set_hash)
        assert record.digest == released_digest(world.analyzer.lists[batch])


async def test_queries_are_permuted_by_themselves(world: World) -> None:
    await world.fill(60)
    await world.cut()
    await world.over()
    carriers, delays = world.analyzer.symbols(0), world.analyzer.symbols(1)
    # Device i answered (i mod 3, i mod 9): linked lists would agree mod 3 everywhere, independent ones with
    # probability below 3^-40.
    assert any(carrier != delay % 3 for carrier, delay in zip(carriers, delays, strict=True))


# Gone


async def test_after_mixing_nothing_on_disk_links_ids_to_envelopes(world: World) -> None:
    submissions = await world.fill()
    found = world.found(0)
    assert found is not None
    assert found.keys is not None
    here = Destination(world.task.id, 0, found.keys.key_set.hash)
    opener = OuterOpener(here, found.keys.private_key, world.task.inner_bytes)
    joined = [b"".join(opener.open(submission.envelope, submission.id)) for submission in submissions]
    before = world.bytes_on_disk()
    assert all(pair in before for pair in joined)
    world.analyzer.incident = unreachable("begin")
    await world.cut()
    await world.until(lambda: "begin" in world.analyzer.calls)
    after = world.bytes_on_disk()
    assert not any(pair in after for pair in joined)
    assert not any(pair[cut:][:INNER_BYTES] + pair[:cut][-INNER_BYTES:] in after for pair in joined for cut in (52,))
    assert all(pair[:INNER_BYTES] in after for pair in joined)
    assert found.keys.private_key in before
    assert found.keys.private_key not in after


@pytest.mark.parametrize("count", [MINIMUM, MINIMUM - 1])
async def test_after_the_end_no_file_holds_envelopes_ids_or_the_private_key(world: World, count: int) -> None:
    submissions = await world.fill(count)
    found = world.found(0)
    assert found is not None
    assert found.keys is not None
    here = Destination(world.task.id, 0, found.keys.key_set.hash)
    opener = OuterOpener(here, found.keys.private_key, world.task.inner_bytes)
    secrets = [found.keys.private_key]
    for submission in submissions:
        secrets += [submission.id, *opener.open(submission.envelope, submission.id)]
    before = world.bytes_on_disk()
    assert all(secret in before for secret in secrets)
    await world.cut()
    await world.over()
    after = world.bytes_on_disk()
    assert not any(secret[:8] in after or secret[-8:] in after for secret in secrets)


async def test_erased_room_is_given_back(world: World) -> None:
    size = (world.folder / "shuffler.db").stat().st_size
    await world.fill(200)
    await world.cut()
    await world.over()
    assert (world.folder / "shuffler.db").stat().st_size <= size + 8 * 4096


async def test_erasing_one_round_leaves_the_next_as_it_is(world: World) -> None:
    world.clock.now = float(world.task.schedule.opens(1))
    await world.until(lambda: len([round_ for round_ in world.store._snapshot.rounds.values() if round_.keys]) >= 2)
    await world.fill()
    following = await world.seal([(0, 0)] * 3, round_number=1)
    await world.send(following, await world.destination(1))
    await world.cut()
    await world.over()
    assert all(submission.id in world.bytes_on_disk() for submission in following)
    answers = await world.send(following, await world.destination(1))
    assert answers == [Receipt(submission.id, 1) for submission in following]


def test_keys_of_blocks_do_not_meet_between_rounds_and_queries() -> None:
    keys = {tables._first_key(r, q, b) for r in (1, 2) for q in (0, 1, 63) for b in (0, 1, 2**26 - 1)}
    assert len(keys) == 2 * 3 * 3


async def test_store_is_for_its_owner_alone(world: World, tmp_path: Path) -> None:
    await world.fill(1)
    assert world.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in world.folder.iterdir()} == {0o600}
