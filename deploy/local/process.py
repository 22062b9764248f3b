"""Supervises a service that runs as its own process: starts it, waits until it serves, stops it, or kills it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from hubbub.protos.errors import HubbubError
from hubbub.protos.strict_json import read_json
from hubbub.service.processes import subprocesses
from hubbub.service.transport.ports import ENDS_WITH_STDIN

START_SECONDS = 300.0
"""How long a service may take until it serves: on a loaded machine imports alone take a minute."""

STOP_SECONDS = 30.0
"""How long a service may drain after SIGTERM before it is killed."""

LOG_TAIL_LINES = 15
"""Lines of a failed service's log that an error quotes."""

LOG_TAIL_BYTES = 65_536
"""Bytes of the log's end in which these lines are searched."""


class ServiceError(HubbubError):
    """A service did not start, or ended by itself; the message quotes the end of its log."""


class ServiceProcess:
    """A `hubbub` service that is run from its settings file; its log is appended to a file.

    It does not outlive the process that started it, however that one ends: then it drains, as after SIGTERM. Once it is
    started, `addresses` has the addresses it listens on, by the names of its
    ports. `program` is run in the place of `hubbub NAME` if it is given, with the same arguments. It imports nothing
    from the current folder, and is given few variables (`service.processes.subprocesses`); `environment` has others,
    which may be changed before a start. `timeout` is how many seconds a start may take: a standby serves once it is its
    turn.
    """

    def __init__(
        self,
        name: str,
        settings: Path,
        log: Path,
        program: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        timeout: float = START_SECONDS,
    ) -> None:
        self.name = name
        self.timeout = timeout
        self.log = log
        self.addresses: dict[str, str] = {}
        self._error = ""
        self.environment = dict(environment or {})
        self._settings = settings
        self._program = tuple(program) or subprocesses.command("hubbub.cli.main", name)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the process and wait until it serves.

        Raises:
            ServiceError: if it ends, or does not serve in time.
        """
        self._process = await self._spawn()
        try:
            announced = await asyncio.wait_for(self._announcement(self._process), self.timeout)
        except TimeoutError as error:
            await self.kill()
            raise ServiceError(f"the {self.name} did not serve within {self.timeout:.0f} s{self._tail()}") from error
        if announced is None:
            code = await self._process.wait()
            # A log may be lost, as on a full disk.
            said = self._tail() if _end_of(self.log) else f"; its log is empty, but it said: {self._error}"
            raise ServiceError(f"the {self.name} {ending(code)} before it served{said}")
        self.addresses = announced

    async def _spawn(self) -> asyncio.subprocess.Process:
        # In a session of its own it does not get the terminal's Ctrl-C: the supervisor gets it, and stops the services
        # in order. The session is also a process group, which `kill` can end as a whole.
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._program,
                str(self._settings),
                "--json",
                # A pipe that nothing is written to: the system closes it when this process ends, also when killed.
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=service_environment(self.environment),
            )

    async def _announcement(self, process: asyncio.subprocess.Process) -> dict[str, str] | None:
        """Read the one JSON document that a service prints once it serves; None if it ended first."""
        text = b""
        # The document has several lines and nothing marks its end, so each line is added until all of it parses.
        while process.stdout is not None and (line := await process.stdout.readline()):
            text += line
            with contextlib.suppress(ValueError):
                # If it could not start, the document has the error instead, and so has its log.
                document = read_json(text)
                self._error = str(document.get("error") or "")
                addresses: dict[str, str] | None = document.get("addresses")
                return addresses
        return None

    async def ended(self) -> str:
        """Wait until the process ends by itself; return what happened, in words."""
        if self._process is None:
            return f"the {self.name} was not started"
        code = await self._process.wait()
        return f"the {self.name} {ending(code)}{self._tail()}"

    async def stop(self) -> None:
        """Ask the process to drain and end (SIGTERM); kill it if it has not ended after `STOP_SECONDS`."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End the process and all processes that it started at once (SIGKILL)."""
        if self._process is None or self._process.returncode is not None:
            return
        # `_spawn` gave it a session, so its process id is also that of the group with all that it started. It may end
        # by itself at this moment.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def _tail(self) -> str:
        lines = _end_of(self.log).splitlines()[-LOG_TAIL_LINES:]
        return "; its log ends with:\n" + "\n".join(f"  {line}" for line in lines) if lines else "; its log is empty"


def ending(status: int) -> str:
    """Return how a process ended, in words: a status below 0 is the number of the signal that ended it."""
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def service_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a service that this process starts, overridden by `more`."""
    own = {"PYTHONUNBUFFERED": "1", ENDS_WITH_STDIN: "1", **_password_file()}
    return subprocesses.environment({**own, **more})


def _password_file() -> dict[str, str]:
    """Return the variable that names PostgreSQL's password file; the name of the file is no secret."""
    return {"PGPASSFILE": os.environ["PGPASSFILE"]} if "PGPASSFILE" in os.environ else {}


def _end_of(log: Path) -> str:
    # A log may be very long, and may be a device or a pipe, which have no end.
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(-min(LOG_TAIL_BYTES, log.stat().st_size), os.SEEK_END)
        return file.read(LOG_TAIL_BYTES).decode(errors="replace")
