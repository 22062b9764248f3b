"""A device is never given one that it has to refuse for its time."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.analyzer.conftest import Bench

from hubbub.client.session.rounds import VerifiedRoundKeys, choose_round
from hubbub.protos.task.schedule import Schedule, forgotten_after, prepared_from
from hubbub.shuffler.keys import make_keys

YEAR = 365 * 86_400


@st.composite
def moments(draw: st.DrawFn) -> tuple[Schedule, int, float]:
    """A schedule, one of its rounds, and a moment of a device's clock at which it may seal for that round.

    It may from when the shuffler gives out keys, by a clock that is up to a day slow, until it forgets the round.
    """
    grace = draw(st.one_of(st.integers(0, 86_400), st.integers(86_401, YEAR)))
    schedule = Schedule(draw(st.integers(2 * YEAR, 60 * YEAR)), draw(st.integers(1, 2 * YEAR)), grace, 100)
    number = draw(st.integers(0, 99))
    first, last = prepared_from(schedule, number) - 86_400, forgotten_after(schedule, number)
    return schedule, number, draw(st.one_of(st.sampled_from([first, last]), st.floats(first, last)))


@settings(max_examples=40, deadline=None)
@given(moments())
async def test_every_key_record_is_valid_whenever_a_device_may_seal(found: tuple[Schedule, int, float]) -> None:
    schedule, number, now = found
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), schedule=schedule)
        await bench.start()
        analyzer = await bench.receiver.get_key(bench.task.id, number)
        keys = make_keys(bench.task, number, bench.parties.shuffler, analyzer)
        await bench.stop()
    assert choose_round(bench.task, number, now) == number
    VerifiedRoundKeys.read(keys.key_set, bench.task, number).sealer(now)
