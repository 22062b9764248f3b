"""A store on a server is killed, and fails, in a run of its own for each change."""

from __future__ import annotations

import pytest

_LONG = ("test_killed_", "test_a_disk_that_is_full_at_any_change")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name.startswith(_LONG) and "[postgres" in item.name:
            item.add_marker(pytest.mark.slow)
