"""Every kind of key is rotated while devices submit to real services: nobody is refused, and each counts once."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hubbub.client import Device
from hubbub.deploy.local.pipeline import Freeze, LocalPipeline
from hubbub.deploy.pki.rotation.key import KeyRequest, location_of
from hubbub.deploy.pki.rotation.registry import ROTATIONS
from hubbub.protos.identity.keys import CORE_ROLES, Identity, Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.messages import KeyState
from hubbub.protos.task.schedule import Schedule, prepared_from
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import Pins, verify
from support.patience import PATIENCE
from support.samples import FEW

HOUR = 3600
SERVICES = (Role.SHUFFLER, Role.ANALYZER)
WORKERS = 3


def draft() -> Draft:
    """Two rounds that both take submissions now: the first in its grace, the second in its time."""
    schedule = Schedule(int(time.time()) - HOUR - 5, length=HOUR, grace=HOUR, rounds=2, close="operator")
    privacy = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW)
    return Draft("kiosks", schedule, 20, privacy, (Histogram("theme", ("dark", "light")),))


class Succeeded(LocalPipeline):
    """Shuffler and analyzer sign round 0 with the identities that the task names, round 1 with those that follow."""

    def settings(self, party: Role) -> Path:
        return self.folder.of(party.value) / f"{party.value}.toml"

    def _signed(self, freeze: Freeze) -> tuple[SignedTask, ...]:
        signed = super()._signed(freeze)
        operator = Identity.load(self.folder.identity(Role.OPERATOR))
        for role in SERVICES:
            place, identities = location_of(self.settings(role)), ROTATIONS["identity"]
            identities.add(place, KeyRequest(begins=prepared_from(signed[0].task.schedule, 1)))
            (file,) = self.folder.of(role.value).glob("succession-*.json")
            file.write_bytes(Succession.decode(file.read_bytes()).signed_by(operator).encode())
            identities.activate(place)
            for other in {*SERVICES} - {role}:
                shutil.copy(self.folder.of(role.value) / "successions" / file.name, self._successions_of(other))
        return signed

    def _successions_of(self, role: Role) -> Path:
        return self.folder.of(role.value) / "successions"

    def taken(self, role: Role) -> int:
        """How often a service has taken new TLS files."""
        return (self.logs / f"{role.value}.log").read_text().count("TLS files taken")


class DeviceLoad:
    """Devices that come one after the other, each to both rounds, until they are told to stop."""

    def __init__(self, pipeline: LocalPipeline) -> None:
        self._pipeline = pipeline
        self._stopped = False
        self._came = asyncio.Condition()
        self.acknowledged: Counter[int] = Counter()

    async def come(self, worker: int) -> None:
        number = 0
        while not self._stopped:
            # A new device each time: its connection is a new handshake, its ticket a new credential.
            async with self._pipeline.device(f"{worker}-{number}") as device:
                await self._submit(device)
            number += 1

    async def _submit(self, device: Device) -> None:
        for round_number in (0, 1):
            receipt = await device.submit({"theme": "dark"}, round_number, timeout=PATIENCE)
            assert receipt.sent
            async with self._came:
                self.acknowledged[round_number] += 1
                self._came.notify_all()

    async def more(self, count: int = 4) -> None:
        """Return once so many more submissions were acknowledged."""
        async with self._came:
            enough = self.acknowledged.total() + count
            await self._came.wait_for(lambda: self.acknowledged.total() >= enough)

    def stop(self) -> None:
        self._stopped = True


class Operator:
    """Turns keys over, waiting for devices after each step."""

    def __init__(self, pipeline: Succeeded, load: DeviceLoad) -> None:
        self._pipeline, self._load = pipeline, load
        settings = pipeline.settings(Role.OPERATOR)
        text = settings.read_text()
        control = pipeline.services[Role.SHUFFLER].addresses["control"]
        settings.write_text(text.replace('shuffler_control = "127.0.0.1:7302"', f'shuffler_control = "{control}"'))

    async def turn(self, kind: str, verb: str, party: Role = Role.OPERATOR) -> None:
        place, kinds = location_of(self._pipeline.settings(party)), ROTATIONS[kind]
        wanted = KeyRequest(authority=self._pipeline.folder.of("operator"))
        change = {
            "add": lambda: kinds.add(place, wanted),
            "activate": lambda: kinds.activate(place),
            "remove": lambda: kinds.remove(place),
        }
        await asyncio.to_thread(change[verb])
        await self._load.more()

    async def master(self) -> None:
        for verb in ("add", "activate", "remove"):
            await self.turn("master", verb)

    async def certificates(self) -> None:
        """Renew those of all three, and wait until the services show theirs."""
        before = {role: self._pipeline.taken(role) for role in SERVICES}
        for role in CORE_ROLES:
            for verb in ("add", "activate", "remove"):
                await self.turn("certificate", verb, role)
        await self._all_have_taken(before)

    async def authority(self) -> None:
        """Give everybody both authorities, then certificates of the new one, and then the new one alone."""
        for verb in ("add", "activate"):
            await self.turn("authority", verb)
            await self._hand_out()
        await self.certificates()
        # Nobody looks here, and the authority of a certificate that somebody may show is not removed.
        shutil.rmtree(self._pipeline.folder.of("reader"))
        await self.turn("authority", "remove")
        await self._hand_out()

    async def _hand_out(self) -> None:
        before = {role: self._pipeline.taken(role) for role in SERVICES}
        bundle = self._pipeline.folder.of("operator") / "tls" / "authority.pem"
        for party in ("shuffler", "analyzer", "client"):
            place = self._pipeline.folder.of(party) / "tls" / "authority.pem"
            # In one step: a device that reads it meanwhile has the one before.
            copy = place.with_suffix(".new")
            shutil.copy(bundle, copy)
            copy.replace(place)
        await self._all_have_taken(before)

    async def _all_have_taken(self, before: dict[Role, int]) -> None:
        while any(self._pipeline.taken(role) == count for role, count in before.items()):
            await self._load.more(1)


async def test_every_kind_of_key_is_turned_over_under_load_and_every_acknowledged_answer_counts_once(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(PATIENCE), Succeeded(draft(), tmp_path / "pipeline") as pipeline:
        load = DeviceLoad(pipeline)
        operator = Operator(pipeline, load)
        async with asyncio.TaskGroup() as group:
            for worker in range(WORKERS):
                group.create_task(load.come(worker))
            await operator.master()
            await operator.certificates()
            await operator.authority()
            for role in SERVICES:
                await pipeline.stop(role)
                await pipeline.start(role)
                await load.more()
            load.stop()
        await check_rounds(pipeline, [load.acknowledged[number] for number in (0, 1)])


async def check_rounds(pipeline: Succeeded, acknowledged: Sequence[int]) -> None:
    pinned = pipeline.task.task.identities
    signed_by = []
    for number, expected in enumerate(acknowledged):
        status = await pipeline.close_round(number)
        assert status.submissions == expected
        # A device whose credential is of a key that is removed between its two rounds redeems its ticket again. Where
        # the machine is busy, a call may be asked to come again.
        assert set(status.refusals) <= {"not_enrolled", "not_ready", "overloaded"}
        results = await pipeline.results(number)
        assert [query.valid for query in results.queries] == [expected]
        verified = verify(results.certificate, Pins(pinned.operator, pinned.shuffler, pinned.analyzer))
        signed_by.append(verified.fingerprints)
    states = {role: ROTATIONS["identity"].held(location_of(pipeline.settings(role))) for role in SERVICES}
    for role, keys in states.items():
        found = {key.state: key.fingerprint for key in keys}
        assert signed_by[0][role.value] == found[KeyState.RETIRED]
        assert signed_by[1][role.value] == found[KeyState.ACTIVE]
    assert signed_by[0]["operator"] == signed_by[1]["operator"]
