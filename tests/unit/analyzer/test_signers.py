"""A round that somebody else has signed than the successions say is not certified, and nothing else waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from unit.analyzer.test_server import Deployment, deliver, deliver_round, prepare, release_of, task_of

from hubbub.analyzer.certifier import Certifier, check_signers
from hubbub.analyzer.results import Results
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeyRecord, Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord
from hubbub.protos.records.release_chain import position_after
from hubbub.protos.refusals import Refusal
from hubbub.protos.task.schedule import prepared_from
from hubbub.protos.task.task import Task, followed
from hubbub.service.observability.incidents import Incidents
from support.hop_chain import Chain
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import Parties, sample_task

if TYPE_CHECKING:
    from conftest import Bench


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    found = Deployment.make(tmp_path)
    folder = tmp_path / "successions"
    folder.mkdir()
    found.settings = found.settings.model_copy(update={"successions": (folder,)})
    return found


@pytest.fixture
def task(deployment: Deployment) -> Task:
    return task_of(deployment.parties)


def succession(parties: Parties, role: Role, new: Identity, begins: int) -> Succession:
    made = Succession(role, parties.of(role).public, new.public, parties.operator.public, begins)
    for signer in (parties.of(role), new, parties.operator):
        made = made.signed_by(signer)
    return made


def follow(deployment: Deployment, role: Role, begins: int) -> Path:
    """Give the analyzer a succession of a service; return its file."""
    new = Identity.generate()
    made = succession(deployment.parties, role, new, begins)
    (folder,) = deployment.settings.successions
    new.save(deployment.settings.identity.with_name(f"identity-{role.value}.pem"))
    (folder / "succession.json").write_bytes(made.encode())
    return folder / "succession.json"


def records_of(parties: Parties, task: Task, key_signer: Identity) -> tuple[list[SignedDocument], SignedDocument]:
    """The batch records of round 0, by the parties' shuffler, and its key record."""
    batches = [BatchId(task.id, 0, query) for query in range(2)]
    stated: dict[str, Any] = {"admission": "open", "position": position_after(task.id, ())}
    records = [BatchRecord(batch, 30, bytes(32), bytes(32), "schedule", **stated) for batch in batches]
    key = KeyRecord(Role.ANALYZER, task.id, 0, task.suite, task.hpke.generate_key()[1], 0, 2**37)
    return [record.signed_by(parties.shuffler) for record in records], key.signed_by(key_signer)


@pytest.mark.parametrize(("role", "what"), [(Role.SHUFFLER, "a batch record"), (Role.ANALYZER, "the key record")])
def test_what_somebody_else_signs_by_a_late_succession_is_named(role: Role, what: str) -> None:
    parties = Parties.generate()
    task = sample_task(parties)
    records, key = records_of(parties, task, parties.analyzer)
    begins = prepared_from(task.schedule, 0)
    late, good = (succession(parties, role, Identity.generate(), begins + after) for after in (0, 1))
    check_signers(task, 0, records, key)
    check_signers(followed(task, [good]), 0, records, key)
    with pytest.raises(SignatureError, match=f"^{what} of round 0 of flights was signed by another identity than"):
        check_signers(followed(task, [late]), 0, records, key)


def test_a_succession_that_was_taken_out_is_missed_by_the_rounds_that_it_is_of() -> None:
    parties, new = Parties.generate(), Identity.generate()
    task = sample_task(parties)
    records, key = records_of(parties, task, new)
    early = succession(parties, Role.ANALYZER, new, prepared_from(task.schedule, 0))
    check_signers(followed(task, [early]), 0, records, key)
    with pytest.raises(SignatureError, match="put the signer's succession back if it was removed"):
        check_signers(task, 0, records, key)


@pytest.mark.parametrize(("role", "what"), [(Role.SHUFFLER, "a batch record"), (Role.ANALYZER, "the key record")])
async def test_a_late_one_is_seen_behind_the_records_of_hops_too(tmp_path: Path, role: Role, what: str) -> None:
    with contextlib.closing(Chain(tmp_path, hops=2)) as chain, contextlib.closing(chain.opening_pool):
        await chain.start()
        await chain.delivered([number % 3 for number in range(10)])
        key = await chain.analyzer_store.key(chain.task.id, 0)
        assert key is not None
        records = [batch.record for batch in await chain.analyzer_store.batches(chain.task.id, 0)]
        begins = prepared_from(chain.task.schedule, 0)
        late, good = (succession(chain.parties, role, Identity.generate(), begins + after) for after in (0, 1))
        check_signers(followed(chain.task, [good]), 0, records, key.record)
        with pytest.raises(SignatureError, match=f"^{what} of round 0"):
            check_signers(followed(chain.task, [late]), 0, records, key.record)


def certifier(bench: Bench, made: Succession) -> Certifier:
    """What certifies once an analyzer was started again with this succession alone."""
    bench.incidents = Incidents()
    bench.certifier = Certifier(
        bench.parties.analyzer, bench.store, bench.state, incidents=bench.incidents, successions=[made]
    )
    bench.results = Results(bench.store, bench.certifier, bench.served, bench.incidents)
    return bench.certifier


async def certified(bench: Bench) -> list[int]:
    return [round_id.round for round_id in await bench.results.list_results(None)]


@pytest.mark.parametrize("role", [Role.SHUFFLER, Role.ANALYZER])
async def test_a_late_one_holds_up_its_rounds_alone_until_it_is_taken_out(bench: Bench, role: Role) -> None:
    bench.receiver._committed = lambda: None
    for number in (0, 1, 2):
        await bench.deliver_round(number)
    begins = prepared_from(bench.task.schedule, 1)
    late, good = (succession(bench.parties, role, Identity.generate(), begins + 2 * 3600 * after) for after in (0, 1))
    for _ in range(2):
        await certifier(bench, late).run()
        assert await certified(bench) == [0]
        assert [incident.text[:8] for incident in bench.incidents.now()] == ["round 1 ", "round 2 "]
        assert all("was signed by another identity than" in incident.text for incident in bench.incidents.now())
    with pytest.raises(Refusal, match="round 1 of flights was signed by another identity than `successions` name"):
        await bench.results.get_results(bench.task.id, 1, 0)
    (status,) = [each for each in await bench.results.get_statuses(bench.task.id) if each.id.round == 1]
    assert status.waiting_for.startswith("its certificate, which failed: ")
    await certifier(bench, good).run()
    assert await certified(bench) == [0, 1, 2]
    assert bench.incidents.now() == ()


async def test_an_analyzer_that_gave_out_keys_of_rounds_far_away_starts_whatever_succession_comes(
    deployment: Deployment, task: Task
) -> None:
    async with deployment.running() as addresses, deployment.delivery(addresses["delivery"]) as caller:
        for number in (1, 2):
            await caller.get_key(task.id, number, CALL_SECONDS)
    follow(deployment, Role.ANALYZER, prepared_from(task.schedule, 1))
    async with deployment.running() as addresses, deployment.results(addresses["results"]) as reader:
        async with deployment.delivery(addresses["delivery"]) as caller:
            assert await deliver_round(deployment, caller) == [Committed(30, {})] * 2
        assert (await reader.get_results(task.id, 0, CALL_SECONDS, PATIENCE)).id.round == 0


async def test_an_analyzer_starts_with_a_late_one_and_certifies_after_it_was_taken_out(
    deployment: Deployment, task: Task
) -> None:
    async with deployment.running() as addresses, deployment.delivery(addresses["delivery"]) as caller:
        first, last = await prepare(deployment, caller)
        batch, key_set, envelopes = last
        releases = release_of([first, last], deployment.parties)
        await deliver(deployment, caller, [first], releases)
        await caller.begin(batch.signed_by(deployment.parties.shuffler), key_set, releases, CALL_SECONDS)
        await caller.put(Envelopes(batch.batch, 0, envelopes), CALL_SECONDS)
    late = follow(deployment, Role.SHUFFLER, prepared_from(task.schedule, 0))
    async with deployment.running() as addresses, deployment.results(addresses["results"]) as reader:
        async with deployment.delivery(addresses["delivery"]) as caller:
            assert await caller.commit(batch.batch, batch.digest, CALL_SECONDS) == Committed(30, {})
        said = ""
        async with asyncio.timeout(CALL_SECONDS):
            while "a batch record of round 0 of flights was signed by another identity" not in said:
                with pytest.raises(Refusal) as refused:
                    await reader.get_results(task.id, 0, 0.05, CALL_SECONDS)
                said = refused.value.message
        (incident,) = (await reader.get_incidents(CALL_SECONDS)).incidents
        assert "round 0 of task" in incident.text
    late.unlink()
    async with deployment.running() as addresses, deployment.results(addresses["results"]) as reader:
        assert (await reader.get_results(task.id, 0, CALL_SECONDS, PATIENCE)).id.round == 0


async def test_one_of_another_deployment_keeps_no_round_from_its_certificate(
    deployment: Deployment, task: Task
) -> None:
    elsewhere, new, witness = (Identity.generate() for _ in range(3))
    stray = Succession(Role.SHUFFLER, elsewhere.public, new.public, witness.public, 1)
    for signer in (elsewhere, new, witness):
        stray = stray.signed_by(signer)
    (folder,) = deployment.settings.successions
    (folder / "stray.json").write_bytes(stray.encode())
    async with deployment.running() as addresses, deployment.results(addresses["results"]) as reader:
        async with deployment.delivery(addresses["delivery"]) as caller:
            await deliver_round(deployment, caller)
        assert (await reader.get_results(task.id, 0, CALL_SECONDS, PATIENCE)).id.round == 0
