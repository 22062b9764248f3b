"""Counts a server's open connections, in all and by the address that they come from, and says when there are too many.

One client that opens all of a server's connections would leave none for others. So an address may have a share of them.
An IPv6 address counts as its /64, which is what one subscriber has.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, field


def network_of(host: str) -> str:
    """Return what a peer's address counts as: an IPv4 address as itself however it is written, one of IPv6 as its /64.

    Raises:
        ValueError: if it is no address.
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


@dataclass
class OpenConnections:
    """The connections that a server has open; not safe between threads."""

    most: int
    """Connections at once."""
    of_address: int | None = None
    """Connections at once from one address (`network_of`); None for no limit, as behind a proxy."""
    _of: Counter[str] = field(default_factory=Counter)

    @property
    def is_full(self) -> bool:
        """Whether all connections are open."""
        return self._of.total() >= self.most

    def has_share(self, network: str) -> bool:
        """Return whether an address has as many connections as it may have."""
        return self.of_address is not None and self._of[network] >= self.of_address

    def has_room(self, network: str) -> bool:
        """Return whether there is room for one more connection from an address."""
        return not self.is_full and not self.has_share(network)

    def add(self, network: str) -> None:
        """Count a connection."""
        self._of[network] += 1

    def remove(self, network: str) -> None:
        """Count a connection no more."""
        self._of[network] -= 1
        # Addresses come and go, and those without connections must not use memory.
        if self._of[network] <= 0:
            del self._of[network]
