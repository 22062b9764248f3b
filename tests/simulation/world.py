"""The whole pipeline in one process and in virtual time, to which operations happen, beside a model of it."""

from __future__ import annotations

import asyncio
import logging
import random as global_random
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest
import structlog
from simulation import operations as ops
from simulation.devices import Answers, DeviceParty, SimulatedFleet, Stranger
from simulation.model import CARRIERS, FINAL, RECEIPT, RETRIED, Model, histogram, total
from simulation.network import DeliveryLine, Link
from simulation.parties import QUEUE, AnalyzerParty, Life, Party, ShufflerParty
from simulation.virtual import Killed, run

from hubbub.client.errors import NoRound, StateError
from hubbub.client.state.rounds import RoundRef as ClientRound
from hubbub.protos.enrollment.tickets import new_tickets
from hubbub.protos.errors import KeyRecordError, Unreachable
from hubbub.protos.messages import Receipt, RoundState
from hubbub.protos.records.results import QueryState, RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.admission import OPEN, AdmissionPolicy, Mode
from hubbub.protos.task.schedule import Schedule
from hubbub.queries.estimation.estimates import Estimates
from hubbub.shuffler.admit import openers as opening_pool
from hubbub.shuffler.records import Round
from support.samples import START, Parties, sample_task, signed

MINIMUM = 4
SCHEDULE = Schedule(START, length=600, grace=60, rounds=3, close="operator")
MOMENT = 0.01
"""Seconds of virtual time that every operation takes: everything that needs no waiting is done then."""

DEVICES_AT_ONCE = 1000
"""More than ever submit in one call, or at one moment."""

_EXPECTED = (Refusal, Unreachable, NoRound, StateError, KeyRecordError)
"""What a device's application has to reckon with."""


NEAR = {"rel": 1e-12, "abs": 1e-9}
"""How near an estimate is to the model's exact one."""

Witness = Callable[[str, dict[str, Any]], None]
"""Is told whenever a party is about to rely on another one's having something on disk: by what, and what it is."""


def values(estimates: Estimates) -> dict[tuple[str, str | None], float]:
    """What is published, by statistic and category."""
    return {(row.statistic, row.category): row.estimate.value for row in estimates.rows if row.estimate is not None}


class Simulation:
    """A pipeline. Use it as a context; `do` an operation, or have `finish` bring everything to its end and check it."""

    def __init__(
        self,
        folder: Path,
        seed: int = 0,
        parties: Parties | None = None,
        witness: Witness = lambda _name, _facts: None,
        admission: AdmissionPolicy = OPEN,
    ) -> None:
        self.seed = seed
        self.witness = witness
        self.parties = parties or Parties.generate()
        self.task = sample_task(self.parties, minimum_reports=MINIMUM, schedule=SCHEDULE, admission=admission)
        self.signed = signed(self.task, self.parties)
        self.random = Random(f"{seed} services").randbytes
        global_random.seed(seed)
        self.secrets: list[bytes] = []
        self.links = {name: Link() for name in ops.LINKS}
        self.shuffler = ShufflerParty("shuffler", folder / "shuffler", self)
        self.analyzer = AnalyzerParty("analyzer", folder / "analyzer", self)
        names = [f"device {number}" for number in range(ops.DEVICES)]
        self.devices = [DeviceParty(name, folder / name.replace(" ", ""), self) for name in names]
        self.fleet = DeviceParty(ops.FLEET, folder / "fleet", self, SimulatedFleet)
        self.stranger = Stranger("stranger", folder / "stranger", self)
        everybody: list[Party] = [self.shuffler, self.analyzer, *self.devices, self.fleet, self.stranger]
        self.everybody = {party.name: party for party in everybody}
        self.model = Model(self.task, self.shuffler.clock, self._round, lambda: self.shuffler.full, QUEUE)
        self._running: set[asyncio.Task[Any]] = set()
        self._tickets: dict[str, bytes] = {}

    def ticket(self, name: str) -> bytes | None:
        """The ticket of a device; None where the task takes whoever comes. A stranger never has one."""
        if self.task.admission.mode is not Mode.ENROLLED:
            return None
        if name not in self._tickets:
            signer = [self.parties.operator]
            (made,) = new_tickets(1, self.parties.shuffler.public, START + 10**8, signer)
            self._tickets[name] = made.encode()
        return self._tickets[name]

    def now(self) -> float:
        """The true time, seconds since 1970."""
        return START + 1 + asyncio.get_running_loop().time()

    def later(self, work: Coroutine[Any, Any, Any]) -> None:
        """Have something done beside the operations; its errors are raised by the next `settle`."""
        self._running.add(asyncio.ensure_future(work))

    def delivery_line(self, life: Life) -> DeliveryLine:
        """The shuffler's way to the analyzer."""
        return DeliveryLine(self, life)

    def killed(self, party: Party) -> None:
        """A party was killed."""
        if party is self.shuffler:
            self.model.killed()

    def _round(self, number: int) -> Round | None:
        return self.shuffler.store._snapshot.rounds.get((self.task.id, number))

    # Operations

    async def start(self) -> None:
        """Start both services."""
        await self.analyzer.start()
        await self.shuffler.start()
        await self.settle()

    async def do(self, operation: ops.Operation) -> None:
        """Have an operation happen, and everything that it brings about at once."""
        match operation:
            case ops.Submit(number, carrier, delay):
                self.later(self._submit(self.devices[number], carrier, delay))
            case ops.SubmitMany(numbers, per_call):
                self.later(self._submit_many(numbers, per_call))
            case ops.Resend(number):
                self.later(self._resend(self.devices[number]))
            case ops.Kill(name, "", _):
                self.everybody[name].kill()
            case ops.Kill(name, point, occurrence):
                self.everybody[name].kill_at(point, occurrence)
            case ops.Restart(name):
                self.later(self._restart(self.everybody[name]))
            case ops.Start(name):
                self.later(self.everybody[name].start())
            case ops.Cut(name):
                self.links[name].is_cut = True
            case ops.Heal(name):
                self.links[name] = Link()
            case ops.Lose(name, "requests", count):
                self.links[name].lost_requests += count
            case ops.Lose(name, _, count):
                self.links[name].lost_answers += count
            case ops.Slow(name, seconds):
                self.links[name].delay = seconds
            case ops.Fill(name):
                self.everybody[name].full = True
            case ops.Free(name):
                self.everybody[name].full = False
            case ops.Skew(name, seconds):
                self.everybody[name].skew = seconds
            case ops.Misbehave(kind, number):
                self.later(self._misbehave(kind, number))
            case ops.Close():
                self.later(self._close())
            case ops.Wait(seconds):
                await asyncio.sleep(seconds)
        await self.settle()

    async def settle(self) -> None:
        """Let everything be done that needs no waiting."""
        await asyncio.sleep(MOMENT)
        for task in [task for task in self._running if task.done()]:
            self._running.discard(task)
            task.result()
        life = self.shuffler.life
        if life is None:
            self.model.abandon()
            return
        view = self.shuffler.store._snapshot
        if not self.shuffler.full and not view.pending and not view.writing:
            self.model.at_risk.clear()
        self.secrets += [
            key
            for round_ in view.rounds.values()
            if round_.keys
            for key in (round_.keys.private_key, round_.keys.pseudonym_key)
            if key
        ]

    async def _as_device(self, party: DeviceParty, work: Any) -> None:
        """Do something in a device's process, which is started where it does not run; one thing at a time."""
        if party.busy:
            return
        party.busy = True
        try:
            await party.start()
            if party.life is not None:
                await party.life.unless_killed(work())
        except (Killed, *_EXPECTED):
            return
        finally:
            party.busy = False

    async def _submit(self, party: DeviceParty, carrier: str, delay: float | None) -> None:
        async def work() -> None:
            try:
                receipt = await party.client.submit(Answers(party.name, carrier, delay))
            except (Refusal, Unreachable) as error:
                said = re.search(r"the answers to round (\d+) are kept on this device", str(error))
                if said is not None:
                    self._kept(party, int(said[1]))
                raise
            self._acknowledged(party, receipt)

        await self._as_device(party, work)

    def _kept(self, party: DeviceParty, number: int) -> None:
        """What a device says it keeps is on disk, and it is what it will send, and no other."""
        (entry,) = party.client._state.find(ClientRound(self.task.id, number), [""]).values()
        assert entry.outcome is None
        key = party.name, number
        assert self.model.kept.setdefault(key, entry.submission_id) == entry.submission_id
        self.witness("kept", {"by": party.name, "round": number, "id": entry.submission_id.hex()})

    def _acknowledged(self, party: DeviceParty, receipt: Receipt) -> None:
        """A device gets one receipt a round, whatever happened in between."""
        assert (
            self.model.acknowledged.setdefault((party.name, receipt.round), receipt.submission_id)
            == receipt.submission_id
        )
        assert self.model.kept.get((party.name, receipt.round), receipt.submission_id) == receipt.submission_id

    async def _submit_many(self, numbers: Iterable[int], per_call: int) -> None:
        party = self.fleet
        many = [(str(number), Answers(f"fleet {number}", "UA", 10.0 * number)) for number in numbers]

        async def work() -> None:
            summary = await party.client.submit_many(many, per_call=per_call, calls=2)
            assert summary.devices == len(many)

        await self._as_device(party, work)

    async def _resend(self, party: DeviceParty) -> None:
        async def work() -> None:
            for receipt in await party.client.resend():
                self._acknowledged(party, receipt)

        if not party.busy:
            await party.stop()
        await self._as_device(party, work)

    async def _restart(self, party: Party) -> None:
        await party.stop()
        await party.start()

    async def _misbehave(self, kind: str, number: int) -> None:
        await self.stranger.start()
        await self.stranger.misbehave(kind, number)

    async def _close(self) -> None:
        life = self.shuffler.life
        number = self.task.schedule.round_at(self.now())
        if life is None or number is None:
            return
        try:
            await life.unless_killed(self.shuffler.control.close_round(self.task.id, number))
        except (Refusal, Killed):
            return
        assert len(self.model.held.get(number, {})) + len(self.model.maybe.get(number, {})) >= MINIMUM

    # The end

    async def finish(self) -> None:
        """Repair everything, have every round come to its end, and check it all against the model."""
        for party in self.everybody.values():
            party.full, party.skew = False, 0.0
            party.kill_at("never", 1)
        self.links.update({name: Link() for name in ops.LINKS})
        await asyncio.sleep(60.0)
        for party in (self.shuffler, self.analyzer):
            await party.start()
        await self.settle()
        for device in self.devices:
            await self.do(ops.Resend(self.devices.index(device)))
        await asyncio.sleep(max(0.0, SCHEDULE.cut(SCHEDULE.rounds - 1) - self.now()) + 120.0)
        await self.settle()
        self.model.abandon()
        self._check_erased(self.shuffler)
        # Keys of rounds that never came to the analyzer are destroyed when they are a month old.
        self.analyzer.skew = 31 * 86_400.0
        await self._restart(self.analyzer)
        await self._restart(self.shuffler)
        await self.settle()
        await self.check()

    async def check(self) -> None:
        """The invariants."""
        statuses = {status.round: status for status in await self.shuffler.control.get_status(None)}
        reports = 0
        for number in range(SCHEDULE.rounds):
            if number not in statuses:
                assert not self.model.held.get(number)
                continue
            status = statuses[number]
            assert status.state in FINAL, status
            reports += status.submissions
            if status.state is RoundState.EXPIRED:
                await self._check_expired(number, status.submissions)
            else:
                await self._check_released(number, status.submissions)
        await self._check_counts(reports)
        self._check_erased(self.shuffler)
        self._check_erased(self.analyzer)

    async def _check_expired(self, number: int, reports: int) -> None:
        """Under its minimum: nothing left the shuffler, nothing is published."""
        assert len(self.model.held.get(number, {})) <= reports < MINIMUM
        assert number not in self.model.delivered
        with pytest.raises(Refusal) as refused:
            await self.analyzer.results.get_results(self.task.id, number, 0.0)
        assert refused.value.reason is Reason.NO_RESULTS

    async def _check_released(self, number: int, reports: int) -> None:
        """Every acknowledged report counts exactly once, and nothing else does."""
        assert reports >= MINIMUM
        results = await self.analyzer.results.get_results(self.task.id, number, 0.0)
        facts = [(dict(query.left_out), query.valid) for query in results.queries]
        counts = [list(counts) for counts in await self._counts(number)]
        found = []
        for expected in self.model.outcomes(number, reports):
            found.append((expected.left_out, expected.counts))
            valid = [sum(each) for each in expected.counts]
            published = [each if sum(each) >= MINIMUM else [] for each in expected.counts]
            if facts == list(zip(expected.left_out, valid, strict=True)) and counts == published:
                self._check_estimates(results, expected.counts)
                return
        raise AssertionError(f"round {number} came to {facts}, {counts}; the model says {found}")

    async def _counts(self, number: int) -> list[list[int]]:
        batches = await self.analyzer.store.batches(self.task.id, number)
        return [np.frombuffer(batch.counts or b"", dtype="<i8").tolist() for batch in batches]

    def _check_estimates(self, results: RoundResults, counts: list[list[int]]) -> None:
        carrier, delay = results.queries
        if carrier.state is QueryState.PUBLISHED:
            assert carrier.estimates is not None
            wanted = {("count", name): float(each) for name, each in zip(CARRIERS, histogram(counts[0]), strict=True)}
            assert values(carrier.estimates) == pytest.approx(wanted | {("answered", None): sum(counts[0])}, **NEAR)
        if delay.state is QueryState.PUBLISHED:
            assert delay.estimates is not None
            answered, summed = (float(each) for each in total(counts[1]))
            found = values(delay.estimates)
            assert found["answered", None] == pytest.approx(answered, **NEAR)
            assert found["sum", None] == pytest.approx(summed, **NEAR)

    async def _check_counts(self, reports: int) -> None:
        """Acknowledged + retried + refused = received, but for what a kill made uncertain."""
        stored: Counter[str] = Counter()
        for number in range(-1, SCHEDULE.rounds):
            for task_id in (self.task.id, b"") if number == -1 else (self.task.id,):
                stored += Counter(await self.shuffler.store.tally(task_id, number))
        model = self.model
        receipts = stored.pop(RETRIED, 0) + reports
        answers = {name: count for name, count in model.answers.items() if name != RECEIPT}
        for name in stored.keys() | answers.keys():
            assert answers.get(name, 0) - model.lost[name] <= stored[name] <= answers.get(name, 0) + model.unanswered, (
                name,
                stored,
                answers,
                model.lost,
                model.unanswered,
            )
        assert model.answers[RECEIPT] - model.lost[RECEIPT] <= receipts <= model.answers[RECEIPT] + model.unanswered

    def _check_erased(self, party: Party) -> None:
        """No file of the party's holds an id, an envelope, or a key of a round that is over."""
        files = party.files()
        ids = {each for held in self.model.held.values() for each in held} | set(self.model.by_id)
        envelopes = {envelope for released in self.model.delivered.values() for envelope in released}
        envelopes |= {inner for content in self.model.by_envelope.values() for inner, _ in content or ()}
        for secret in [*ids, *envelopes, *self.secrets]:
            assert secret[:16] not in files

    async def close(self) -> None:
        """End every process."""
        for party in self.everybody.values():
            party.kill()
        await asyncio.sleep(MOMENT)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


def simulate(
    folder: Path,
    operations: Iterable[ops.Operation],
    seed: int = 0,
    parties: Parties | None = None,
    witness: Witness = lambda _name, _facts: None,
    admission: AdmissionPolicy = OPEN,
) -> Simulation:
    """Have operations happen to a new pipeline, bring it to its end, and check everything; return it for more."""

    async def whole() -> Simulation:
        simulation = Simulation(folder, seed, parties, witness, admission)
        try:
            await simulation.start()
            for operation in operations:
                await simulation.do(operation)
            await simulation.finish()
            return simulation
        finally:
            await simulation.close()

    logging.disable()
    try:
        # Processes that open keep real time, so everything is opened in the event loop.
        with structlog.testing.capture_logs(), mock.patch.object(opening_pool, "ON_THE_SPOT", DEVICES_AT_ONCE):
            return run(whole())
    finally:
        logging.disable(logging.NOTSET)
