"""A succession that says of a round that somebody else signs it than did is refused before anything is certified."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from unit.analyzer.test_server import Deployment, deliver_round, prepare

from hubbub.analyzer.server import serve
from hubbub.analyzer.signers import check_signers
from hubbub.protos.errors import SignatureError
from hubbub.protos.keys import Identity, Role
from hubbub.protos.messages import Committed
from hubbub.protos.releases import NO_RELEASES
from hubbub.protos.successions import Succession
from hubbub.protos.task import Task
from hubbub.protos.times import prepared_from
from support.chain import Chain
from support.samples import Parties, sample_task


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    found = Deployment.make(tmp_path)
    folder = tmp_path / "successions"
    folder.mkdir()
    found.settings = found.settings.model_copy(update={"successions": (folder,)})
    return found


@pytest.fixture
def task(deployment: Deployment) -> Task:
    return sample_task(deployment.parties, minimum_reports=20)


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


async def refused(deployment: Deployment) -> None:
    stop = asyncio.Event()
    stop.set()  # where it starts, it ends at once
    with pytest.raises(
        SignatureError, match=r"round 0 of flights was signed by another identity than the `successions` say"
    ):
        await serve(deployment.settings, stop=stop)


async def starts(deployment: Deployment) -> None:
    async with deployment.running():
        pass


async def test_one_that_begins_after_the_round_is_prepared_is_taken(deployment: Deployment, task: Task) -> None:
    async with deployment.running() as addresses, deployment.delivery(addresses["delivery"]) as caller:
        await deliver_round(deployment, caller)
    for role in (Role.SHUFFLER, Role.ANALYZER):
        follow(deployment, role, prepared_from(task.schedule, 0) + 1)
        await starts(deployment)


async def test_a_late_one_of_the_analyzer_is_refused_once_the_round_has_a_key(
    deployment: Deployment, task: Task
) -> None:
    async with deployment.running() as addresses, deployment.delivery(addresses["delivery"]) as caller:
        await caller.get_key(task.id, 0, 5)
    late = follow(deployment, Role.ANALYZER, prepared_from(task.schedule, 0))
    await refused(deployment)
    late.unlink()
    await starts(deployment)


async def test_a_late_one_of_the_shuffler_is_refused_once_a_batch_is_announced(
    deployment: Deployment, task: Task
) -> None:
    async with deployment.running() as addresses, deployment.delivery(addresses["delivery"]) as caller:
        late = follow(deployment, Role.SHUFFLER, prepared_from(task.schedule, 0))
        (batch, key_set, _), *_ = await prepare(deployment, caller)
        await caller.begin(batch.signed_by(deployment.parties.shuffler), key_set, NO_RELEASES, 5)
    await refused(deployment)
    late.unlink()
    await starts(deployment)


@pytest.mark.parametrize("role", [Role.SHUFFLER, Role.ANALYZER])
async def test_a_late_one_is_refused_for_a_round_whose_certificate_it_would_make_false(
    deployment: Deployment, task: Task, role: Role
) -> None:
    async with deployment.running() as addresses, deployment.results(addresses["results"]) as reader:
        async with deployment.delivery(addresses["delivery"]) as caller:
            assert await deliver_round(deployment, caller) == [Committed(30, {})] * 2
        await reader.get_results(task.id, 0, 30, 40)
    follow(deployment, role, prepared_from(task.schedule, 0))
    await refused(deployment)


async def test_one_that_was_taken_out_is_missed_by_the_rounds_that_it_is_of(deployment: Deployment, task: Task) -> None:
    early = follow(deployment, Role.ANALYZER, prepared_from(task.schedule, 0))
    async with deployment.running() as addresses, deployment.delivery(addresses["delivery"]) as caller:
        await caller.get_key(task.id, 0, 5)
    content = early.read_bytes()
    early.unlink()
    await refused(deployment)
    early.write_bytes(content)
    await starts(deployment)


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
        assert (await reader.get_results(task.id, 0, 10, 20)).id.round == 0


@pytest.mark.parametrize("role", [Role.SHUFFLER, Role.ANALYZER])
async def test_a_late_one_is_seen_behind_the_records_of_hops_too(tmp_path: Path, role: Role) -> None:
    with contextlib.closing(Chain(tmp_path, hops=2)) as chain, contextlib.closing(chain.workers):
        await chain.start()
        await chain.delivered([number % 3 for number in range(10)])
        begins = prepared_from(chain.task.schedule, 0)
        late, good = (succession(chain.parties, role, Identity.generate(), begins + after) for after in (0, 1))
        await check_signers(chain.analyzer_store, [good])
        with pytest.raises(SignatureError, match="was signed by another identity than the `successions` say"):
            await check_signers(chain.analyzer_store, [late])
