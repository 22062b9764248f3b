"""A short soak, and that a long one would notice what it is there to notice."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from hubbub.protos.identity.keys import Role


def load() -> ModuleType:
    """The script, which is no module of a package."""
    specification = importlib.util.spec_from_file_location("soak_run", Path(__file__).parent / "run.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["soak_run"] = module
    specification.loader.exec_module(module)
    return module


RUN = load()


# tests/simulation breaks services amid rounds, and the tests below have what a soak would notice.
@pytest.mark.exhaustive
def test_a_short_soak_keeps_every_promise(tmp_path: Path) -> None:
    rounds: list[object] = []
    found = asyncio.run(asyncio.wait_for(RUN.soak(tmp_path / "pipeline", 5.0, 100.0, 1.5, rounds.append), 400))
    assert len(rounds) >= 2 * len(RUN.FAULTS)
    assert [promise for promise, (kept, _) in found.items() if not kept] == [], found
    assert len(found) == 7


def soaked(number: int, *, mebibytes: float = 100.0, files: int = 20) -> object:
    use = {role: RUN.Use(mebibytes, files) for role in (Role.SHUFFLER, Role.ANALYZER)}
    return RUN.SoakedRound(number, "", 100, 3, 100, (100, 100), 1.0, use, 3.0 * number)


def broken(rounds: list[object], depth: float = 0.0, incident: float = 0.0) -> set[str]:
    return {promise for promise, (kept, _) in RUN.verdicts(rounds, depth, incident).items() if not kept}


def test_steady_rounds_keep_every_promise() -> None:
    noisy = [soaked(number, mebibytes=100.0 + 7 * (number % 3)) for number in range(20)]
    assert broken(noisy) == set()


def test_memory_that_grows_is_noticed_and_one_outlier_is_not() -> None:
    growing = [soaked(number, mebibytes=100.0 + 2 * number) for number in range(20)]
    assert broken(growing) == {"shuffler: memory flat", "analyzer: memory flat"}
    spike = [soaked(number, mebibytes=400.0 if number == 19 else 100.0) for number in range(20)]
    assert broken(spike) == set()


def test_descriptors_that_stay_open_are_noticed() -> None:
    leaking = [soaked(number, files=20 + number) for number in range(4)]
    assert len(broken(leaking)) == 2


@pytest.mark.parametrize("change", [{"submissions": 99}, {"submissions": 101}, {"valid": (100, 99)}])
def test_counts_that_do_not_add_up_are_noticed(change: dict[str, object]) -> None:
    rounds = [soaked(number) for number in range(4)]
    rounds[2] = replace(rounds[2], **change)  # type: ignore[type-var]
    assert broken(rounds) == {"each acknowledged device counted once"}


def test_lost_refusals_and_work_left_over_are_noticed() -> None:
    rounds = [soaked(number) for number in range(4)]
    rounds[3] = replace(rounds[3], refused=8.0)  # type: ignore[type-var]
    assert broken(rounds) == {"refusals add up"}
    assert broken(rounds[:3], depth=1.0) == broken(rounds[:3], incident=1.0) == {"queues empty, no incidents"}
