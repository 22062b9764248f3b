"""Honest devices with the client's own code, and one who sends whatever it likes."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from simulation.model import CARRIERS, told
from simulation.network import DeviceLine
from simulation.parties import Life, Party, watched

from hubbub.client import Device, Fleet, Retrying, RetryPolicy
from hubbub.client.session.session import Session
from hubbub.client.state.longitudinal import MemoryUpdate
from hubbub.client.state.rounds import Drawn
from hubbub.client.state.store import State
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination, Sealer
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.queries.questions.question import Value
from support.krr_queries import INNER_BYTES, report

if TYPE_CHECKING:
    from simulation.world import Simulation

RETRY_POLICY = RetryPolicy(total=40.0, call=5.0)


@cache
def authority() -> bytes:
    """A certificate: a device wants one, although nothing is encrypted here on the way."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "authority.pem"
        Authority.generate().save_certificate(path)
        return path.read_bytes()


class Answers(dict[str, Value]):
    """What a device answers, and which one it is."""

    def __init__(self, device: str, carrier: str, delay: float | None) -> None:
        super().__init__(carrier=carrier, delay=delay)
        self.device = device


class Recorder:
    """A device's randomness: from a seed, and read along, so that the model knows what the device will report."""

    def __init__(self, seed: str, world: Simulation) -> None:
        self._random = Random(seed)
        self._world = world
        self._drawn: list[int] = []
        self._answers = Answers("", CARRIERS[0], None)

    def begin(self, answers: Mapping[str, Value]) -> None:
        """From now on, draws are for these answers; the id of their submission is drawn last."""
        assert isinstance(answers, Answers)
        self._answers = answers
        self._drawn.clear()

    def __call__(self, width: int) -> bytes:
        drawn = self._random.randbytes(width)
        if width == 4:
            self._drawn.append(int.from_bytes(drawn, "big"))
        elif width == SUBMISSION_ID_BYTES:  # else it is the secret that a ticket is redeemed by
            self._world.model.sealed(self._answers.device, drawn, told(self._answers, iter(self._drawn)))
        return drawn


class _Link:
    """The client's link to the shuffler (`submit.Link`)."""

    def __init__(self, line: DeviceLine) -> None:
        self.caller = line

    async def close(self) -> None:
        """Nothing is open."""


class _Simulated:
    """A client over the simulated network, with files that may be killed and randomness that is read along."""

    _session: Session

    def __init__(self, party: DeviceParty, life: Life, **arguments: Any) -> None:
        super().__init__(**arguments)
        session, recorder = self._session, party.recorder
        session.link = _Link(DeviceLine(party.world, life))  # type: ignore[assignment]
        self._state = session.state = session.enrolled.state = State(arguments["state"], connection=watched(life))
        draw = session.draw

        def recorded(
            answers: Mapping[str, Value], number: int, kept: str | None, _random: Callable[[int], bytes]
        ) -> tuple[Drawn, MemoryUpdate | None]:
            recorder.begin(answers)
            # Not `_random`: a fleet's draws for several devices at a time.
            return draw(answers, number, kept, recorder)

        session.draw = recorded  # type: ignore[method-assign]


class SimulatedDevice(_Simulated, Device):
    """A device."""


class SimulatedFleet(_Simulated, Fleet):
    """A fleet."""


class DeviceParty(Party):
    """A device, or a fleet for several, and its state file."""

    client: Any

    def __init__(self, name: str, folder: Path, world: Simulation, kind: type[_Simulated] = SimulatedDevice) -> None:
        super().__init__(name, folder, world)
        self.recorder = Recorder(f"{world.seed} {name}", world)
        self.busy = False
        self._kind = kind

    async def _begin(self, life: Life) -> None:
        world, loop = self.world, asyncio.get_running_loop()
        self.client = self._kind(
            self,
            life,
            task=world.signed.encode(),
            operator_key=world.parties.operator.public,
            shuffler_key=world.parties.shuffler.public,
            state=life.folder / "state.db",
            shuffler="shuffler:1",
            authority=authority(),
            **self._tickets(),
            retrying=Retrying(RETRY_POLICY, loop.time, asyncio.sleep, world.random),
            random=self.recorder,
            clock=self.clock,
        )

    def _tickets(self) -> dict[str, Any]:
        if issubclass(self._kind, Fleet):
            return {"tickets": lambda device: self.world.ticket(f"{self.name} {device}")}
        return {"ticket": self.world.ticket(self.name)}

    async def _end(self, _life: Life) -> None:
        await self.client.close()


class Stranger(Party):
    """Sends whatever it likes, and tells the model what the services may make of it."""

    kept: list[tuple[Destination, Submission]]

    async def _begin(self, life: Life) -> None:
        self.kept = getattr(self, "kept", [])
        self._line = DeviceLine(self.world, life)

    async def _end(self, _life: Life) -> None:
        self.kept.clear()

    async def misbehave(self, kind: str, number: int) -> None:
        """Do one bad thing in the round that is on, where its keys can be had."""
        task = self.world.task
        round_number = task.schedule.round_at(self.clock()) or 0
        if kind == "replay" and self.kept:
            sends = [self.kept[number % len(self.kept)]]
            return await self._send(sends)
        try:
            key_set = await self._line.get_round(task.id, round_number, 5.0)
            identities = task.identities
            records = key_set.read(task.id, round_number, task.suite, identities.shuffler, identities.analyzer)
            here = Destination(task.id, round_number, key_set.hash)
            keys = [record.public_key for record in records]
        except HubbubError:
            return None
        return await self._send(getattr(self, f"_{kind}")(here, keys, number))

    async def _send(self, sends: list[tuple[Destination, Submission]]) -> None:
        for destination in dict.fromkeys(destination for destination, _ in sends):
            group = [submission for to, submission in sends if to == destination]
            with contextlib.suppress(HubbubError):
                await self._line.submit_batch(destination, group, 5.0)

    def _seal(
        self, here: Destination, keys: list[bytes], symbols: tuple[int, int], submission_id: bytes | None = None
    ) -> Submission:
        """A good submission, noted."""
        sealer = Sealer(here, *keys)
        inners = [sealer.inner(report(symbol), query) for query, symbol in enumerate(symbols)]
        return self._outer(sealer, inners, symbols, submission_id)

    def _outer(
        self,
        sealer: Sealer,
        inners: list[bytes],
        symbols: tuple[int | None, ...] | None,
        submission_id: bytes | None = None,
    ) -> Submission:
        submission_id = submission_id or self.world.random(16)
        envelope = sealer.outer(inners, submission_id)
        content = None if symbols is None else tuple(zip(inners, symbols, strict=True))
        self.world.model.by_envelope[envelope] = content
        return Submission(submission_id, envelope)

    def _good(self, here: Destination, keys: list[bytes], number: int) -> list[tuple[Destination, Submission]]:
        self.kept.append((here, self._seal(here, keys, (number % 3, number % 9))))
        return self.kept[-1:]

    def _truncated(self, here: Destination, keys: list[bytes], number: int) -> list[tuple[Destination, Submission]]:
        whole = self._seal(here, keys, (0, 0))
        return [(here, Submission(whole.id, whole.envelope[: number % 152]))]

    def _oversized(self, here: Destination, keys: list[bytes], number: int) -> list[tuple[Destination, Submission]]:
        whole = self._seal(here, keys, (0, 0))
        return [(here, Submission(whole.id, whole.envelope + bytes(1 + number)))]

    def _malformed(self, here: Destination, keys: list[bytes], number: int) -> list[tuple[Destination, Submission]]:
        whole = self._seal(here, keys, (0, 0))
        self.kept.append((here, whole))
        return [(here, Submission(whole.id[: number % 16], whole.envelope)), (here, whole)]

    def _garbled(self, here: Destination, keys: list[bytes], number: int) -> list[tuple[Destination, Submission]]:
        whole = self._seal(here, keys, (0, 0))
        at = number % len(whole.envelope)
        changed = bytes([*whole.envelope[:at], whole.envelope[at] ^ 1, *whole.envelope[at + 1 :]])
        self.world.model.by_envelope[changed] = None
        return [(here, Submission(whole.id, changed))]

    def _wrong_key(self, here: Destination, keys: list[bytes], _number: int) -> list[tuple[Destination, Submission]]:
        sealer = Sealer(here, DEFAULT.generate_key()[1], keys[1])
        return [(here, self._outer(sealer, [sealer.inner(report(0), 0), sealer.inner(report(0), 1)], None))]

    def _wrong_inner(self, here: Destination, keys: list[bytes], number: int) -> list[tuple[Destination, Submission]]:
        sealer, other = Sealer(here, *keys), Sealer(here, keys[0], DEFAULT.generate_key()[1])
        inners = [other.inner(report(0), 0), sealer.inner(report(number % 9), 1)]
        return [(here, self._outer(sealer, inners, (None, number % 9)))]

    def _wrong_task(self, here: Destination, keys: list[bytes], _number: int) -> list[tuple[Destination, Submission]]:
        there = Destination(bytes(32), here.round, here.key_set_hash)
        sealed = Sealer(there, *keys)
        submission = self._outer(sealed, [sealed.inner(report(0), 0), sealed.inner(report(0), 1)], None)
        return [(there, submission), (here, submission)]

    def _wrong_round(self, here: Destination, keys: list[bytes], _number: int) -> list[tuple[Destination, Submission]]:
        return [(Destination(here.task_id, 99, here.key_set_hash), self._seal(here, keys, (0, 0)))]

    def _wrong_keys(self, here: Destination, keys: list[bytes], _number: int) -> list[tuple[Destination, Submission]]:
        return [(Destination(here.task_id, here.round, bytes(32)), self._seal(here, keys, (0, 0)))]

    def _wrong_symbol(self, here: Destination, keys: list[bytes], number: int) -> list[tuple[Destination, Submission]]:
        return [(here, self._seal(here, keys, (3 + number, 2**32 - 1)))]

    def _short(self, here: Destination, keys: list[bytes], _number: int) -> list[tuple[Destination, Submission]]:
        sealer = Sealer(here, *keys)
        only = self._outer(sealer, [sealer.inner(report(0), 0)], None)
        return [(here, only)]

    def _shifted(self, here: Destination, keys: list[bytes], _number: int) -> list[tuple[Destination, Submission]]:
        """A report a byte too long and one a byte too short: together as long as all are."""
        sealer = Sealer(here, *keys)
        joined = sealer.inner(report(0) + b"\0", 0) + sealer.inner(report(0)[1:], 1)
        inners = [joined[:INNER_BYTES], joined[INNER_BYTES:]]
        return [(here, self._outer(sealer, inners, (None, None)))]

    def _copied(self, here: Destination, keys: list[bytes], number: int) -> list[tuple[Destination, Submission]]:
        """Two submissions that hold the same envelope for the first query."""
        sealer = Sealer(here, *keys)
        same, symbols = sealer.inner(report(number % 3), 0), (number % 3, number % 9)
        made = [self._outer(sealer, [same, sealer.inner(report(number % 9), 1)], symbols) for _ in range(2)]
        assert len(same) == INNER_BYTES
        return [(here, each) for each in made]

    def _same_id(self, here: Destination, keys: list[bytes], number: int) -> list[tuple[Destination, Submission]]:
        """Other bytes under an id that was used before, by this one or by a device."""
        known = sorted({*self.world.model.first_bytes, *(each.id for _, each in self.kept)})
        if not known:
            return self._good(here, keys, number)
        return [(here, self._seal(here, keys, (0, 0), known[number % len(known)]))]

    def _replay(self, here: Destination, keys: list[bytes], number: int) -> list[tuple[Destination, Submission]]:
        """Where nothing was sent before: something to send again later."""
        return self._good(here, keys, number)


MISDEEDS = tuple(
    sorted(
        name[1:]
        for name in vars(Stranger)
        if name.startswith("_")
        and name not in ("_seal", "_outer", "_begin", "_end", "_send")
        and not name.startswith("__")
    )
)
