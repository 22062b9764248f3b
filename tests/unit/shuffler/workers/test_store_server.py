"""The oblivious key follows from the master keys, and every identity of the shuffler signs it, each day anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hubbub.protos.enrollment.admitted import MasterSecret, Revoked
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.keys import Identity
from hubbub.protos.messages import KeyState
from hubbub.protos.oblivious.encapsulation import UnknownObliviousKey, seal_request
from hubbub.protos.oblivious.key_records import STEP_SECONDS, ObliviousRecord, read_oblivious_record
from hubbub.shuffler.admit import enrollment
from hubbub.shuffler.admit.enrollment import EnrollmentControl, Rate
from hubbub.shuffler.workers.store_server import SharedCredentials
from support.patience import pause
from vectors.make_signed import vector_succession

NOW = 1_800_000_000.0
FIRST, SECOND = Identity.generate(), Identity.generate()


class Stored:
    """A store with master keys, all else left out."""

    def __init__(self, *masters: MasterSecret) -> None:
        self.held = list(masters)
        self.reads = 0

    async def masters(self) -> list[MasterSecret]:
        self.reads += 1
        return list(self.held)

    async def revoked(self) -> Revoked:
        return Revoked()


def master(generation: int, state: KeyState) -> MasterSecret:
    return MasterSecret(generation, bytes([generation % 256]) * 32, state, 0)


ACTIVE = master(2, KeyState.ACTIVE)


async def read(
    *masters: MasterSecret, identity: Identity = FIRST, now: float = NOW, successions: Sequence[Any] = ()
) -> SharedCredentials:
    found, store = SharedCredentials(identity, successions, lambda: now), Stored(*masters)
    await found.read(store)  # type: ignore[arg-type] # what else a store has is not asked for
    return found


def record(credentials: SharedCredentials, identity: Identity = FIRST, now: float = NOW) -> ObliviousRecord:
    return read_oblivious_record(credentials.oblivious_records, lambda _: identity.public, now)


async def test_the_active_key_is_signed_and_those_before_and_after_it_open() -> None:
    old, new = master(1, KeyState.RETIRED), master(3, KeyState.PENDING)
    found = await read(old, ACTIVE, new)
    assert record(found).configuration.key_id == 2
    for each in (old, ACTIVE, new):
        alone = await read(MasterSecret(each.generation, each.secret, KeyState.ACTIVE, 0))
        sealed, _ = seal_request(record(alone).configuration, b"a request")
        assert found.oblivious_keys.open(sealed)[0] == b"a request"
    with pytest.raises(UnknownObliviousKey):
        (await read(ACTIVE)).oblivious_keys.open(seal_request(record(await read(old)).configuration, b"")[0])


async def test_the_key_depends_on_the_master_key_alone_and_does_not_show_it() -> None:
    first, second = await read(ACTIVE), await read(ACTIVE, identity=SECOND)
    assert record(first) == record(second, SECOND)
    assert record(first) != record(await read(MasterSecret(2, bytes(32), KeyState.ACTIVE, 0)))
    assert ACTIVE.secret not in first.oblivious_records
    assert ACTIVE.secret.hex().encode() not in first.oblivious_records


async def test_every_identity_of_the_shuffler_signs_and_no_other() -> None:
    found = await read(ACTIVE, identity=FIRST.beside([SECOND]), successions=[vector_succession()])
    assert record(found) == record(found, SECOND)
    with pytest.raises(SignatureError):
        record(found, Identity.generate())
    told = list[Sequence[bytes]]()
    read_oblivious_record(found.oblivious_records, lambda each: (told.append(each), FIRST.public)[1], NOW)
    assert told == [[vector_succession().encode()]]


async def test_workers_get_the_signed_key_with_the_master_keys() -> None:
    found = await read(ACTIVE)
    assert found.admitted.oblivious_records == found.oblivious_records != b""


async def test_without_a_master_key_nothing_is_signed() -> None:
    assert (await read()).oblivious_records == b""


async def test_a_generation_beyond_a_byte_has_the_lowest_byte_as_its_id() -> None:
    assert record(await read(master(257, KeyState.ACTIVE))).configuration.key_id == 1


async def test_while_the_service_runs_the_key_is_signed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrollment, "RENEW_SECONDS", 0.0)
    now = [NOW]
    credentials, store = SharedCredentials(FIRST, (), lambda: now[0]), Stored(ACTIVE)
    await credentials.read(store)  # type: ignore[arg-type] # as above
    before = record(credentials)
    now[0] += STEP_SECONDS
    clock: Any = lambda: now[0]  # noqa: E731
    kept: Any = store
    control = EnrollmentControl(credentials, kept, (), (), clock, Rate(1.0))
    async with control.renewed():
        while record(credentials, now=now[0]) == before:
            await pause()
    assert record(credentials, now=now[0]).not_after == before.not_after + STEP_SECONDS
