"""What ends a service."""

from __future__ import annotations

import io
import sys

import pytest

from hubbub.service.transport.ports import ENDS_WITH_STDIN, asked_to_stop


@pytest.mark.parametrize("value", [None, ""])
async def test_a_service_that_is_not_asked_to_end_with_its_stdin_does_not_look_at_it(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """An empty variable is one that nobody set: a service with a closed stdin would end at once."""
    monkeypatch.delenv(ENDS_WITH_STDIN, raising=False)
    if value is not None:
        monkeypatch.setenv(ENDS_WITH_STDIN, value)
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # it has no number of a file: to look at it is an error
    with asked_to_stop(None) as asked:
        assert not asked.is_set()
