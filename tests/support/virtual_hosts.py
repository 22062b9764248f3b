"""Network namespaces joined by veth pairs where the machine allows it, else addresses of loopback.

Every host has a root folder of its own, at the same path on each; below it stand the paths that units name. A namespace
has no route out: what its processes send ends at the other hosts.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.deployment_files import Unit
from support.patience import PATIENCE

WITHOUT_WRITABLE_CODE = (
    sys.executable,
    "-c",
    # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN. A kernel that does not know it refuses; the limit is then not tried.
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); os.execvp(sys.argv[1], sys.argv[1:])",
)
"""Starts a program, and its children, without memory that is writable and executable: prctl(2), since Linux 6.3.

That is what systemd's MemoryDenyWriteExecute does.
"""

SWITCH = """
import sys
from pyroute2 import IPRoute
with IPRoute() as ip:
    ip.link("add", ifname="switch", kind="bridge")
    switch = ip.link_lookup(ifname="switch")[0]
    ip.link("set", index=switch, state="up")
    for number, process in enumerate(sys.argv[1:]):
        ip.link("add", ifname=f"port{number}", kind="veth", peer={"ifname": "eth0", "net_ns_pid": int(process)})
        ip.link("set", index=ip.link_lookup(ifname=f"port{number}")[0], master=switch, state="up")
"""
"""Joins the namespaces of the processes named by a bridge."""

PLUG = """
import sys
from pyroute2 import IPRoute
with IPRoute() as ip:
    ip.addr("add", index=ip.link_lookup(ifname="eth0")[0], address=sys.argv[1], prefixlen=24)
    for name in ("lo", "eth0"):
        ip.link("set", index=ip.link_lookup(ifname=name)[0], state="up")
"""
"""Gives a namespace its address."""

FILES = """
set -e
mount --bind "$1" "$2"
mount --bind "$1/etc/hosts" /etc/hosts
if [ -n "$3" ]; then
    mkdir -p "$2/var/lib/hubbub/$3"
    mount --bind "$2/var/lib/hubbub/$3" "$2/var/lib/hubbub/$3"
    mount -o remount,bind,ro "$2"
    mount -o remount,bind,ro /
fi
"""
"""Puts a host's files at the common root; for a service, everything but its store is read-only, as its unit says."""


class NoNamespaces(Exception):
    """This machine makes no network namespaces for us; the message says what failed."""


@dataclass(frozen=True)
class Host:
    """A host: its name and address, the folder of its files, and the words before a command that runs on it."""

    name: str
    address: str
    files: Path
    root: Path
    enter: tuple[str, ...] = ()

    def run(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command on this host to its end, in its root folder."""
        command = [*self.enter, "env", f"--chdir={self.root}", *map(str, words)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL
        )
        if check and done.returncode:
            raise AssertionError(f"{words} on {self.name}: {done.stdout}{done.stderr}")
        return done

    def hubbub(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `hubbub` on this host."""
        return self.run(Path(sys.executable).parent / "hubbub", *words, check=check)

    def start(self, unit: Unit) -> subprocess.Popen[bytes]:
        """Start what a unit starts, under its limits; what needs systemd or its account is left out.

        The program is the one under test, and the unit's absolute paths are below this host's root.
        """
        program, *words = unit.command
        assert program == "/opt/hubbub/bin/hubbub"
        placed = [str(self.root / word[1:]) if word.startswith("/") else word for word in words]
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # raising it is systemd's privilege, not ours
        files = min(int(unit.one("LimitNOFILE")), most)
        limits = ("prlimit", f"--core={unit.one('LimitCORE')}", f"--nofile={files}")
        rights = ("setpriv", "--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all")
        shell = ("sh", "-c", f'umask {unit.one("UMask")}; exec "$@"', "sh")
        denied = WITHOUT_WRITABLE_CODE if unit.one("MemoryDenyWriteExecute") == "yes" else ()
        command = [*denied, *self.enter, *limits, *(rights if self.enter else rights[:2]), *shell]
        with (self.files / f"{self.name}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, str(Path(sys.executable).parent / "hubbub"), *placed],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            )


@contextlib.contextmanager
def on_loopback(folder: Path, names: Sequence[str]) -> Iterator[dict[str, Host]]:
    """Hosts that differ by their loopback address only, 127.0.0.2 and on, and share their files."""
    root = folder / "root"
    root.mkdir()
    yield {name: Host(name, f"127.0.0.{number}", root, root) for number, name in enumerate(names, 2)}


@contextlib.contextmanager
def in_namespaces(folder: Path, names: Sequence[str], services: Sequence[str]) -> Iterator[dict[str, Host]]:
    """Hosts with a network namespace each, who know each other by name; `services` can write to their stores only.

    Raises:
        NoNamespaces: where the machine does not allow them.
    """
    root = folder / "root"
    root.mkdir()
    addresses = {name: f"10.91.0.{number}" for number, name in enumerate(names, 2)}
    with contextlib.ExitStack() as held:
        private = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        switch = _entered(held.enter_context(_held(["unshare", *private, "--net", "--mount"])))
        holders = [held.enter_context(_held([*switch, "unshare", "--net", "--mount"])) for _ in names]
        _do([*switch, sys.executable, "-c", SWITCH, *(str(holder.pid) for holder in holders)])
        hosts = {}
        for name, holder in zip(names, holders, strict=True):
            files = folder / "hosts" / name
            (files / "etc").mkdir(parents=True)
            known = "".join(f"{address} {known}.example.org\n" for known, address in addresses.items())
            (files / "etc" / "hosts").write_text(f"127.0.0.1 localhost\n{known}")
            enter = _entered(holder)
            _do([*enter, sys.executable, "-c", PLUG, addresses[name]])
            _do([*enter, "sh", "-c", FILES, "sh", str(files), str(root), name if name in services else ""])
            hosts[name] = Host(name, addresses[name], files, root, tuple(enter))
        yield hosts


def _entered(holder: subprocess.Popen[Any]) -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    return ["nsenter", "--target", str(holder.pid), *user, "--net", "--mount"]


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    if done.returncode:
        raise NoNamespaces(f"{command[0]} … {command[-1]}: {done.stderr[-500:]}")


@contextlib.contextmanager
def _held(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds its namespaces until the end of the block."""
    try:
        holder = subprocess.Popen(
            [*command, "sh", "-c", "echo held; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError as error:
        raise NoNamespaces(str(error)) from error
    assert holder.stdin
    assert holder.stdout
    assert holder.stderr
    try:
        if not holder.stdout.readline():
            raise NoNamespaces(f"{' '.join(command)}: {holder.stderr.read().decode()}")
        yield holder
    finally:
        holder.stdin.close()
        holder.wait(timeout=PATIENCE)
        holder.stdout.close()
        holder.stderr.close()
