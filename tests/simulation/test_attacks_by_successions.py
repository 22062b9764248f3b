"""Successions of identities in a running deployment: published while devices submit, forked, taken back, many at once.

Services are real processes whose clocks are put forward (`support.shifted_clock`), so that successions begin between
rounds of one task. Devices that were away meanwhile follow all of them at once.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from simulation import disk

from hubbub.client import Device, Retrying, RetryPolicy
from hubbub.deploy.init.folders import initialize
from hubbub.deploy.local.pipeline import Freeze, LocalPipeline
from hubbub.deploy.local.process import ServiceError
from hubbub.deploy.pki.rotation.key import location_of
from hubbub.deploy.pki.rotation.registry import ROTATIONS
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import MOST_SUCCESSIONS, Succession
from hubbub.protos.messages import KeyState
from hubbub.protos.task.schedule import Schedule, prepared_from
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.service.runtime.own_identities import own_identity
from hubbub.service.runtime.succession_files import load_successions
from hubbub.verification.certificate import Pins, verify
from support.cli import hubbub
from support.patience import PATIENCE, pause
from support.samples import FEW
from support.shifted_clock import PROGRAM, set_ahead

HOUR = 3600
SERVICES = (Role.SHUFFLER, Role.ANALYZER)
ROUNDS = 6
PEOPLE = 6


def draft(rounds: int = ROUNDS) -> Draft:
    """A round an hour; the keys of the first two are made at the start, and those of each later one in its time."""
    schedule = Schedule(int(time.time()) - 5, HOUR, grace=600, rounds=rounds, close="operator")
    privacy = Privacy(epsilon=20.0, delta=1e-2, epsilon_local=20.0, large_delta=FEW)
    return Draft("kiosks", schedule, PEOPLE, privacy, (Histogram("theme", ("dark", "light")),))


class Succeeding(LocalPipeline):
    """A pipeline whose parties have successors, and whose clocks are put forward together."""

    def __init__(self, asked: Draft, directory: Path) -> None:
        super().__init__(asked, directory, programs={role: (*PROGRAM, role.value) for role in SERVICES})
        self.ahead = 0.0

    def clock(self) -> float:
        return time.time() + self.ahead

    def party(self, role: Role) -> Identity:
        return Identity.load(self.folder.identity(role))

    def succession(self, role: Role, old: Identity, new: Identity, begins: int) -> Succession:
        """Signed by all three, whoever made it."""
        operator = self.party(Role.OPERATOR)
        made = Succession(role, old.public, new.public, operator.public, begins)
        for signer in (old, new, operator):
            made = made.signed_by(signer)
        return made

    def file(self, at: Role, name: str) -> Path:
        return self.folder.of(at.value) / "successions" / f"{name}.json"

    def give(self, at: Role, **successions: Succession) -> None:
        """Put successions into a party's folder."""
        for name, each in successions.items():
            self.file(at, name).write_bytes(each.encode())

    async def later(self, seconds: float) -> None:
        """Put all clocks forward; services look at them when they start."""
        self.ahead += seconds
        for role in SERVICES:
            await self.stop(role)
            set_ahead(self.folder.of(role.value), self.ahead)
        for role in (Role.ANALYZER, Role.SHUFFLER):
            await self.start(role)

    async def restarted(self, role: Role) -> str:
        """Start a service again; return why it does not serve."""
        await self.stop(role)
        try:
            await self.start(role)
        except ServiceError as error:
            return str(error)
        return ""

    def person(self, name: str) -> Device:
        return Device(
            self.task.encode(),
            operator_key=self.operator_key,
            shuffler_key=self.shuffler_key,
            state=self.folder.of("client") / f"{name}.db",
            shuffler=self.shuffler,
            authority=self.authority,
            ticket=self.ticket(name),
            clock=self.clock,
            retrying=Retrying(RetryPolicy(total=120.0, call=5.0, longest_pause=0.5)),
        )

    async def answer(self, name: str, number: int) -> None:
        async with self.person(name) as device:
            assert (await device.submit({"theme": "dark"}, number)).sent

    async def counted(self, number: int) -> tuple[int, str]:
        """Close a round; return how many are in its certificate, and who signed as the shuffler.

        It is verified by the keys of the beginning.
        """
        await self.close_round(number)
        found = await self.results(number)
        named = self.task.task.identities
        verified = verify(found.certificate, Pins(named.operator, named.shuffler, named.analyzer))
        (query,) = found.queries
        return query.valid, verified.fingerprints["shuffler"]

    async def waiting(self, number: int) -> str:
        return next(each.waiting_for for each in await self.status() if each.round == number)


# tests/unit/client/session/test_followed_successions.py and tests/unit/analyzer/test_signers.py have each part of it.
@pytest.mark.exhaustive
async def test_successions_that_begin_while_devices_are_away_are_followed_and_others_change_nothing(
    tmp_path: Path,
) -> None:
    people = [f"person {number}" for number in range(PEOPLE)]
    async with asyncio.timeout(PATIENCE), Succeeding(draft(), tmp_path / "pipeline") as running:
        schedule, first = running.task.task.schedule, running.party(Role.SHUFFLER)
        second, third, other = (Identity.generate() for _ in range(3))
        begins = [prepared_from(schedule, number) for number in range(ROUNDS)]
        one = running.succession(Role.SHUFFLER, first, second, begins[2])
        two = running.succession(Role.SHUFFLER, second, third, begins[3])
        fork = running.succession(Role.SHUFFLER, second, other, begins[3])
        for name, each in (("second", second), ("third", third)):
            each.save(running.folder.of("shuffler") / f"identity-{name}.pem")

        # Published while devices submit, at one party after the other, each of which is killed for it.
        async def published() -> None:
            for role in SERVICES:
                running.give(role, one=one)
                await running.kill(role)
                await running.start(role)
                running.give(role, two=two)
                await running.kill(role)
                await running.start(role)

        await asyncio.gather(published(), *(running.answer(name, 0) for name in people))
        assert await running.counted(0) == (PEOPLE, fingerprint(first.public))

        # Devices that were away follow two successions at once, and so does one that nobody knew before.
        await running.later(3 * HOUR + 300)
        for number, signer in ((2, second), (3, third)):
            await asyncio.gather(*(running.answer(name, number) for name in (*people, "a newcomer")))
            assert await running.counted(number) == (PEOPLE + 1, fingerprint(signer.public))

        # The analyzer is given another successor: it takes nothing of that round until it has the right one.
        await running.later(HOUR)
        running.file(Role.ANALYZER, "two").unlink()
        running.give(Role.ANALYZER, fork=fork)
        assert await running.restarted(Role.ANALYZER) == ""
        await asyncio.gather(*(running.answer(name, 4) for name in people))
        await running.close_round(4)
        while "refused, bad_record" not in (waiting := await running.waiting(4)):
            assert "refused" not in waiting
            await pause()
        running.give(Role.ANALYZER, two=two)
        assert "is a fork" in await running.restarted(Role.ANALYZER)
        running.file(Role.ANALYZER, "fork").unlink()
        assert await running.restarted(Role.ANALYZER) == ""
        assert await running.counted(4) == (PEOPLE, fingerprint(third.public))

        # The shuffler is given an old copy of its successions: it names the round, and serves nobody.
        running.file(Role.SHUFFLER, "two").unlink()
        said = await running.restarted(Role.SHUFFLER)
        assert "were given out before a succession arrived that begins earlier, or under one that is missing" in said
        running.give(Role.SHUFFLER, two=two)
        assert await running.restarted(Role.SHUFFLER) == ""


async def test_a_deployment_with_as_many_successions_as_there_may_be_counts_a_round(tmp_path: Path) -> None:
    """And with one more no service starts."""

    class Many(Succeeding):
        """Half of the successions are the shuffler's, half the analyzer's; all of them are over."""

        def _signed(self, freeze: Freeze) -> tuple[SignedTask, ...]:
            signed = super()._signed(freeze)
            self.made: list[Succession] = []
            for role in SERVICES:
                last = self.party(role)
                for number in range(MOST_SUCCESSIONS // 2):
                    following = Identity.generate()
                    self.made.append(self.succession(role, last, following, number + 1))
                    last = following
                last.save(self.folder.of(role.value) / "identity-last.pem")
            for number, each in enumerate(self.made):
                for role in SERVICES:
                    self.give(role, **{f"{number:02}": each})
            self.last = last
            return signed

    async with asyncio.timeout(PATIENCE), Many(draft(rounds=1), tmp_path / "pipeline") as running:
        await asyncio.gather(*(running.answer(f"person {number}", 0) for number in range(PEOPLE)))
        assert (await running.counted(0))[0] == PEOPLE
        for role in SERVICES:
            running.give(role, more=running.succession(Role.ANALYZER, running.last, Identity.generate(), 1000))
            said = await running.restarted(role)
            assert f"there are {MOST_SUCCESSIONS + 1} successions; at most {MOST_SUCCESSIONS} are allowed" in said


# tests/cli/test_keys.py has each step done twice, which is what is left of a step that was cut.
@pytest.mark.exhaustive
@pytest.mark.parametrize("what", ["write", "sync"])
def test_a_succession_that_is_made_and_published_is_never_left_half_done(what: str, tmp_path: Path) -> None:
    """Each command is killed at each of its writes and syncs and run again; then the party has one successor."""
    library, killed = disk.build(tmp_path), 0
    words = [sys.executable, "-m", "hubbub.cli.main"]
    for count in itertools.count(1):
        folder = initialize(tmp_path / f"{what}-{count}")
        settings, operator = folder.of("shuffler") / "shuffler.toml", folder.identity(Role.OPERATOR)
        deaths = 0
        for step in ("add", "sign", "activate"):
            (draft,) = folder.of("shuffler").glob("succession-*.json") if step != "add" else (Path(),)
            command = ["sign", draft, "--key", operator] if step == "sign" else ["keys", step, "identity", settings]
            point = f"{'before' if count % 2 else 'after'} {what} {(count + 1) // 2}"
            environment = disk.environment(library, folder.root, tmp_path / "log", DISK_KILL=point)
            ran = subprocess.run([*words, *command], env=environment, capture_output=True, check=False)
            assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
            deaths += ran.returncode != 0
            assert hubbub(*command).status == 0
        location = location_of(settings)
        states = [key.state for key in ROTATIONS["identity"].held(location)]
        assert states == [KeyState.ACTIVE, KeyState.PENDING]
        (made,) = load_successions(location.successions)
        identity = own_identity(folder.identity(Role.SHUFFLER), Role.SHUFFLER, [made])
        assert identity.named(made.new).public == made.new
        killed += deaths
        if not deaths and count % 2 == 0:
            break
    assert killed >= 4
