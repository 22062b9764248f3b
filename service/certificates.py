"""Certificates: a service's TLS files, checked at the start, and watched: how long they are still valid."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hubbub.protos.certificates import WARNING_DAYS, CertificateError, at
from hubbub.protos.keys import Role
from hubbub.protos.pem import readable_by_others
from hubbub.protos.transport import TLS

LOOK_SECONDS = 86_400.0
"""How often a certificate that ends soon is warned of."""

_LOG = structlog.get_logger(__name__)


class Certificates(Collector):
    """The certificates that a service was started with, until it is started again."""

    def __init__(self, role: Role, tls: TLS, identity: Path, clock: Callable[[], float]) -> None:
        """Check a service's TLS files; warn of private keys that others can read.

        Raises:
            HubbubError: where a file is missing.
            CertificateError: where one cannot be used, or is of another party.
        """
        self._role, self._clock = role, clock
        self._found = tls.check(clock(), own=True)
        party = self._found["own"].party
        # Services know each other by these names; any other may be a certificate of somebody else's authority.
        if party in set(Role) - {role}:
            raise CertificateError(f"{tls.certificate} is the {party}'s certificate; give the {role.value} its own")
        for path in (identity, tls.key):
            exposed = readable_by_others(path) if path is not None else None
            if exposed:
                _LOG.warning("a private key is open to others", problem=exposed)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the days left as they are now."""
        days = GaugeMetricFamily(
            f"hubbub_{self._role.value}_certificate_days_left",
            "Days for which the TLS certificates in use are still valid.",
            labels=["certificate"],
        )
        for name, certificate in self._found.items():
            days.add_metric([name], certificate.days_left(self._clock()))
        yield days

    def warn(self) -> None:
        """Log which certificates end soon, or have ended."""
        for certificate in self._found.values():
            left = certificate.days_left(self._clock())
            if left < WARNING_DAYS:
                _LOG.warning(
                    "a certificate ends soon" if left > 0 else "a certificate has expired",
                    file=certificate.where,
                    ends=at(certificate.not_after),
                    days_left=round(left, 1),
                    remedy=f"{certificate.remedy}, then start the service again",
                )

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Warn now, and every day, as long as the block runs."""

        async def watch() -> None:
            while True:
                self.warn()
                await asyncio.sleep(LOOK_SECONDS)

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
