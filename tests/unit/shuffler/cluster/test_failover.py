"""One of several shufflers on a database acts, the others stand by, and say so."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from hubbub.deploy.local.ports import kept_address
from hubbub.protos.errors import SignatureError, Unreachable
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.rounding import CountRounding, RoundedRegistry
from hubbub.service.transport.health import is_serving
from hubbub.service.transport.ports import Ports
from hubbub.shuffler.cluster import failover
from hubbub.shuffler.metrics import is_exact
from hubbub.shuffler.settings import ShufflerSettings
from hubbub.shuffler.stores.postgres import open_store as opening
from hubbub.shuffler.stores.postgres.replication import leadership
from hubbub.shuffler.stores.postgres.replication.leadership import Lease
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from support import postgres
from support.patience import CALL_SECONDS, pause
from support.samples import make_tls


@dataclass
class Shuffler:
    """A shuffler that does nothing but to act, or to stand by."""

    settings: ShufflerSettings
    tls: dict[str, TLS]
    acts: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    incidents: Incidents = field(default_factory=Incidents)
    announced: int = 0
    lacks: str = ""

    async def run(self) -> None:
        run = failover.run_with_failover
        await run(self.settings, time.time, self.acting, self.able, announce=self.announce, stop=self.stop)

    def able(self) -> None:
        if self.lacks:
            raise SignatureError(self.lacks)

    def announce(self, _addresses: dict[str, str]) -> None:
        self.announced += 1

    @contextlib.asynccontextmanager
    async def acting(self, own: Lease) -> AsyncIterator[Shuffler]:
        with contextlib.closing(opening.open_as_leader(self.settings.data, self.settings.store, lease=own)):
            self.able()
            yield self
        self.ended.set()

    async def listen(self, _ports: Ports) -> None:
        """Open none."""

    async def start(self) -> None:
        self.ended.clear()
        self.acts.set()

    async def leave(self) -> None:
        self.acts.clear()

    async def refusal(self) -> Refusal:
        """Return what the operator is told."""
        async with open_channel(self.settings.control_listen, self.tls["operator"]) as channel:
            while True:
                try:
                    await ControlCaller(channel).get_status(None, CALL_SECONDS)
                except Refusal as refusal:
                    return refusal
                except Unreachable:
                    continue  # the port is being opened

    async def incident_with(self, words: str) -> str:
        """Return the text of an incident with these words, once there is one."""
        async with open_channel(self.settings.control_listen, self.tls["operator"]) as channel:
            while True:
                with contextlib.suppress(Unreachable):
                    report = await ControlCaller(channel).get_incidents(CALL_SECONDS)
                    for each in report.incidents:
                        if words in each.text:
                            return each.text
                await pause()

    async def serves(self) -> bool:
        async with open_channel(self.settings.control_listen, self.tls["operator"]) as channel:
            return await is_serving(channel, CALL_SECONDS)


@dataclass
class Files:
    """The TLS files of settings."""

    found: TLS

    def paths(self) -> TLS:
        return self.found


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Shuffler, Shuffler]:
    monkeypatch.setattr(leadership, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(failover, "LOOK_SECONDS", 0.05)
    address, tls = postgres.new_database(), make_tls(tmp_path / "tls", "shuffler", "operator")
    own = tls["shuffler"]
    listens = [kept_address(), kept_address()]
    made = []
    (tmp_path / "identity.pem").touch(mode=0o600)
    for name, listen, other in zip("ab", listens, listens[::-1], strict=True):
        settings = ShufflerSettings.model_construct(
            **{
                key: field_.default for key, field_ in ShufflerSettings.model_fields.items() if not field_.is_required()
            },
            data=tmp_path / name,
        )
        settings = settings.model_copy(
            update={
                "store": address,
                "control_listen": kept_address(),
                "leader_listen": listen,
                "leaders": (other,),
                "identity": tmp_path / "identity.pem",
                "tls": Files(own),
            }
        )
        opening.create_replicated(settings.data, address)
        made.append(Shuffler(settings, tls))
    return made[0], made[1]


async def test_one_acts_and_the_other_says_that_it_stands_by_until_it_is_its_turn(
    pair: tuple[Shuffler, Shuffler],
) -> None:
    first, second = pair
    running = [asyncio.create_task(first.run())]
    await first.acts.wait()
    running.append(asyncio.create_task(second.run()))
    asked = asyncio.create_task(second.refusal())
    await asyncio.wait((asked, running[1]), return_when=asyncio.FIRST_COMPLETED)
    assert not running[1].done(), running[1].result()
    refusal = await asked
    assert (refusal.reason, "is a standby" in refusal.message) == (Reason.NOT_READY, True)
    assert not await second.serves()
    first.stop.set()
    await running[0]
    second.stop.set()
    await running[1]
    assert (first.announced, second.announced) == (1, 0)


@pytest.mark.parametrize("standbys", [0, 1])
async def test_one_that_knows_nobody_to_follow_says_so_where_keyrings_differ(
    pair: tuple[Shuffler, Shuffler], standbys: int
) -> None:
    incidents = Incidents()
    settings = pair[0].settings.model_copy(update={"leaders": (), "standbys": standbys})
    async with failover._following(settings, incidents) as kept:
        assert kept is None
    assert ["leaders is empty" in incident.text for incident in incidents.now()] == [True] * standbys


def test_the_metrics_say_who_keeps_rounds_and_in_which_term() -> None:
    acting, standing = RoundedRegistry(CountRounding(100), is_exact), CollectorRegistry()
    failover.leader_gauge(acting, 3)
    failover.leader_gauge(standing, 0, acts=False)
    names = ("hubbub_shuffler_leader", "hubbub_shuffler_term")
    assert [acting.get_sample_value(name) for name in names] == [1, 3]
    assert [standing.get_sample_value(name) for name in names] == [0, 0]


async def test_whoever_is_replaced_ends_what_it_did_and_stands_by_until_it_may_act_again(
    pair: tuple[Shuffler, Shuffler],
) -> None:
    first, _ = pair
    running = asyncio.create_task(first.run())
    await first.acts.wait()
    with psycopg.connect(first.settings.store) as connection:
        connection.execute(f"SET search_path = {SCHEMA.name}")
        connection.execute("UPDATE leader SET term = term + 1")
    await first.ended.wait()
    await first.acts.wait()
    first.stop.set()
    await running
    assert first.announced == 1


def events(caplog: pytest.LogCaptureFixture, *levels: str) -> list[str]:
    """Return the events that were logged, of these levels."""
    found = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    return [line["event"] for line in found if line["level"] in levels]


async def test_a_new_standby_waits_for_its_first_leader_and_nothing_is_an_error(
    pair: tuple[Shuffler, Shuffler], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    _, second = pair
    running = asyncio.create_task(second.run())
    assert "is a standby" in (await second.refusal()).message
    async with open_channel(second.settings.control_listen, second.tls["operator"]) as channel:
        texts: list[str] = []
        while not any("is new, and has nothing of the leader's yet" in text for text in texts):
            texts = [each.text for each in (await ControlCaller(channel).get_incidents(CALL_SECONDS)).incidents]
    second.stop.set()
    await running
    assert events(caplog, "error") == []
    # A standby that ends does drain; one that takes over goes on.
    assert events(caplog, "info").count("draining") == 1


async def test_a_standby_that_takes_over_does_not_say_that_it_ends(
    pair: tuple[Shuffler, Shuffler], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first, _ = pair
    before = Lease.take(first.settings.store)
    assert before is not None
    running = asyncio.create_task(first.run())
    await first.refusal()
    before.close()
    await first.acts.wait()
    told = events(caplog, "info")
    assert "draining" not in told
    assert told.index("standing by") < told.index("acting as the leader", 1) < told.index("serving")
    first.stop.set()
    await running


async def test_a_standby_says_at_once_what_it_lacks_and_leads_once_it_has_it(
    pair: tuple[Shuffler, Shuffler], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover, "CHECK_SECONDS", 0.05)
    first, _ = pair
    before = Lease.take(first.settings.store)
    assert before is not None
    first.lacks = "the private key of an identity is missing"
    running = asyncio.create_task(first.run())
    text = await first.incident_with("could not act as the leader")
    assert first.lacks in text
    # Its turn comes: it fails, and does not end.
    before.close()
    assert first.lacks in await first.incident_with("it stands by: ")
    assert not running.done()
    first.lacks = ""
    await first.acts.wait()
    first.stop.set()
    await running


async def test_a_shuffler_that_lacks_something_in_its_first_role_is_refused(pair: tuple[Shuffler, Shuffler]) -> None:
    first, _ = pair
    first.lacks = "the private key of an identity is missing"
    with pytest.raises(SignatureError, match="is missing"):
        await first.run()
