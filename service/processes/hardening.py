"""What a process holds in memory, keys and answers among it, is left in no core file, and shown to no neighbour.

A core file is a copy of all memory. It is written wherever the system says, often to be sent to somebody.
This module imports the standard library only, because the command line must work in the bare install.
"""

from __future__ import annotations

import signal
import sys

PR_SET_PDEATHSIG = 1
"""Of `prctl` (linux/prctl.h): the signal that a process is sent when the thread that started it ends."""

PR_SET_DUMPABLE = 4
"""Of `prctl` (linux/prctl.h): whether a process may be dumped."""


def disable_core_dumps() -> None:
    """Have this process leave no core file; on Linux, let no other process of its account read its memory either.

    The limit holds for processes that it starts, too. The rest each program asks for itself, as it is reset when a
    program is started.
    """
    if sys.platform != "win32":  # which has no core files
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        import ctypes

        # The limit alone would not do: where core_pattern names a program, the kernel hands it the core whatever the
        # limit is (core(5)). Of a process that is not dumpable there is no core at all (prctl(2)), and /proc/PID/mem
        # and debuggers are closed to its account. Python has no call for it.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def end_with_parent() -> None:
    """On Linux, have this process killed when the one that started it ends, even where it is stopped and sees nothing.

    Elsewhere it has to notice by itself.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
