"""The pages on messages: every error that the product raises to people, by the module that raises it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from reference.making.page import Page, Section, code, divided, section, sentence, table, wrapped
from reference.making.source import FOLDERS, ROOT, Names, calls, modules, placeholder, text_of, tree_of

ROOTS = frozenset({"HubbubError", "AccountingError"})
"""What every error class of the product is derived from."""

_FIELD_ERRORS = ("FieldError", "UnknownKey")
_MESSAGE_PLACES: Mapping[str, int] = {**dict.fromkeys(_FIELD_ERRORS, 2), "Refusal": 1, "_refuse": 1, "_wrong": 1}
"""Which argument is the message, if it is not the first."""

SUBJECTS: Mapping[str, str] = {
    "accountant": "the accountant",
    "analyzer": "the analyzer",
    "cli": "the command line",
    "client": "a device",
    "deploy": "deployments, keys, load and audits",
    "pages": "pages for people",
    "planning": "planning and simulation",
    "protos": "documents, keys and messages",
    "queries": "questions, answers and randomizers",
    "results": "reading published results",
    "service": "what services share",
    "shuffler": "the shuffler and its hops",
    "verification": "verification",
}
"""What the modules of each folder are about."""

_ALSO: Mapping[str, str] = {
    "client": "Messages about wrong answers are with those of [questions](errors-queries.md). Messages about tasks, "
    "keys, tickets and the network are with those of [documents](errors-protos.md).",
}
"""Where else the messages are that the readers of a folder's page look for; otherwise in the overview."""

_HOW = (
    "A message names what happened, what was expected and what to do. A word in braces, such as {path}, stands for a "
    "value. If a message has several forms, ` | ` is between them. A command prints its message on stderr after "
    "`error: `, and with `--json` as the member `error`. Services log it, or answer with it as a "
    "[refusal](refusals.md). What other libraries report is passed on as it is, and is not here."
)


@dataclass(frozen=True)
class Message:
    """A message where it is raised: its module, the error's class and the text."""

    module: str
    kind: str
    text: str


def pages() -> list[Page]:
    """Return the overview of the classes, and the pages of each folder's messages."""
    made = [_overview()]
    for folder in FOLDERS:
        about = SUBJECTS[folder]
        title = f"Messages of {about}"
        lead = f"Every error message that the modules of `{folder}/` raise, by module."
        also = _ALSO.get(folder, "[Error messages](errors.md) lists the pages of the other modules, and the classes.")
        parts = (section("", wrapped(also)), *_sections(folder))
        page = Page(f"errors-{folder}", title, lead, f"error messages of {about}", parts)
        made += divided(page)
    return made


def _overview() -> Page:
    kinds = _classes()
    rows = [[code(name), _first(kinds[name]), f"`{_module(name)}`"] for name in sorted(kinds)]
    parts = [[f"[{SUBJECTS[folder]}](errors-{folder}.md)", code(f"{folder}/")] for folder in FOLDERS]
    return Page(
        "errors",
        "Error messages",
        "hubbub printed an error. Where is its message, and what is its class?",
        "every class of errors, and the pages of messages",
        (
            section("", wrapped(_HOW)),
            section("Pages", table(("messages of", "folder"), parts)),
            section("Classes", table(("class", "means", "defined in"), rows)),
        ),
    )


def _first(node: ast.ClassDef) -> str:
    text = ast.get_docstring(node)
    if not text:
        raise ValueError(f"{node.name} has no docstring")
    return sentence(text.split("\n\n")[0])


@cache
def _defined() -> dict[str, tuple[ast.ClassDef, str]]:
    """Return every class of the package with its module, by its name."""
    return {
        node.name: (node, _shown(path))
        for path in modules(*FOLDERS)
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    }


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _module(name: str) -> str:
    return _defined()[name][1]


@cache
def _classes() -> dict[str, ast.ClassDef]:
    """Return every class of errors, by its name."""
    return {name: node for name, (node, _) in _defined().items() if _is_error(name)}


def _is_error(name: str) -> bool:
    if name in ROOTS:
        return True
    bases = _defined()[name][0].bases if name in _defined() else []
    return any(_is_error(ast.unparse(base).rpartition(".")[2]) for base in bases)


def _sections(folder: str) -> Iterator[Section]:
    for path in modules(folder):
        found = messages(path)
        if found:
            rows = [[_as_cell(each.text), code(each.kind)] for each in found]
            yield section(_shown(path), table(("message", "class"), rows))


def _as_cell(text: str) -> str:
    # Braces and brackets are shown as they are; what Markdown would take for emphasis is not.
    return re.sub(r"([*_<>\[\]\\])", r"\\\1", " ".join(text.split())) if "`" not in text else " ".join(text.split())


@cache
def messages(path: Path) -> tuple[Message, ...]:
    """Return the messages of a module, in the order of its lines, each once."""
    return tuple(dict.fromkeys(_messages(path)))


def _messages(path: Path) -> Iterator[Message]:
    module, kinds = _shown(path), _classes()
    for node, names in calls(tree_of(path)):
        name = ast.unparse(node.func).rpartition(".")[2]
        if name == "ValueError" and path.name == "settings.py":
            yield from _one(module, "SettingsError", text_of(node.args[0], names))
        elif name == "fail" and path.parts[-2] == "commands" and node.args:
            yield from _one(module, "exit status 1", text_of(node.args[0], names))
        elif name in kinds:
            yield from _one(module, name, _text(name, node, names))


def _one(module: str, kind: str, text: str) -> Iterator[Message]:
    if text.strip("{} "):
        yield Message(module, kind, text)


def _text(name: str, node: ast.Call, names: Names) -> str:
    place = _MESSAGE_PLACES.get(name, 0)
    given = text_of(node.args[place], names) if len(node.args) > place else ""
    if name in _FIELD_ERRORS and given:
        table_, key = node.args[0], node.args[1]
        where = text_of(table_, names) or f"{{{placeholder(table_)}}}"
        what = text_of(key, names) or f"{{{placeholder(key)}}}"
        return f"{what} {given}" if where == "file" else f"{where}.{what} {given}"
    return given or _own_text(name)


def _own_text(name: str) -> str:
    """Return the message that a class makes by itself; empty if it is given one."""
    for node in ast.walk(_classes()[name]):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__" and node.args:
            return text_of(node.args[0]) if name not in _FIELD_ERRORS else ""
    return ""
