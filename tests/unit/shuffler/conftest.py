"""A running shuffler for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from unit.shuffler.world import BY_OPERATOR, World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.start()
    yield world
    await world.stop()


@pytest.fixture
async def operated(tmp_path: Path) -> AsyncIterator[World]:
    """A shuffler whose task is closed by the operator."""
    world = World(tmp_path, BY_OPERATOR)
    await world.start()
    yield world
    await world.stop()
