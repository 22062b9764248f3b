"""All demonstrations, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hubbub.deploy.demo.scenarios.flights import FLIGHTS
from hubbub.deploy.demo.scenarios.groups import GROUPS
from hubbub.deploy.demo.scenarios.longitudinal import LONGITUDINAL
from hubbub.deploy.demo.scenarios.scenario import Demonstration
from hubbub.deploy.demo.scenarios.text import TEXT
from hubbub.protos.errors import UsageError

GALLERY: Mapping[str, Demonstration] = MappingProxyType(
    {each.name: each for each in (FLIGHTS, LONGITUDINAL, TEXT, GROUPS)}
)
"""Every demonstration, the default first."""


def demonstration(name: str | None) -> Demonstration:
    """Return the demonstration of that name; the first where there is none.

    Raises:
        UsageError: where no demonstration has that name.
    """
    if name is None:
        return next(iter(GALLERY.values()))
    if name not in GALLERY:
        raise UsageError(
            f"--task {name!r} is no demonstration; there are {', '.join(GALLERY)}: hubbub demo --list tells of them"
        )
    return GALLERY[name]
