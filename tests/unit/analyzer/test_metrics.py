"""What the analyzer shows its monitoring."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from unit.analyzer.conftest import SYMBOLS, Bench
from unit.analyzer.test_server import Deployment, deliver_round, prepare

from hubbub.analyzer.metrics import AnalyzerCollector
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Envelopes
from hubbub.protos.refusals import Reason, Refusal
from support.metrics_scrape import Scraped, scrape
from support.patience import CALL_SECONDS, pause

REPORTS = "hubbub_analyzer_reports_total"
ROUNDS = "hubbub_analyzer_rounds"
TIMINGS = "hubbub_analyzer_stage_duration_seconds_count"


class Shown:
    """A collector over a bench."""

    def __init__(self, bench: Bench) -> None:
        self.now = 1000.0
        self._registry = prometheus_client.CollectorRegistry()
        collector = AnalyzerCollector(
            {bench.task.id: bench.signed},
            bench.store,
            {},
            bench.receiver.unannounced,
            bench.certifier.failures,
            lambda: self.now,
            bench.incidents,
        )
        self._registry.register(collector)

    async def __call__(self) -> Scraped:
        return Scraped((await asyncio.to_thread(prometheus_client.generate_latest, self._registry)).decode())


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment.make(tmp_path)


async def test_a_round_is_seen_from_its_delivery_to_its_certificate(deployment: Deployment) -> None:
    started = time.perf_counter()
    settings = deployment.settings.model_copy(update={"metrics_listen": "127.0.0.1:0"})
    deployment.settings = settings
    async with deployment.running() as addresses, deployment.delivery(addresses["delivery"]) as caller:
        prepared = await prepare(deployment, caller)
        with pytest.raises(Refusal):
            await caller.put(Envelopes(prepared[0][0].batch, 0, prepared[0][2]), CALL_SECONDS)
        before = await scrape(addresses["metrics"])
        await deliver_round(deployment, caller)
        while (after := await scrape(addresses["metrics"])).value(TIMINGS, stage="certify") == 0:
            await pause()
    assert before.value(ROUNDS, state="awaited") == 1
    assert after.value(ROUNDS, state="certified") == 1
    assert before.value("hubbub_analyzer_deliveries_refused_total", reason="incomplete") == 1
    assert before.value("hubbub_analyzer_epsilon_spent") == 0
    assert [after.value(REPORTS, query=query, result="counted") for query in ("carrier", "delay")] == [30, 30]
    assert after.total(REPORTS, result="left_out") == 0
    assert [after.value(TIMINGS, stage=stage) for stage in ("accept", "count", "certify")] == [2, 2, 1]
    # Each stage's work was a part of the time that passed; two batches are counted at most at once.
    passed = time.perf_counter() - started
    for stage in ("accept", "count", "certify", "store"):
        assert 0 < after.took("analyzer", stage) < 2 * passed
    assert after.value("hubbub_analyzer_epsilon_spent") > 0


async def test_rounds_are_counted_by_state_and_age(bench: Bench) -> None:
    shown = Shown(bench)
    first = await bench.seal(0, SYMBOLS[0])
    assert (await shown()).value(ROUNDS, state="awaited") == 1
    second = await bench.seal(1, SYMBOLS[1])
    await bench.released([first, second])
    await bench.deliver(0, first)
    assert (await shown()).value(ROUNDS, state="delivering") == 1
    shown.now += 40
    assert (await shown()).value("hubbub_analyzer_round_age_seconds", state="delivering") == 40
    await bench.deliver(1, second)
    await bench.certifier.settle()
    scraped = await shown()
    assert scraped.value(ROUNDS, state="certified") == 1
    assert scraped.total(ROUNDS) == 1
    assert scraped.total("hubbub_analyzer_round_age_seconds") == 0


async def test_reports_left_out_are_shown_by_reason(bench: Bench) -> None:
    envelopes = await bench.seal(0, SYMBOLS[0])
    await bench.deliver(0, [*envelopes, envelopes[0], bytes(len(envelopes[0]))])
    scraped = await Shown(bench)()
    assert scraped.value(REPORTS, query="carrier", result="counted") == 8
    assert scraped.value(REPORTS, query="carrier", reason="duplicate") == 1
    assert scraped.value(REPORTS, query="carrier", reason="unopenable") == 1
    assert scraped.value(REPORTS, query="delay", result="counted") == 0


async def test_a_round_that_cannot_be_certified_has_an_incident(bench: Bench) -> None:
    def fails(*_: object) -> dict[str, object]:
        raise HubbubError("no statement today")

    bench.certifier._state = fails
    await bench.deliver_round()
    scraped = await Shown(bench)()
    assert scraped.value(ROUNDS, state="counted") == 1
    assert scraped.value("hubbub_analyzer_rounds_with_incidents") == 1


async def test_a_round_that_cannot_be_counted_has_an_incident_until_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, repaired = bench.store.commit, asyncio.Event()

    async def fail(*parts: Any) -> Any:
        if not repaired.is_set():
            raise RuntimeError("a bug")
        return await real(*parts)

    monkeypatch.setattr(bench.store, "commit", fail)
    envelopes = await bench.seal(0, [0] * 6)
    with pytest.raises(RuntimeError):
        await bench.deliver(0, envelopes)
    (incident,) = (await bench.results.get_incidents()).incidents
    assert (incident.kind, incident.text) == ("rounds", "round 0 of flights is not counted, query carrier: a bug")
    assert (await Shown(bench)()).value("hubbub_analyzer_rounds_with_incidents") == 1
    repaired.set()
    await bench.deliver(0, envelopes)
    assert (await Shown(bench)()).value("hubbub_analyzer_rounds_with_incidents") == 0
    assert (await bench.results.get_incidents()).incidents == ()


async def test_a_store_with_incidents_holds_up_the_rounds_that_are_under_way(bench: Bench) -> None:
    await bench.deliver(0, await bench.seal(0, [0] * 6))
    told = bench.incidents.of_store(bench.folder / "analyzer.db")
    told(OSError(28, "No space left on device"))
    assert (await Shown(bench)()).value("hubbub_analyzer_rounds_with_incidents") == 1
    told(None)
    assert (await Shown(bench)()).value("hubbub_analyzer_rounds_with_incidents") == 0


async def test_a_round_that_a_full_store_lets_nothing_of_in_is_held_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, told = bench.store.announce, bench.incidents.of_store(bench.folder / "analyzer.db")

    async def full(*_parts: object) -> int:
        told(OSError(28, "No space left on device"))
        raise Refusal(Reason.NOT_READY, "the analyzer's store takes nothing now")

    record = await bench.record(0, await bench.seal(0, [0] * 6))
    monkeypatch.setattr(bench.store, "announce", full)
    with pytest.raises(Refusal):
        await bench.begin(record)
    assert (await Shown(bench)()).value(ROUNDS, state="awaited") == 1
    assert (await Shown(bench)()).value("hubbub_analyzer_rounds_with_incidents") == 1
    monkeypatch.setattr(bench.store, "announce", real)
    await bench.begin(record)
    told(None)
    assert (await Shown(bench)()).value("hubbub_analyzer_rounds_with_incidents") == 0
    assert bench.receiver.unannounced == set()


async def test_a_key_that_nobody_used_ends_a_round(bench: Bench) -> None:
    await bench.receiver.get_key(bench.task.id, 0)
    await bench.store.expire_keys(2.0**40)
    assert (await Shown(bench)()).value(ROUNDS, state="over") == 1
