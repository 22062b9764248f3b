"""What Ctrl-C does at each time of a command's life; nowhere does it show a traceback.

This module imports the standard library only, because it must work in the bare install.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
from types import FrameType

STATUS = 130
"""Exit status after Ctrl-C, as shells give it."""


def silent() -> None:
    """Have Ctrl-C end the process at once, for as long as nothing was begun that would have to be put in order.

    Libraries are loaded then. An exception that is raised inside an import may be swallowed, or shown by who calls it.
    """
    # A shell that starts a command in the background has Ctrl-C ignored, and so it stays.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
        sys.unraisablehook = _unraisable


def raises() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt, so that a command can put things in order."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ends_at_once() -> None:
    """Have Ctrl-C kill the process: it is ending already, and Python would show where."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    os._exit(STATUS)


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise a Ctrl-C again that came in a place which cannot raise, such as a finalizer; show anything else."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        # From another thread: raised in this call, it would be lost again.
        _thread.start_new_thread(_thread.interrupt_main, ())
    else:
        sys.__unraisablehook__(unraisable)
