"""Runs a program of hubbub that plays devices: lines of JSON go to its stdin, and come from its stdout."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from hubbub.deploy.local.process import ending
from hubbub.protos.errors import HubbubError
from hubbub.protos.strict_json import read_json
from hubbub.service.processes import subprocesses

LONGEST_LINE = 2**20
"""Most bytes of a worker's line."""


class ClientProcess:
    """The process of a module, run as `python -m MODULE`; its stderr goes to the file `log`."""

    def __init__(self, module: str, log: Path) -> None:
        self._module, self._log = module, log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process if it was not started."""
        if self._process is None:
            self._process = await self._spawn()

    async def _spawn(self) -> asyncio.subprocess.Process:
        with self._log.open("wb") as errors:
            return await asyncio.create_subprocess_exec(
                *subprocesses.command(self._module),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=subprocesses.environment(),
                limit=LONGEST_LINE,
                # Ctrl-C then reaches the command alone, which ends the workers itself.
                start_new_session=True,
            )

    def write(self, line: bytes) -> None:
        """Send it a line, which ends with a newline."""
        if self._process is None or self._process.stdin is None:
            raise HubbubError("a worker was not started")
        self._process.stdin.write(line)

    async def read(self) -> dict[str, Any]:
        """Return its next line.

        Raises:
            HubbubError: if it ended, with the last line of its log, or if the line says that it `failed`.
        """
        if self._process is None or self._process.stdout is None:
            raise HubbubError("a worker was not started")
        line = await self._process.stdout.readline()
        if not line:
            status = await self._process.wait()
            raise HubbubError(f"a worker {ending(status)}; the end of {self._log}: {self._last_line()}")
        said: dict[str, Any] = read_json(line)
        if "failed" in said:
            raise HubbubError(said["failed"])
        return said

    def _last_line(self) -> str:
        lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "nothing"

    async def stop(self) -> None:
        """End it, whatever it does."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
