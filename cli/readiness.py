"""A service prints its addresses once it serves; where stdout takes nothing, it serves all the same."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping

from hubbub.cli import stdio
from hubbub.cli.output import print_json

_LOG = logging.getLogger(__name__)


def announcer(service: str, as_json: bool) -> Callable[[Mapping[str, str]], None]:
    """Return what prints a service's addresses as JSON; where stdout takes nothing, that is logged."""

    def announce(addresses: Mapping[str, str]) -> None:
        if not as_json:
            return
        try:
            print_json({"service": service, "addresses": dict(addresses)})
        except (OSError, ValueError) as error:
            _LOG.warning("the addresses could not be printed: %s", error)
            # What could not be written would be tried again when the process ends.
            stdio.finish(sys.stdout)

    return announce
