"""Lists all scenarios by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hubbub.deploy.demo.scenarios.flights import FLIGHTS
from hubbub.deploy.demo.scenarios.groups import GROUPS
from hubbub.deploy.demo.scenarios.longitudinal import LONGITUDINAL
from hubbub.deploy.demo.scenarios.scenario import Scenario
from hubbub.deploy.demo.scenarios.text import TEXT
from hubbub.protos.errors import UsageError

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {each.name: each for each in (FLIGHTS, LONGITUDINAL, TEXT, GROUPS)}
)
"""Every scenario, the default first."""


def scenario_named(name: str | None) -> Scenario:
    """Return the scenario of that name; the first for None.

    Raises:
        UsageError: if no scenario has that name.
    """
    if name is None:
        return next(iter(SCENARIOS.values()))
    if name not in SCENARIOS:
        raise UsageError(
            f"--task {name!r} is not a scenario; give {', '.join(SCENARIOS)} (`hubbub demo --list` describes them)"
        )
    return SCENARIOS[name]
