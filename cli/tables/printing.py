"""Prints tables and lists in columns, folded in one way in all commands: at spaces, and never within a word or number.

A table that does not fit the terminal becomes lines, each with a name and a value. The last column of a list is folded
below itself. If that leaves too little room, it goes below its name. Sentences are not folded here: a terminal wraps
them, and they may be copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hubbub.protos.escaping import readable_lines

_LEAST = 24
"""Fewest columns of the terminal that a folded value is given; with fewer it goes below its name."""


def print_table(console: Console, table: Table, spare: Sequence[str] = (), pictures: Sequence[str] = ()) -> None:
    """Print a table whose cells are texts; if the terminal is too narrow, print each row as lines of name and value.

    Columns with the headers `pictures` are left out if the table does not fit as it is. Then cells that are longer than
    their column are wrapped at words; a number never is. Then columns with the headers `spare` are left out, the last
    first.
    """
    _prepare(table)
    every = list(table.columns)
    folded = (((*pictures, *spare[len(spare) - count :]), _least) for count in range(len(spare) + 1))
    for left_out, needed in [((), _whole), (pictures, _whole), *folded]:
        table.columns = [replace(each) for each in every if each.header not in left_out]
        for place, column in enumerate(table.columns):
            column._index = place
        if needed(console, table) <= console.width:
            _fit(console, table)
            console.print(table)
            return
    table.columns = every
    print_records(console, table)


def print_tables(console: Console, tables: Sequence[Table]) -> None:
    """Print tables that belong together, all in one form: as lines if the terminal is too narrow for one of them."""
    for table in tables:
        _prepare(table)
    fits = all(_least(console, table) <= console.width for table in tables)
    for table in tables:
        # A header without rows does not say that there is nothing.
        if fits and table.row_count:
            _fit(console, table)
            console.print(table)
        else:
            print_records(console, table)


def _prepare(table: Table) -> None:
    for column in table.columns:
        column.overflow = "fold"
        column.no_wrap = column.no_wrap or column.justify == "right"


def print_records(console: Console, table: Table) -> None:
    """Print each row as lines of name and value, however wide the terminal is."""
    if table.title:
        nothing = "" if table.row_count else ": nothing"
        console.print(f"{table.title}{nothing}", markup=False, soft_wrap=True)
    headers = [str(column.header) for column in table.columns]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        _print_record(console, headers, [str(cell) for cell in cells])


def _fit(console: Console, table: Table) -> None:
    """Give each column room for its longest word, and share the rest, least wanted first.

    rich narrows the widest columns first, also below their longest word, and then cuts times and addresses.
    """
    wanted = _wanted(console, table)
    left = console.width - _borders(table)
    if sum(wanted) <= left:
        return
    widths = _narrowest(console, table)
    left -= sum(widths)
    missing = sorted(range(len(widths)), key=lambda index: wanted[index] - widths[index])
    for place, index in enumerate(missing):
        more = min(wanted[index] - widths[index], left // (len(missing) - place))
        widths[index] += more
        left -= more
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width


def _borders(table: Table) -> int:
    return 3 * len(table.columns) + 1


def _narrowest(console: Console, table: Table) -> list[int]:
    return [_widest(console, column.no_wrap, [column.header, *column.cells]) for column in table.columns]


def _wanted(console: Console, table: Table) -> list[int]:
    return [_widest(console, True, [column.header, *column.cells]) for column in table.columns]


def _whole(console: Console, table: Table) -> int:
    """Return the width of a table in which no cell is wrapped."""
    return _borders(table) + sum(_wanted(console, table))


def _least(console: Console, table: Table) -> int:
    """Return the least width of a table: its borders, and each column's longest number or word."""
    return _borders(table) + sum(_narrowest(console, table))


def _widest(console: Console, whole: bool, cells: list[object]) -> int:
    measured = [Text(str(cell)).__rich_measure__(console, console.options) for cell in cells]
    return max(each.maximum if whole else each.minimum for each in measured)


def _print_record(console: Console, headers: list[str], cells: list[str]) -> None:
    """Print a row: its first cell as a heading, and each other cell as a line below it."""
    console.print(f"{headers[0]} {cells[0]}".strip(), markup=False, soft_wrap=True)
    # Without a header, a cell is a bar, which says nothing alone, or a remark in words.
    named = [
        (header, cell)
        for header, cell in zip(headers[1:], cells[1:], strict=True)
        if cell and (header or any(map(str.isalpha, cell)))
    ]
    print_columns(console, [(header, cell.replace("\n", ", ")) for header, cell in named], "  ")


def print_columns(console: Console, rows: Sequence[Sequence[str]], indent: str = "") -> None:
    """Print rows of as many cells each, under each other and without borders; the last cells are folded at spaces."""
    widths = [max(map(_width, cells)) for cells in zip(*rows, strict=True)][:-1]
    for row in rows:
        before = indent + "".join(_padded(cell, width + 2) for cell, width in zip(row, widths, strict=False))
        for line in _lines_of(before, row[-1], console.width, f"{indent}    "):
            console.print(line, markup=False, soft_wrap=True)


def _lines_of(before: str, value: str, width: int, below: str) -> list[str]:
    """Return the lines of a row: its value beside what is before it, or below that if there is too little room."""
    words, left = value.split(" "), _width(before)
    if before and width - left < min(_width(value), max(_LEAST, *map(_width, words))):
        return [before.rstrip(), *(below + line for line in _folded(words, width - _width(below)))]
    first, *more = _folded(words, width - left)
    return [(before + first).rstrip(), *(" " * left + line for line in more)]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _folded(words: Sequence[str], width: int) -> list[str]:
    """Return lines of whole words, each no wider than `width` unless it is one word."""
    lines = [words[0]]
    for word in words[1:]:
        if _width(lines[-1]) + 1 + _width(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _width(text: str) -> int:
    """Return the columns of a terminal that a text takes, after unreadable characters are escaped."""
    return cell_len(readable_lines(text))
