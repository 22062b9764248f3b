"""Values of options that several commands take."""

from __future__ import annotations

from collections.abc import Iterable

from hubbub.deploy.errors import BadUse
from hubbub.protos.hosts import HostError, checked_host


def hosts_given(option: str, values: Iterable[str] | None, *, listening: bool = False) -> list[str]:
    """Return the hosts that an option was given, as they go into settings and certificates.

    Raises:
        BadUse: naming the option.
    """
    try:
        return [checked_host(value, listening=listening) for value in values or ()]
    except HostError as error:
        raise BadUse(f"{option}: {error}") from error
