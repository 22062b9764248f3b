"""A failure is reported whatever it says: a path that is no text would end the process that runs the tests."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Have what a process tells of its tests sent as UTF-8."""
    return _as_text((yield))


def _as_text(data: Any) -> Any:
    """Return data whose texts all have a form in UTF-8."""
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {_as_text(key): _as_text(value) for key, value in data.items()}
    return [_as_text(each) for each in data] if isinstance(data, list | tuple) else data
