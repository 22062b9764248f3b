"""Services of `LocalPipeline` and its like, and workers that play devices, forked from a process that imported them.

A service started so is a process of its own, in a session of its own, with the environment, descriptors and exit status
that it would have. What `ps` shows of it is the first process: its words, and the environment that it was given. What
one of them has composed, such as what a task promises at its minimum, none computes again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, BinaryIO

from hubbub.deploy.local.client_process import LONGEST_LINE, ClientProcess
from hubbub.deploy.local.process import ServiceProcess, service_environment
from hubbub.service.processes import subprocesses
from support.computed_once import remember_in, shared
from support.forked import Place, be, context

READ_AT_START = ("LD_", "MALLOC_", "GRPC_", "OPENSSL_", "PYTHON")
"""Beginnings of variables that are read when a process starts, or a library is loaded."""

start_service_from_nothing, start_client_from_nothing = ServiceProcess._spawn, ClientProcess._spawn


def fork_services(forked: bool) -> None:
    """Have services, and the workers that play devices, forked from now on, or started from nothing."""
    setattr(ServiceProcess, "_spawn", spawn_service if forked else start_service_from_nothing)  # noqa: B010 - a method
    setattr(ClientProcess, "_spawn", spawn_client if forked else start_client_from_nothing)  # noqa: B010


class Started:
    """What `asyncio.subprocess.Process` is, of a forked process."""

    def __init__(self, process: ForkServerProcess, stdin: int, stdout: asyncio.StreamReader) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._process = process
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(process.sentinel, self._end)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self.returncode = self._process.exitcode
        self._process.close()
        self.stdin.close()
        self._ended.set()

    async def wait(self) -> int:
        """Wait until it ends; return its status."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        """Send it SIGTERM."""
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)


async def spawn_service(service: ServiceProcess) -> Any:
    """Start a service, in the place of `ServiceProcess._spawn`."""
    words = (*service._program, str(service._settings), "--json")
    with service.log.open("ab") as log:
        started = await _forked(words, service_environment(service.environment), log)
    return started or await start_service_from_nothing(service)


async def spawn_client(worker: ClientProcess) -> Any:
    """Start a worker, in the place of `ClientProcess._spawn`."""
    with worker._log.open("wb") as log:
        started = await _forked(subprocesses.command(worker._module), subprocesses.environment(), log)
    return started or await start_client_from_nothing(worker)


async def _forked(words: Sequence[str], environment: dict[str, str], log: BinaryIO) -> Started | None:
    """Fork what these words start; None if they run no module, or if it must be started from nothing."""
    differ = {name for name in environment.keys() | os.environ.keys() if environment.get(name) != os.environ.get(name)}
    usual = {subprocesses.SAFE_PATH, "PYTHONUNBUFFERED", "PYTHONPATH"}
    python = subprocesses.command("")[:-1]
    if tuple(words[: len(python)]) != python or any(name.startswith(READ_AT_START) for name in differ - usual):
        return None
    stdin, to_stdin = os.pipe()
    from_stdout, stdout = os.pipe()
    is_there, there = os.pipe()
    module, *rest = words[len(python) :]
    try:
        given = tuple(map(DupFd, (stdin, stdout, log.fileno(), there)))
        process = context().Process(target=_serve, args=(module, rest, Place.here(environment), given, shared()))
        process.start()
    finally:
        for each in (stdin, stdout, there):
            os.close(each)
    # It is the first of its group from here on, so `kill` finds it.
    os.read(is_there, 1)
    os.close(is_there)
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(from_stdout, "rb"))
    return Started(process, to_stdin, reader)


def _serve(module: str, words: list[str], place: Place, given: tuple[Any, ...], remembered: Path) -> None:
    remember_in(remembered)
    os.setsid()
    *standard, there = [each.detach() for each in given]
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.write(there, b"1")
    os.close(there)
    place.enter()
    tests = str(Path(__file__).parents[1])
    sys.path[:] = [each for each in sys.path if each and not each.startswith(tests)]
    be(module, words)
