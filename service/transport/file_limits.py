"""Raises the limit of open files, most of which are connections, and fits the connections to it."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import structlog
from pydantic import BaseModel

from hubbub.protos.errors import HubbubError
from hubbub.service.processes.cpu_count import cpu_count

RESERVED = 256
"""Files other than connections: stores, logs, pipes, processes, and the metrics port."""

_FILES = "/proc/self/fd"
_TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")

FEWEST_CONNECTIONS = 16
"""Connections of a port, however low the limit is."""

OWN_FILES = 64
"""Files that a service has open without any connection: its store, log, modules, and what gRPC waits with."""

PROCESS_FILES = 4
"""Files for each further process: its pipes, and what waits for its end."""

_LOG = structlog.get_logger(__name__)


def raise_limit() -> int:
    """Raise the limit of open files to the system's maximum for this process; return it.

    Many systems begin with 1,024, for programs that use `select`; this program does not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # some systems do not accept their own hard limit
            return soft
    return hard


def check_files(settings: BaseModel) -> None:
    """Return only if a service may have the open files that its settings ask for at least (`check_limit`)."""
    found = dict(settings)
    ports = [name for name, value in found.items() if name.endswith("listen") and value]
    check_limit(len(ports), found["limits"].connections, found.get("workers") or found.get("processes") or cpu_count())


def check_limit(ports: int, connections: int, processes: int) -> None:
    """Return only if a service may have the open files that it cannot do without: gRPC ends a process that has none.

    The limit is raised first, as far as the system allows. The service has so many `ports`, each for up to
    `connections`, and so many further `processes`.

    Raises:
        HubbubError: naming what is needed, what there is, and what to do.
    """
    limit = raise_limit()
    few = min(connections, FEWEST_CONNECTIONS)
    needed = OWN_FILES + few * ports + PROCESS_FILES * processes
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return
    raise HubbubError(
        f"this service may have {limit} open files, and needs {needed}: {OWN_FILES} of its own, {few} connections at "
        f"each of {ports} ports, and {PROCESS_FILES} for each of {processes} processes; raise the limit (LimitNOFILE "
        f"in its unit, `ulimit -n` in a shell) to {connections * ports + RESERVED + PROCESS_FILES * processes}, "
        "which is enough for all connections that its settings allow"
    )


def fitting(connections: int, ports: int) -> int:
    """Return how many connections each of `ports` ports may have: `connections`, or fewer to fit the limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or connections * ports + RESERVED <= limit:
        return connections
    room = max(FEWEST_CONNECTIONS, (limit - RESERVED) // ports)
    _LOG.warning(
        "fewer connections than set",
        connections=room,
        set=connections,
        open_files=limit,
        hint=f"raise the limit of open files (LimitNOFILE, ulimit -n) to {connections * ports + RESERVED}",
    )
    return room


def connections_at(port: int, enough: int) -> int:
    """Return how many connections a port of this process has, if at least `enough`; otherwise 0.

    Connections in their TLS handshake are included, connections to other processes at the same port are not. Returns 0
    if the system has no /proc.
    """
    try:
        # Counting files is cheap; the table of connections is for the whole machine.
        names = os.listdir(_FILES)  # noqa: PTH208 - names alone, of which there are thousands
        if len(names) < enough:
            return 0
        tables = [path.read_text("utf-8").splitlines()[1:] for path in map(Path, _TABLES) if path.exists()]
    except OSError:
        return 0
    ours = f":{port:04X}"
    found = {inode for lines in tables for line in lines if (inode := _established(line, ours))}
    return len(found & {_inode(name) for name in names}) if len(found) >= enough else 0


def _established(line: str, ours: str) -> str:
    """Return the inode of an established connection at that port; otherwise an empty text."""
    _, local, _, state, _, _, _, _, _, inode, *_ = line.split(maxsplit=10)
    return inode if local.endswith(ours) and state == "01" else ""


def _inode(name: str) -> str:
    try:
        return os.readlink(f"{_FILES}/{name}").removeprefix("socket:[").removesuffix("]")  # noqa: PTH115 - as above
    except OSError:  # closed meanwhile
        return ""
