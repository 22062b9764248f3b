"""A real deployment that is there to be attacked: tasks of several rounds, all of which take submissions now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from hubbub.client import Device
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.messages import RoundState, RoundStatus
from hubbub.protos.rpc import ControlCaller
from hubbub.protos.task.admission import AdmissionPolicy
from hubbub.protos.task.schedule import Close, Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities, Privacy, Task
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.query import Query
from support.patience import CALL_SECONDS, pause
from support.samples import MOST, changed

HOUR = 3600
ROUNDS = 4
MINIMUM = 3

PRIVACY = Privacy(epsilon=20.0, delta=0.05, epsilon_local=20.0)
"""As weak as may be, so that three people make a round."""


def task_of(
    name: str, admission: AdmissionPolicy, identities: Identities, queries: tuple[Query, ...], close: Close = "operator"
) -> Task:
    """A frozen task as `Attacked` runs them: its last round is in its time, those before it are in their grace."""
    start = int(time.time()) - (ROUNDS - 1) * HOUR - 5
    schedule = Schedule(start, HOUR, grace=ROUNDS * HOUR, rounds=ROUNDS, close=close)
    return changed(Task(name, schedule, MINIMUM, PRIVACY, queries, identities, admission, MOST))


class Attacked(LocalPipeline):
    """Shuffler and analyzer as processes on loopback; the shuffler has a port for devices with certificates, too."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    def certificate(self, name: str, authority: Authority | None = None) -> TLS:
        """A device's certificate, of the devices' authority or of another, and the authority that it trusts."""
        if authority is None:
            assert self.issuer is not None
            return TLS(self.authority, *self.issuer.files(name))
        certificate, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        authority.issue(name, [], certificate, key)
        return TLS(self.authority, certificate, key)

    def identity(self, role: Role) -> Identity:
        """A party's private key."""
        return Identity.load(self.folder.identity(role))

    def named(self, name: str) -> SignedTask:
        """The task of that name."""
        (found,) = [each for each in self.tasks if each.task.name == name]
        return found

    def device_of(self, name: str, task: SignedTask | None = None, **changes: Any) -> Device:
        """A device with a state file of its own, or with what else is given for it."""
        arguments: dict[str, Any] = {
            "operator_key": self.operator_key,
            "shuffler_key": self.shuffler_key,
            "state": self.folder.of("client") / f"{name}.db",
            "shuffler": self.shuffler,
            "authority": self.authority,
            "ticket": self.ticket(name),
        }
        return Device((task or self.task).encode(), **{**arguments, **changes})

    async def close(self, task: Task, number: int) -> RoundStatus:
        """Cut a round of any of the tasks, as the operator."""
        async with open_channel(self.services[Role.SHUFFLER].addresses["control"], self.operator_tls) as channel:
            return await ControlCaller(channel).close_round(task.id, number, CALL_SECONDS)

    async def round_status(self, task: Task, number: int) -> RoundStatus:
        """What the shuffler says of a round."""
        async with open_channel(self.services[Role.SHUFFLER].addresses["control"], self.operator_tls) as channel:
            found = await ControlCaller(channel).get_status(task.id, CALL_SECONDS)
        return next(each for each in found if each.round == number)

    async def erased(self, number: int, task: Task | None = None) -> None:
        """Return once a round, of the first task unless another is named, is erased at the shuffler."""
        while (await self.round_status(task or self.task.task, number)).state is not RoundState.ERASED:
            await pause()

    def files_of(self, *parties: str) -> dict[Path, bytes]:
        """Every file of these parties, and every log, with what it holds."""
        folders: Sequence[Path] = [*(self.folder.of(party) for party in parties), self.logs]
        return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}
