"""Imports optional dependencies, which are extras of the package, only if settings need them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hubbub.accountant.errors import needs_extra
from hubbub.protos.errors import HubbubError


@contextlib.contextmanager
def of_an_extra() -> Iterator[None]:
    """Explain how to install an extra if an import in the block fails.

    Raises:
        HubbubError: if PostgreSQL's driver is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise HubbubError(needs_extra("store = postgresql://…", "PostgreSQL's driver", "postgres")) from error
