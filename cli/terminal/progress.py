"""Shows on a terminal that work goes on, on stderr; its texts may contain names that others wrote."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from hubbub.cli.terminal.output import progress_console
from hubbub.protos.escaping import readable

_ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command at once: of `kill`, and of a terminal that is closed."""

_STDERR, _SHOW_CURSOR = 2, b"\x1b[?25h"


class _Bars(Progress):
    """Bars that hide the cursor of a terminal meanwhile, and show it again also if a signal ends the process."""

    def start(self) -> None:
        super().start()
        # Only the main thread may set handlers. A command that has handlers of its own ends in order.
        if not self.disable and threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, self._ended)

    def stop(self) -> None:
        super().stop()
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) == self._ended:
                    signal.signal(number, signal.SIG_DFL)

    def _ended(self, number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        # Not by the console: the thread that draws holds its lock while a terminal that was stopped takes nothing.
        with contextlib.suppress(OSError):
            if select.select([], [_STDERR], [], 0)[1]:
                os.write(_STDERR, _SHOW_CURSOR)
        os.kill(os.getpid(), number)


def progress_bars(as_json: bool, *columns: ProgressColumn, console: Console | None = None) -> Progress:
    """Return progress bars with these columns after their texts: a bar, a percentage and the time left, by default.

    Nothing is shown with --json, or if stderr is no terminal: a log has no use for the last state of a bar.

    Texts are shown as they are. Rich takes the texts of its own bars for markup, even on a console without markup, and
    a question named [/b] would end in a traceback.
    """
    shown = columns or (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    where = console or progress_console()
    return _Bars(_Described(), *shown, console=where, disable=as_json or not where.is_terminal)


@contextlib.contextmanager
def working(text: str, as_json: bool) -> Iterator[Callable[[str], None]]:
    """Show that work whose length nobody knows goes on, and for how long; yield what changes the text.

    Nothing is shown with --json, or if stderr is no terminal. What was shown is erased in the end.
    """
    console = progress_console()
    bars = _Bars(
        SpinnerColumn(),
        _Described(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=as_json or not console.is_terminal,
    )
    with bars:
        task = bars.add_task(text, total=None)
        yield lambda now: bars.update(task, description=now, refresh=True)


class _Described(ProgressColumn):
    """The text of a bar, made readable before its width is measured."""

    def render(self, task: Task) -> Text:
        return Text(readable(task.description))
