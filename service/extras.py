"""The ones that settings name; what a database needs is an extra of the package, and loaded only then."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hubbub.protos.errors import HubbubError


@contextlib.contextmanager
def of_an_extra() -> Iterator[None]:
    """Have what is imported here be there, or say how to get it.

    Raises:
        HubbubError: if PostgreSQL's driver is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise HubbubError("store = postgresql://… needs PostgreSQL's driver: pip install 'hubbub[postgres]'") from error
