"""Standard streams of the services: closed ones are filled, and one that takes nothing stops no service."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping

from hubbub.deploy.output import print_json

_LOG = logging.getLogger(__name__)


def fill_closed() -> None:
    """Open the null device in the place of standard streams that are closed.

    A file or a connection that is opened later would get their numbers, and what a library prints would go into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The system gives the lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def announcer(service: str, as_json: bool) -> Callable[[Mapping[str, str]], None]:
    """Return what prints a service's addresses once it serves; where stdout takes nothing, that is logged."""

    def announce(addresses: Mapping[str, str]) -> None:
        if not as_json:
            return
        try:
            print_json({"service": service, "addresses": dict(addresses)})
        except (OSError, ValueError) as error:
            _LOG.warning("the addresses could not be printed: %s", error)
            # What could not be written would be tried again when the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    return announce
