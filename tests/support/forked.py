"""Processes forked from one that has imported what they need: over half of a start is imports.

The first process runs no command, opens no file and starts no thread, so a child inherits modules and nothing else. How
programs start from nothing is shown by the tests of an outsider's page, the demo and `tests/cli/test_start.py`, and by
every test marked `from_nothing`.
"""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.forkserver
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

from hubbub.service.processes.subprocesses import SAFE_PATH

PROGRAM = "hubbub.cli.main"
"""The module of `hubbub`."""

LOADED = (
    "hubbub.accountant",
    "hubbub.analyzer.certifier",
    "hubbub.analyzer.server",
    "hubbub.client",
    "hubbub.cli.app",
    "hubbub.cli.commands.analyzer",
    "hubbub.cli.commands.hop",
    "hubbub.cli.commands.shuffler",
    PROGRAM,
    "hubbub.deploy.init.folders",
    "hubbub.deploy.load.credentials",
    "hubbub.deploy.load.individually",
    "hubbub.planning.plan",
    "hubbub.protos.sealing.envelope",
    "hubbub.shuffler.cluster.failover",
    "hubbub.shuffler.cluster.frontend",
    "hubbub.shuffler.hop.server",
    "hubbub.shuffler.server",
    "rich.progress",
    "rich.table",
)
"""Nothing here starts a thread when it is imported; `pyarrow` would."""


@cache
def context() -> ForkServerContext:
    """The one that processes are forked from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    # gRPC reads the first when it is loaded, and Python the second: a test may have planted modules in its folder.
    read = {"GRPC_VERBOSITY": os.environ.get("GRPC_VERBOSITY", "ERROR"), SAFE_PATH: "1"}
    given = {name: os.environ[name] for name in read if name in os.environ}
    os.environ.update(read)
    multiprocessing.forkserver.ensure_running()
    for name in read.keys() - given.keys():
        del os.environ[name]
    os.environ.update(given)
    return context


@dataclass(frozen=True)
class Place:
    """What a process has of its parent's."""

    folder: Path
    environment: Mapping[str, str]
    umask: int

    @classmethod
    def here(cls, environment: Mapping[str, str] = os.environ, folder: Path | None = None) -> Place:
        """Those of this process, or others."""
        umask = os.umask(0)
        os.umask(umask)
        return cls(folder or Path.cwd(), dict(environment), umask)

    def enter(self) -> None:
        """Give them to this process."""
        os.chdir(self.folder)
        os.umask(self.umask)
        os.environ.clear()
        os.environ.update(self.environment)


def be(module: str, words: Sequence[str]) -> None:
    """Be `python -m MODULE WORDS`, with what its descriptors 0, 1 and 2 are now."""
    # Those of the first process remember what kind of file they were opened for.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", 1, closefd=False)
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)
    sys.argv = ["hubbub", *words]
    try:
        if module == PROGRAM:
            # What `multiprocessing` starts from here imports what it would import from a program started by its name.
            sys.modules["__main__"] = sys.modules[PROGRAM]
            sys.modules[PROGRAM].main()
        else:
            # A module that the first process has imported is read again, as Python does with `-m`.
            sys.modules.pop(module, None)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        # A process of `multiprocessing` ends without these.
        atexit._run_exitfuncs()
