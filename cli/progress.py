"""Shows progress bars on stderr; their texts may contain names that others wrote."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TimeRemainingColumn
from rich.text import Text

from hubbub.cli.output import progress_console
from hubbub.protos.escaping import readable


def progress_bars(*columns: ProgressColumn, console: Console | None = None, disable: bool = False) -> Progress:
    """Return progress bars with these columns after their texts: a bar, a percentage and the time left, by default.

    Texts are shown as they are. Rich takes the texts of its own bars for markup, even on a console without markup, and
    a question named [/b] would end in a traceback.
    """
    shown = columns or (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(_Described(), *shown, console=console or progress_console(), disable=disable)


class _Described(ProgressColumn):
    """The text of a bar, made readable before its width is measured."""

    def render(self, task: Task) -> Text:
        return Text(readable(task.description))
