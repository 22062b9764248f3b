"""Protects the memory of a process, including keys and answers, from core files and from other processes.

A core file is a copy of all memory. The system decides its place, and often sends it to another machine. This module
imports the standard library only, because the command line must work in the bare install.
"""

from __future__ import annotations

import signal
import sys

PR_SET_PDEATHSIG = 1
"""Option of `prctl` (linux/prctl.h): the signal to a process when the thread that started it ends."""

PR_SET_DUMPABLE = 4
"""Option of `prctl` (linux/prctl.h): whether a process may be dumped."""


def disable_core_dumps() -> None:
    """Disable core files of this process; on Linux, also keep other processes of its account from reading its memory.

    Child processes inherit the limit on core files. The rest is reset when a program starts, so each program calls this
    itself.
    """
    if sys.platform != "win32":  # which has no core files
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        import ctypes

        # The limit alone does not suffice: if core_pattern names a program, the kernel passes it the core despite the
        # limit (core(5)). A process that is not dumpable has no core at all (prctl(2)), and its account can use
        # neither /proc/PID/mem nor debuggers. Python has no function for it.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def end_with_parent() -> None:
    """On Linux, have the kernel kill this process when its parent ends, even if this process is stopped.

    On other systems the process must notice by itself.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
