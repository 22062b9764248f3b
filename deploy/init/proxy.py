"""Makes the folder of the proxy in front of the shuffler's public port, for `hubbub init --proxy`.

proxy/      HAProxy's configuration, the proxy's certificate, the authority's certificate

Devices call the proxy at the shuffler's address. It ends their TLS with its own certificate, for the shuffler's hosts,
enforces its limits, and passes calls on over TLS to the shuffler's port on loopback.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hubbub.deploy.init.hops import change
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.transport.addresses import bracketed

NAME = "proxy"
"""The proxy's folder, and the common name of its certificate, which no service accepts as another party's."""

SHUFFLER_PORT = 7305
"""The shuffler's port on loopback to which the proxy passes calls."""

PUBLIC_PORT = 7301
"""The port that devices call, with or without a proxy."""

MTLS_SHUFFLER_PORT, MTLS_PORT = 7306, 7304
"""The same two for devices with certificates."""

HTTPS_SHUFFLER_PORT, HTTPS_PORT = 7309, 7308
"""The same two for devices over HTTPS."""

METRICS_PORT = 7307
"""The proxy's port on loopback for Prometheus."""


@dataclass(frozen=True)
class Proxy:
    """The addresses at which a proxy listens and to which it passes calls, each as host:port.

    Args:
        listen: the address for devices.
        shuffler: the shuffler's `listen`.
        name: the name that the shuffler's certificate must have.
        mtls: the address for devices with certificates; unused as long as those lines are comments.
        mtls_shuffler: the shuffler's `devices_listen`.
        https: the address for devices over HTTPS; unused as long as those lines are comments.
        https_shuffler: the shuffler's `https_listen`.
        metrics: the address for Prometheus, without TLS: on loopback.
    """

    listen: str
    shuffler: str = f"127.0.0.1:{SHUFFLER_PORT}"
    name: str = "localhost"
    mtls: str = f"127.0.0.1:{MTLS_PORT}"
    mtls_shuffler: str = f"127.0.0.1:{MTLS_SHUFFLER_PORT}"
    https: str = f"127.0.0.1:{HTTPS_PORT}"
    https_shuffler: str = f"127.0.0.1:{HTTPS_SHUFFLER_PORT}"
    metrics: str = f"127.0.0.1:{METRICS_PORT}"

    @classmethod
    def at(cls, host: str) -> Proxy:
        """The proxy of a deployment that binds `host`, on the shuffler's machine."""
        at = bracketed(host)
        return cls(f"{at}:{PUBLIC_PORT}", mtls=f"{at}:{MTLS_PORT}", https=f"{at}:{HTTPS_PORT}")


def configured(proxy: Proxy) -> str:
    """Return HAProxy's configuration; the files that it names are in `tls`, next to it."""
    text = importlib.resources.files("hubbub.deploy").joinpath("proxy", "haproxy.cfg").read_text("utf-8")
    places = {
        "@LISTEN@": proxy.listen,
        "@SHUFFLER@": proxy.shuffler,
        "@NAME@": proxy.name,
        "@MTLS@": proxy.mtls,
        "@MTLS_SHUFFLER@": proxy.mtls_shuffler,
        "@HTTPS@": proxy.https,
        "@HTTPS_SHUFFLER@": proxy.https_shuffler,
        "@METRICS@": proxy.metrics,
    }
    for place, value in places.items():
        text = text.replace(place, value)
    return text


def make_proxy(folder: Path, proxy: Proxy, authority: Authority, hosts: Sequence[str]) -> None:
    """Make a proxy's folder, with a certificate for `hosts`, at which devices call it."""
    (folder / "tls").mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    authority.save_certificate(folder / "tls" / "authority.pem")
    # HAProxy expects the key of a certificate under its name with ".key" appended.
    authority.issue(NAME, hosts, folder / "tls" / f"{NAME}.pem", folder / "tls" / f"{NAME}.pem.key")
    (folder / "haproxy.cfg").write_text(configured(proxy), "utf-8")


def add_proxy(root: Path, host: str, authority: Authority, hosts: Sequence[str]) -> None:
    """Make the proxy's folder in `root`, next to the others, and make the shuffler listen behind it, on loopback."""
    make_proxy(root / NAME, Proxy.at(host), authority, hosts)
    settings = root / "shuffler" / "shuffler.toml"
    change(settings, "listen", f"127.0.0.1:{SHUFFLER_PORT}")
    change(settings, "behind_proxy", True)
