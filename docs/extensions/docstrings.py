"""Sphinx extension: turns docstrings, which are plain text with Markdown's signs, into reStructuredText for autodoc.

Text in backticks is code. A block that is indented by four after a blank line is a program. All other signs mean
themselves: `|x|` is an absolute value, and `p_` is a name. Google's sections are read by napoleon.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

SPAN = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
BLOCK = re.compile(r"(?m)^(?P<margin> *)(?P<lead>\S[^\n]*)\n\n(?P<block>(?:(?P=margin) {4,}\S[^\n]*(?:\n+|\Z))+)")
SIGNS = re.compile(r"\\|\||(?<=\w)_(?!\w)|\*(?! )|(?<! )\*")
ITEM = re.compile(r" *([-*]|\d+\.) ")
SECTION = re.compile(r"(Args|Attributes|Raises):$")
ENTRY = re.compile(r" *\*{0,2}[\w.]+(, \*{0,2}[\w.]+)*( \([^)]*\))?:( |$)")
"""The first line of an entry of a section; it may name several parameters or errors."""


def restructured(docstring: str) -> str:
    """Return a docstring as reStructuredText, still with Google's sections."""
    parts, last = [], 0
    for found in BLOCK.finditer(docstring):
        # A paragraph of a list item, or a list, is indented too.
        if ITEM.match(found["lead"]) or ITEM.match(found["block"]):
            continue
        parts += [_text(docstring[last : found.end("lead")]), "\n\n::\n\n".replace("\n::", f"\n{found['margin']}::")]
        parts.append(found["block"].rstrip("\n") + "\n\n")
        last = found.end()
    return "".join([*parts, _text(docstring[last:])])


def _text(text: str) -> str:
    """Return text outside programs: code in double backticks, signs that mean themselves escaped, lists set apart."""
    pieces = [
        f"``{piece.strip('`')}``" if piece.startswith("`") else SIGNS.sub(r"\\\g<0>", piece)
        for piece in SPAN.split(text)
    ]
    return "\n".join(_set_apart("".join(pieces).split("\n")))


def _set_apart(lines: list[str]) -> Iterator[str]:
    """Return lines with a blank one before each list, and further lines of a section's entry indented."""
    before, entries = "", 0
    for line in lines:
        indentation = len(line) - len(line.lstrip())
        if SECTION.match(line.strip()):
            entries = indentation + 4
        elif not line.strip():
            entries = 0
        elif entries and (indentation > entries or not ENTRY.match(line)):
            line = f"    {line}"
        elif ITEM.match(line) and before.strip() and not before.startswith(" ") and not ITEM.match(before):
            yield ""
        yield line
        before = line


def process(app: Any, what: str, name: str, subject: Any, options: Any, lines: list[str]) -> None:
    """Convert what autodoc has read, in place."""
    from sphinx.ext.napoleon import Config
    from sphinx.ext.napoleon.docstring import GoogleDocstring

    # Of an attribute, napoleon would take the words before a colon for a type.
    kind: Any = "object" if what in ("attribute", "data", "property") else what
    text = restructured("\n".join(lines)).split("\n")
    settings: Any = Config(napoleon_use_rtype=False)
    lines[:] = GoogleDocstring(text, settings, app, kind, name, subject, options).lines()
    lines += ["", *members_of(subject)] if what == "class" else []


def members_of(subject: object) -> list[str]:
    """Return a sentence with the members of an enumeration that have no docstrings, which autodoc leaves out."""
    if not (isinstance(subject, type) and issubclass(subject, Enum)):
        return []
    source = inspect.getsource(subject)
    silent = [each for each in subject if not re.search(rf'^    {each.name} = .*\n    """', source, re.MULTILINE)]
    return [f"Members: {', '.join(f'``{each.name}``' for each in silent)}."] if silent else []


def readable(signature: str | None) -> str | None:
    """Return a signature that is an expression: a default that a call makes is `...`, a function or an alias its name.

    Otherwise Sphinx does not parse it, and shows it as one line.
    """
    if signature is None:
        return None
    named = re.sub(r"<(?:built-in )?function (\w+)[^>]*>|TypeAliasForwardRef\('(\w+)'\)", r"\1\2", signature)
    return named.replace("<factory>", "...")


def process_signature(*of: Any) -> tuple[str | None, str | None]:
    """Make a signature readable; autodoc gives it and the type that is returned last."""
    *_, signature, returned = of
    return readable(signature), returned


def is_foreign(subject: object) -> bool:
    """Whether a member is a function of another library, such as a clock that is a field's default."""
    return inspect.isroutine(subject) and not (getattr(subject, "__module__", None) or "").startswith("hubbub")


def skip(_app: Any, what: str, _name: str, subject: Any, *_of: Any) -> bool | None:
    """Leave out functions of other libraries; None leaves it to autodoc."""
    return True if what == "class" and is_foreign(subject) else None


def setup(app: Any) -> dict[str, bool]:
    """Register the extension."""
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
