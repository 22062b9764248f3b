"""Prints a service's addresses once it serves; if stdout cannot be written, the service still serves."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping

from hubbub.cli.terminal import stdio
from hubbub.cli.terminal.output import print_json

_LOG = logging.getLogger(__name__)


def announcer(service: str, as_json: bool) -> Callable[[Mapping[str, str]], None]:
    """Return a function that prints a service's addresses as JSON; if that fails, it logs a warning."""

    def announce(addresses: Mapping[str, str]) -> None:
        if not as_json:
            return
        try:
            print_json({"service": service, "addresses": dict(addresses)})
        except (OSError, ValueError) as error:
            _LOG.warning("the addresses could not be printed: %s", error)
            # Otherwise Python would try to write it again when the process ends.
            stdio.finish(sys.stdout)

    return announce
