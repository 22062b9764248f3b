"""Reads the values of options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from hubbub.protos.errors import UsageError
from hubbub.protos.transport.addresses import HostError, checked_host
from hubbub.queries.errors import shown


def hosts_given(option: str, values: Iterable[str] | None, *, listening: bool = False) -> list[str]:
    """Return the hosts in an option, in their form in settings and certificates.

    Raises:
        UsageError: naming the option.
    """
    try:
        return [checked_host(value, listening=listening) for value in values or ()]
    except HostError as error:
        raise UsageError(f"{option}: {error}") from error


def moment_given(text: str | None) -> int | None:
    """Return a time that people write (2026-12-01T00:00:00Z) in seconds since 1970; None for None.

    Raises:
        UsageError: if it is not one.
    """
    if text is None:
        return None
    try:
        return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())
    except ValueError as error:
        raise UsageError(f"--begins is {shown(text)}; give a time in UTC, such as 2026-12-01T00:00:00Z") from error
