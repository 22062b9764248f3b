"""What may stand between a store and its PostgreSQL: a PgBouncer, and a way that ends idle connections."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hubbub.deploy.local.ports import kept_address


@contextlib.contextmanager
def pgbouncer(address: str, mode: str) -> Iterator[str]:
    """Have a PgBouncer before a database; give the address that goes through it. Skip the test if there is none."""
    # Debian puts it where only administrators look.
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no pgbouncer on this machine")
    parts = conninfo_to_dict(address)
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as made:
        folder = Path(made)
        folder.chmod(0o777)
        port = int(kept_address().rpartition(":")[2])
        of = " ".join(f"{name}={value}" for name, value in parts.items() if name in ("host", "port", "dbname", "user"))
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n{parts['dbname']} = {of}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
            f"unix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
        )
        # It refuses to run as root; whose the server's socket is can reach it. It becomes that account by itself:
        # Python would fork this process for that, where gRPC may abort.
        owner = ("--user", Path(str(parts["host"])).owner()) if os.geteuid() == 0 else ()
        command = [program, "-q", *owner, str(folder / "pgbouncer.ini")]
        with (folder / "log").open("wb") as log:
            running = subprocess.Popen(command, cwd=folder, stderr=log)
        try:
            through = make_conninfo(
                "", host="127.0.0.1", port=port, dbname=str(parts["dbname"]), user=str(parts["user"])
            )
            while not _answers(through):
                assert running.poll() is None, (folder / "log").read_text()
            yield f"postgresql://{parts['user']}@127.0.0.1:{port}/{parts['dbname']}"
        finally:
            running.terminate()
            running.wait()


def _answers(address: str) -> bool:
    try:
        psycopg.connect(address).close()
    except psycopg.OperationalError:
        return False
    return True


class IdleCutter:
    """A way to a server's socket that ends connections, all of those that are idle, when it is told to."""

    def __init__(self, address: str) -> None:
        parts = conninfo_to_dict(address)
        host, self._port = str(parts["host"]), int(parts.get("port") or 5432)
        self._target: str | tuple[str, int] = (
            f"{host}/.s.PGSQL.{self._port}" if host.startswith("/") else (host, self._port)
        )
        self._server = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        port = self._server.getsockname()[1]
        self.address = f"postgresql://{parts['user']}@127.0.0.1:{port}/{parts['dbname']}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """End all connections; return how many there were."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for each in pair:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        return len(pairs)

    def close(self) -> None:
        """Take no further connections, and end all."""
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(caller,), daemon=True).start()

    def _carry(self, caller: socket.socket) -> None:
        with caller, socket.socket(socket.AF_UNIX if isinstance(self._target, str) else socket.AF_INET) as server:
            server.connect(self._target)
            with self._lock:
                self._pairs.add((caller, server))
            with contextlib.suppress(OSError):
                while True:
                    for source in select.select([caller, server], [], [])[0]:
                        data = source.recv(65536)
                        if not data:
                            return
                        (server if source is caller else caller).sendall(data)
