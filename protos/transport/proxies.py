"""Says through which HTTP proxy a call goes: none, unless one is named where the call's TLS files are.

Variables of the environment (`http_proxy`, `https_proxy`, `grpc_proxy`) never name one: they are set for browsers and
package managers, and a proxy for these seldom passes on what is called here. Calls to the same machine go through none,
and gRPC's go through none to hosts in `no_proxy`. A proxy is asked to CONNECT (RFC 9110, section 9.3.6). It passes TLS
on unopened; it sees who calls whom, and when.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from hubbub.protos.errors import HubbubError
from hubbub.protos.transport.addresses import HTTPS, HostError, checked_address, parted

HTTP_PROXY = "http://"
"""Beginning of the address of a proxy."""


class ProxyError(HubbubError):
    """A text is not the address of a proxy; the message has the form to give."""


def checked_proxy(proxy: object) -> str:
    """Return the address of a proxy, http://host:port.

    Raises:
        ProxyError: naming what the text is instead, and what to give.
    """
    wanted = "give http://host:port of a proxy that takes CONNECT"
    if not isinstance(proxy, str):
        raise ProxyError(f"proxy is {proxy!r:.80}; {wanted}, or None")
    if "@" in proxy:
        # Looked for first: no other message may show it.
        raise ProxyError(f"proxy has a name and a password before its host; {wanted}, without these")
    try:
        parts = urlsplit(proxy)
    except ValueError as error:  # brackets that hold no IPv6 address
        raise ProxyError(f"proxy is {proxy!r:.80}: {error}; {wanted}") from error
    if parts.scheme != "http" or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ProxyError(f"proxy is {proxy!r:.80}; {wanted}")
    try:
        return f"{HTTP_PROXY}{checked_address(parts.netloc)}"
    except HostError as error:
        raise ProxyError(f"proxy is {proxy!r:.80}: {error}; {wanted}") from error


def proxy_to(address: str, proxy: str | None) -> str | None:
    """Return the proxy through which host:port (or https://host:port) is called; None for none."""
    return None if proxy is None or is_here(address.removeprefix(HTTPS)) else proxy


def is_here(address: str) -> bool:
    """Return whether host:port is this machine's own loopback."""
    host = parted(address)[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def way_to(address: str, proxy: str | None) -> str:
    """Return an address as errors show it: with the proxy, if there is one."""
    found = proxy_to(address, proxy)
    return address if found is None else f"{address}, through the proxy {found},"
