"""The example for Caddy, as a real Caddy in front of a shuffler's HTTPS port, on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from hubbub.deploy.init.folders import LOOPBACK
from hubbub.deploy.pki.authority import Authority
from support.haproxy import END_SECONDS
from support.source_tree import ROOT

CADDYFILE = ROOT / "deploy" / "proxy" / "Caddyfile"


def caddy() -> str:
    """The program, as the extra `dev` brings it: Debian's is older."""
    return str(shutil.which("caddy", path=str(Path(sys.executable).parent)))


@contextlib.contextmanager
def caddy_before(https: str, authority: Authority, folder: Path) -> Iterator[str]:
    """Run Caddy in front of a port; give its own address. What it writes is in `folder`, as `caddy.log`."""
    tls = folder / "tls"
    tls.mkdir(parents=True)
    authority.save_certificate(tls / "authority.pem")
    authority.issue("proxy", LOOPBACK, tls / "proxy.pem", tls / "proxy.pem.key")
    # It takes a socket that listens already: connections wait there until it is up, and no port is raced for.
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening, (folder / "caddy.log").open("wb") as log:
        # It keeps files where HOME says.
        environment = {"HOME": str(folder), "LISTEN": f"fd/{listening.fileno()}", "SHUFFLER": https}
        process = subprocess.Popen(
            [caddy(), "run", "--config", str(CADDYFILE), "--adapter", "caddyfile"],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
            pass_fds=[listening.fileno()],
        )
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                # It waits for connections that callers keep.
                process.kill()
                process.wait()
