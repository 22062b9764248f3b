"""Checks the names and addresses at which parties are called or listen; all checks are here.

A name is returned in its form on the wire and in certificates: lower case, an international one in ASCII form (IDNA
2008, UTS 46), without the dot of the root. An IPv6 address has brackets only if a port follows it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

import idna

from hubbub.protos.errors import HubbubError

LONGEST_NAME = 253
"""Most characters of a name in the DNS."""

LONGEST_LABEL = 63
"""Most characters of one of its parts."""

LARGEST_PORT = 65_535

HTTPS = "https://"
"""Beginning of the address of a shuffler that is called over HTTPS."""

# Underscores are not allowed in host names, but container networks assign such names, and they work.
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PATH = re.compile(r"(?:[!-~](?<![?#]))*")
# A colon inside an IPv6 address is none before a port.
_HAS_PORT = re.compile(r"(?:^[^:]*|\]):[0-9]*$")
_PORT = re.compile(r"[0-9]{1,5}")
_EXAMPLE = "such as shuffler.example.org, 192.0.2.7 or 2001:db8::7"


class HostError(HubbubError):
    """A text is not a host, or not host:port; the message names the fault."""


def bracketed(host: str) -> str:
    """Return a host in the form before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def checked_host(host: str, *, listening: bool = False) -> str:
    """Return a name or an address that others can call, or with `listening` one that a port can be opened at.

    Raises:
        HostError: naming what the text is instead, and what to give.
    """
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return _checked_name(host)
    if "%" in bare:
        raise HostError(f"{host!r} has a zone, which only one machine understands; give an address without one")
    if address.is_unspecified and not listening:
        raise HostError(
            f"{host} means every address of a machine, for listening only, and cannot be called; give {_EXAMPLE}"
        )
    return str(address)


def _checked_name(host: str) -> str:
    if not host:
        raise HostError(f"a host is empty; give a name or an address, {_EXAMPLE}")
    if "/" in host:
        raise HostError(f"{host!r} is a URL or a path; give the host alone, {_EXAMPLE}")
    if ":" in host:
        raise HostError(f"{host!r} is neither a name nor an IPv6 address; give the host alone, without a port")
    name = _ascii(host).lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > LONGEST_NAME or max(map(len, labels)) > LONGEST_LABEL:
        raise HostError(
            f"{host[:80]!r}… is too long: a name has at most {LONGEST_NAME} characters, and each part of it "
            f"{LONGEST_LABEL}; give {_EXAMPLE}"
        )
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise HostError(
                f"{host!r} is not a host: its part {label!r} is not letters, digits and inner hyphens; give {_EXAMPLE}"
            )
    # Resolvers treat such names as IPv4 addresses: 127.1 is 127.0.0.1 to them.
    if _NUMBER.fullmatch(labels[-1]):
        raise HostError(f"{host!r} ends in a number and is not an IPv4 address; give four numbers from 0 to 255")
    return name


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError as error:
        raise HostError(f"{host!r} is not an international name: {error}; give {_EXAMPLE}") from error


def checked_address(address: str, *, listening: bool = False, forms: str | None = None) -> str:
    """Return host:port with its host checked; with `listening`, port 0 is any free one.

    Raises:
        HostError: if it is not host:port, or its host is not one.
    """
    host, port = parted(address, forms or _ADDRESS)
    host = checked_host(host, listening=listening)
    if port == 0 and not listening:
        raise HostError(f"{address!r} has port 0, which cannot be called; give the port at which the service listens")
    return f"{bracketed(host)}:{port}"


MOST_TARGETS = 64
"""Most addresses of one shuffler."""


def checked_target(address: str) -> str:
    """Return an address for devices: host:port, called by gRPC, or https://host:port, with its host checked.

    There may be several, with commas between them; devices may use any of them.

    Raises:
        HostError: if one is neither, or there are too many.
    """
    return _each_checked(address, _checked_target)


def checked_relay(url: str) -> str:
    """Return the URL of a relay of Oblivious HTTP, https://host:port/path; the port is 443 if none is given.

    Raises:
        HostError: if it is none.
    """
    form = "https://host/path or https://host:port/path, such as https://relay.example.org/ohttp"
    if "@" in url:
        # Looked for first: no other message may show it.
        raise HostError(f"a relay has a name or a password before its host; give {form}, without these")
    if not url.startswith(HTTPS):
        raise HostError(f"relay is {url!r:.200}; give {form}")
    where, _, path = url.removeprefix(HTTPS).partition("/")
    if not _PATH.fullmatch(path):
        raise HostError(f"relay is {url!r:.200}: its path has spaces, a query or a fragment; give {form}")
    if not _HAS_PORT.search(where):
        where = f"{bracketed(checked_host(where))}:443"
    return f"{HTTPS}{checked_address(where)}/{path}"


def checked_addresses(address: str) -> str:
    """Return host:port with its host checked; there may be several, with commas between them.

    Raises:
        HostError: if one is not host:port, or there are too many.
    """
    return _each_checked(address, checked_address)


def _each_checked(address: str, check: Callable[[str], str]) -> str:
    targets = [each.strip() for each in address.split(",")]
    if len(targets) > MOST_TARGETS:
        raise HostError(f"{len(targets)} addresses of one shuffler; give at most {MOST_TARGETS}, or one of a balancer")
    return ",".join(map(check, targets))


def _checked_target(address: str) -> str:
    bare = address.removeprefix(HTTPS).removesuffix("/") if address.startswith(HTTPS) else address
    return f"{HTTPS if address.startswith(HTTPS) else ''}{checked_address(bare, forms=_TARGET)}"


_ADDRESS = "host:port, such as analyzer.example.org:7401"
_TARGET = "host:port or https://host:port, such as shuffler.example.org:7301"


def parted(address: str, forms: str = _ADDRESS) -> tuple[str, int]:
    """Return the host, as it is written, and the port of host:port; errors say which `forms` may be given.

    Raises:
        HostError: if there is no port from 0 to 65535, an IPv6 address without brackets before it, or a password.
    """
    if "@" in address:
        # Looked for first: no other message may show it.
        raise HostError(f"an address has a name or a password before its host; give {forms}, without these")
    if "/" in address:
        raise HostError(f"{address!r} is a URL or a path; give {forms}")
    host, _, port = address.rpartition(":")
    if not host or not _PORT.fullmatch(port) or int(port) > LARGEST_PORT:
        raise HostError(f"{address!r} is not host:port with a port from 0 to {LARGEST_PORT}; give {forms}")
    if ":" in host and not host.startswith("["):
        raise HostError(f"{address!r}: write an IPv6 address before a port in brackets, such as [2001:db8::7]:7301")
    return host, int(port)
