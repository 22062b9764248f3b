"""Whoever has a shuffler's certificate and lies, as the leader or as a standby: nothing is lost, and it is named."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from unit.shuffler.stores.postgres.replication.test_replication import Party, address, parties, patient, until

from hubbub.protos.cluster import FollowerPosition, KeyringChanges, KeyringRow
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ReplicationCaller
from hubbub.protos.transport.channels import open_channel
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import Incidents
from hubbub.service.rpc import serve_replication
from hubbub.service.transport.grpc_server import listen
from hubbub.shuffler.cluster.failover import LEADERS
from hubbub.shuffler.records import RedeemedTicket
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.postgres.replication.changes import checked
from hubbub.shuffler.stores.postgres.replication.follower import MOST_ROWS, Follower, check_follows
from hubbub.shuffler.stores.postgres.replication.replication import MOST_COPIES
from support.ended_with_test import opened_server
from support.messages import NEEDS_ROLE
from support.patience import CALL_SECONDS, pause
from support.samples import make_tls

__all__ = ["address", "parties"]

TASK = bytes(range(32))
STREAM, OTHER, KEYRING = b"s" * 16, b"o" * 16, b"k" * 16
ROW = KeyringRow("revoked", (bytes(16),))

HAS = FollowerPosition(b"c" * 16, STREAM, 7)
FETCHES = replace(HAS, offset=2)

LIES: dict[str, tuple[FollowerPosition, KeyringChanges]] = {
    "changes without a copy before": (FollowerPosition(b"c" * 16), KeyringChanges(STREAM, 7)),
    "another stream's changes": (HAS, KeyringChanges(OTHER, 8, (ROW,))),
    "older changes": (HAS, KeyringChanges(STREAM, 6, (ROW,))),
    "the same changes again": (HAS, KeyringChanges(STREAM, 7, (ROW,))),
    "a position without its changes": (HAS, KeyringChanges(STREAM, 9)),
    "changes in the middle of a copy": (FETCHES, KeyringChanges(STREAM, 8, (ROW,))),
    "a copy that never ends": (FollowerPosition(b"c" * 16), KeyringChanges(STREAM, 7, (ROW,), KEYRING, MOST_ROWS + 1)),
    "a copy whose next part is empty": (FETCHES, KeyringChanges(STREAM, 7, (), KEYRING, 5)),
    "a copy with more rows than it has": (FETCHES, KeyringChanges(STREAM, 7, (ROW, ROW, ROW), KEYRING, 4)),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_no_leader_gives_is_refused_by_name(lie: str) -> None:
    with pytest.raises(StoreError, match=r"do not follow what this copy has|does not come to an end"):
        check_follows(*LIES[lie])


def test_what_a_leader_answers_is_taken() -> None:
    for asked, told in (
        (HAS, KeyringChanges(STREAM, 7)),
        (HAS, KeyringChanges(STREAM, 9, (ROW,))),
        (HAS, KeyringChanges(OTHER, 3, (ROW,), KEYRING, 4)),
        (FETCHES, KeyringChanges(STREAM, 7, (ROW, ROW), KEYRING, 4)),
        (FETCHES, KeyringChanges(STREAM, 8, (ROW,), KEYRING, 4)),
        (FollowerPosition(b"c" * 16), KeyringChanges(STREAM, 0, (), KEYRING, 0)),
    ):
        check_follows(asked, told)


@pytest.mark.parametrize(
    "row",
    [
        KeyringRow("revoked", ("text",)),
        KeyringRow("revoked", (None,)),
        KeyringRow("ticket", (b"d", b"r", b"n", None)),
        KeyringRow("master", (1, b"s", b"active", 0)),
        KeyringRow("secret", (b"t", b"0", None, None, None)),
        KeyringRow("secret", (b"t", 0, 7, None, None)),
    ],
)
def test_values_of_other_types_are_refused_before_anything_is_written(row: KeyringRow) -> None:
    with pytest.raises(StoreError, match="does not know"):
        checked(row)


class Liar:
    """Answers what it is given, in turn, and then nothing more."""

    def __init__(self, answers: Sequence[KeyringChanges]) -> None:
        self._answers = iter(answers)
        self.asked: list[FollowerPosition] = []

    async def follow(self, asked: FollowerPosition) -> KeyringChanges:
        self.asked.append(asked)
        told = next(self._answers, None)
        if told is None:
            raise Refusal(Reason.NOT_READY, "no more")
        return told


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[tuple[Callable[..., object], dict[str, object]]]:
    """Serve a liar on a port, with the certificate of a role of an authority."""
    tls = make_tls(tmp_path / "tls", "shuffler", "frontend")
    strangers = make_tls(tmp_path / "strangers", "shuffler")
    async with opened_server() as server:

        async def served(liar: Liar, *, stranger: bool = False) -> str:
            serve_replication(server, liar, LEADERS)
            credentials = (strangers if stranger else tls)["shuffler"].server(mutual=True)
            port = listen(server, "127.0.0.1:0", credentials)
            await server.start()
            return f"127.0.0.1:{port}"

        yield served, dict(tls)


async def text_of(incidents: Incidents) -> str:
    while not incidents.now():
        await pause()
    return incidents.now()[0].text


@contextlib.asynccontextmanager
async def followed(party: Party, port: str, tls: object) -> AsyncIterator[tuple[ShufflerKeyring, Incidents]]:
    """A standby's keyring while it follows whoever is at a port."""
    incidents = Incidents()
    with contextlib.closing(ShufflerKeyring(party.folder)) as keyring:
        task = asyncio.create_task(Follower(keyring, [port], tls, incidents).run())  # type: ignore[arg-type]
        try:
            yield keyring, incidents
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_liar_at_the_leaders_port_wipes_no_standby(
    parties: tuple[Party, Party],
    serve: tuple[Callable[..., object], dict[str, object]],
) -> None:
    """It has the right certificate, and says that the whole keyring is empty, is another one, or that all is there."""
    one, other = parties
    leader = one.act(needed=1)
    async with other.following():
        await until(lambda: leader.add_round(TASK, 0))
        with patient():
            await leader.revoke([b"\4" * 32])
    before = sorted(path.name for path in other.folder.iterdir() if path.suffix == ".db")
    _, tls = serve
    for answers, says in (
        ([KeyringChanges(STREAM, 0, (), OTHER, 0)], "another one than"),
        ([KeyringChanges(STREAM, 5)], "do not follow"),
        ([KeyringChanges(STREAM, 5, (ROW,), OTHER, 2), KeyringChanges(STREAM, 5, (), OTHER, 2)], "come to an end"),
    ):
        liar = Liar(answers)
        async with opened_server() as server:
            serve_replication(server, liar, LEADERS)
            port = listen(server, "127.0.0.1:0", tls["shuffler"].server(mutual=True))  # type: ignore[attr-defined]
            await server.start()
            async with followed(other, f"127.0.0.1:{port}", tls["shuffler"]) as (keyring, incidents):
                assert says in await text_of(incidents)
                assert keyring.rounds == [(TASK, 0)]
                assert keyring.of((TASK, 0)).cipher is not None
        assert liar.asked[0].position == 0
    assert before == ["keyring.db"]
    one.end()
    # All is still there: it takes over with the round and the revoked device.
    new = other.act()
    assert ([each.number for each in await new.rounds()], (await new.revoked()).devices) == ([0], {b"\4" * 32})


async def test_a_strangers_certificate_at_the_leaders_port_is_named_and_nothing_is_taken(
    parties: tuple[Party, Party], serve: tuple[Callable[..., object], dict[str, object]]
) -> None:
    served, tls = serve
    liar = Liar([KeyringChanges(STREAM, 0, (), KEYRING, 0)])
    port = await served(liar, stranger=True)  # type: ignore[misc]
    async with followed(parties[1], port, tls["shuffler"]) as (_, incidents):
        assert "misses changes, as no leader sends them" in await text_of(incidents)
    assert liar.asked == []


async def test_a_front_ends_certificate_follows_nobody(
    parties: tuple[Party, Party], serve: tuple[Callable[..., object], dict[str, object]]
) -> None:
    served, tls = serve
    liar = Liar([KeyringChanges(STREAM, 0, (), KEYRING, 0)])
    port = await served(liar)  # type: ignore[misc]
    async with open_channel(port, tls["frontend"]) as channel:  # type: ignore[arg-type]
        with pytest.raises(Refusal, match=f"Follow {NEEDS_ROLE} shuffler"):
            await ReplicationCaller(channel).follow(FollowerPosition(bytes(16)), CALL_SECONDS)
    assert liar.asked == []


async def test_a_standby_that_claims_what_it_does_not_have_takes_over_nothing(parties: tuple[Party, Party]) -> None:
    """It says at once that it has each change. The leader believes it; what it lacks is named when it would lead."""
    one, other = parties
    leader = one.act(needed=1)
    with contextlib.closing(ShufflerKeyring(other.folder)) as keyring:
        name = keyring.copy
    assert leader.standbys is not None
    told = await leader.standbys.follow(FollowerPosition(name))
    # Of a position that is not there yet, or of another stream, it gets everything anew, and counts for nothing.
    for lie in (FollowerPosition(name, told.stream, 999), FollowerPosition(name, OTHER, 0)):
        assert (await leader.standbys.follow(lie)).keyring
        assert leader.standbys.following() == (1, 0)
    position = told.position

    async def acknowledge() -> None:
        nonlocal position
        while True:
            position = (await leader.standbys.follow(FollowerPosition(name, told.stream, position))).position  # type: ignore[union-attr]

    lying = asyncio.create_task(acknowledge())
    await until(lambda: leader.add_round(TASK, 0))
    with patient():
        await leader.redeem([RedeemedTicket(bytes(32), b"\1" * 32, b"\2" * 16, 2**40)])
    lying.cancel()
    await asyncio.gather(lying, return_exceptions=True)
    one.end()
    with pytest.raises(StoreError, match="is new, and has nothing of the leader's yet"):
        other.act()
    again = one.act()
    assert ([each.number for each in await again.rounds()], await again.redeemed()) == ([0], 1)


async def test_made_up_standbys_are_bounded_and_leave_the_real_one_its_changes(parties: tuple[Party, Party]) -> None:
    """A copy's name is free to choose. Each that was made up would be kept, with all rows, and take a thread."""
    one, other = parties
    leader = one.act(needed=1)
    async with other.following():
        await until(lambda: leader.add_round(TASK, 0))
        standbys = leader.standbys
        assert standbys is not None
        calls = [standbys.follow(FollowerPosition(os.urandom(16))) for _ in range(40)]
        with patient():  # none of them is forgotten before the last one asks
            found = await asyncio.gather(*calls, return_exceptions=True)
        refused = [each for each in found if isinstance(each, Refusal)]
        assert len(refused) >= 40 - MOST_COPIES
        assert {each.reason for each in refused} == {Reason.NOT_READY}
        assert "more than 16 standbys ask" in refused[0].message
        assert len(standbys._copies) <= MOST_COPIES
        # One that asks twice at once is answered once.
        name = next(iter(standbys._copies))
        twice = await asyncio.gather(
            *(standbys.follow(FollowerPosition(name)) for _ in range(2)), return_exceptions=True
        )
        assert sum(isinstance(each, Refusal) for each in twice) >= 1
        await until(lambda: leader.add_round(TASK, 1))
        await until(lambda: leader.revoke([b"\4" * 32]))


async def test_a_database_that_refuses_is_told_to_a_standby_as_a_reason(
    parties: tuple[Party, Party], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not as a fault in the service, with a traceback for each call."""
    one, _ = parties
    leader = one.act()
    standbys = leader.standbys
    assert standbys is not None
    told = await standbys.follow(FollowerPosition(b"c" * 16))

    def refuse(_work: object) -> None:
        raise StoreError("the disk of the database is full")

    monkeypatch.setattr(leader._sessions, "change", refuse)
    with pytest.raises(Refusal, match="the disk of the database is full") as refused:
        await standbys.follow(FollowerPosition(b"c" * 16, told.stream, told.position))
    assert refused.value.reason is Reason.NOT_READY
    monkeypatch.undo()
