"""Imports optional dependencies, which are extras of the package, only if settings need them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

from hubbub.accountant.errors import needs_extra
from hubbub.protos.errors import HubbubError
from hubbub.service.observability.traces import NO_TRACES, Traces
from hubbub.service.settings import SettingsError, TLSSettings, TraceSettings


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


@contextlib.asynccontextmanager
async def opened_traces(service: str, settings: TraceSettings, tls: TLSSettings) -> AsyncIterator[Traces]:
    """Send a service's spans to the collector of its settings in the block; nowhere if they name none.

    Raises:
        SettingsError: if they name one, and the extra is not installed.
    """
    if not settings.endpoint:
        yield NO_TRACES
        return
    try:
        from hubbub.service.observability.otlp import collected
    except ModuleNotFoundError as error:
        raise SettingsError(needs_extra("traces.endpoint", "OpenTelemetry", "traces")) from error
    async with collected(service, settings.endpoint, tls.paths()) as traces:
        yield traces
