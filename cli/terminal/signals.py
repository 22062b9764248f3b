"""Handles Ctrl-C in each phase of a command, so that it never shows a traceback.

This module imports the standard library only, because it must work in the bare install.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
from types import FrameType

STATUS = 130
"""Exit status after Ctrl-C, as in shells."""


def silent() -> None:
    """Let Ctrl-C end the process at once, while libraries are loaded and nothing needs a cleanup yet.

    An exception raised inside an import may be swallowed, or printed by the importing library.
    """
    # A shell ignores Ctrl-C for a command that it starts in the background; that stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
        sys.unraisablehook = _unraisable


def raises() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, so that a command can clean up."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ends_at_once() -> None:
    """Let Ctrl-C kill the process: it is ending already, and Python would print a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    os._exit(STATUS)


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise a Ctrl-C again if it came in code that cannot raise, such as a finalizer; show anything else."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        # Raised from another thread, because in this call it would be lost again.
        _thread.start_new_thread(_thread.interrupt_main, ())
    else:
        sys.__unraisablehook__(unraisable)
