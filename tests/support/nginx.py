"""A real nginx that runs an example of a page, on loopback, as a relay of another party would."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.haproxy import END_SECONDS

OUTER = """
user root;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
{module}
events {{}}
{kind} {{
    {temporary}
    {example}
}}
"""
"""What Debian's own files have around an example, with all that nginx writes in one folder."""

STREAM = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
"""Debian's package `libnginx-mod-stream`."""

TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def nginx() -> str:
    """The program; the test is skipped if there is none."""
    # Debian puts it where only administrators look.
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no nginx on this machine")
    return program


@contextlib.contextmanager
def nginx_with(example: str, folder: Path, *, stream: bool = False) -> Iterator[str]:
    """Run an example, whose `listen 443` becomes a free port; give its address. Its files are in `folder`.

    A `stream` passes TCP on, else it is about HTTP.
    """
    program = nginx()
    if stream and not STREAM.exists():
        pytest.skip("no module of nginx for streams on this machine")
    # It takes a socket that listens already: connections wait there until it is up, and no port is raced for.
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening, (folder / "said").open("wb") as said:
        host, port = listening.getsockname()
        example, changed = re.subn(r"\blisten 443\b", f"listen {host}:{port}", example)
        assert changed == 1
        temporary = "\n    ".join(f"{name}_temp_path {folder}/{name};" for name in TEMPORARY)
        configuration = folder / "nginx.conf"
        module, kind, temporary = (f"load_module {STREAM};", "stream", "") if stream else ("", "http", temporary)
        configuration.write_text(
            OUTER.format(folder=folder, module=module, kind=kind, temporary=temporary, example=example)
        )
        # What it serves by default is there to be found.
        (folder / "html").mkdir()
        (folder / "html" / "index.html").write_text("nginx serves this where nothing else is said")
        process = subprocess.Popen(
            [program, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(configuration)],
            env={**os.environ, "NGINX": f"{listening.fileno()};"},
            stdout=said,
            stderr=said,
            pass_fds=[listening.fileno()],
        )
        try:
            yield f"{host}:{port}"
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            finally:
                process.kill()
