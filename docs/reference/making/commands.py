"""The pages on the commands: every command and option of the command line, from the parser's own objects."""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import typer

from hubbub.accountant.written_numbers import FORMS, WHOLE_FORMS
from hubbub.cli.app import build
from hubbub.cli.registry import ENVIRONMENT, EXIT_STATUSES, GROUPS, NEEDS
from reference.making.page import Page, Section, anchor, code, divided, fenced, section, sentence, table, wrapped

_KINDS: Mapping[Any, str] = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH", bool: ""}
"""What is written for a value of each type, if an option names no other word."""

_DEFAULT = re.compile(r"(?:; default: (.+?)\.?|\s*\[default: ([^\]]+)\])$")
"""How a help says a default that depends on other options, or on what it finds."""


def pages() -> list[Page]:
    """Return the overview, and a page for each group of commands."""
    commands = _commands()
    missing = commands.keys() ^ {name for group in GROUPS.values() for name in group}
    if missing:
        raise ValueError(f"cli/registry.py: GROUPS has other commands than there are: {', '.join(sorted(missing))}")
    found = [_overview(commands)]
    for title, names in GROUPS.items():
        sections = [each for name in names for each in _sections(name, commands[name])]
        about = f"Commands to {title}"
        lead = f"Every option of {_listed([code(f'hubbub {name}') for name in names])}."
        found += divided(Page(_page_name(title), about, lead, ", ".join(map(code, names)), tuple(sections)))
    return found


def _commands() -> dict[str, Any]:
    parser: Any = typer.main.get_command(build())
    return {name: parser.commands[name] for name in NEEDS}


def _page_name(title: str) -> str:
    return f"commands-{title.split()[0]}"


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


_OF_A_DEVICE = (
    "The variables of a device, such as `HUBBUB_SETTINGS`, are with [its settings](settings.md#settings-of-the-client)."
)


def _overview(commands: Mapping[str, Any]) -> Page:
    blocks = []
    for title, names in GROUPS.items():
        rows = [
            [
                f"[{code(f'hubbub {name}')}]({_page_name(title)}.md#{anchor(f'hubbub {name}')})",
                _summary(commands[name]),
                code(f"hubbub[{NEEDS[name].name}]"),
            ]
            for name in names
        ]
        heads = ("command", "what it does", "needs")
        blocks.append(section(f"To {title}", table(heads, rows)))
    shared = (
        "Every command answers `--help`. Almost every one takes `--json`, and then prints one JSON document on stdout. "
        "If it fails, that document has the member `error`. `hubbub --version` prints the version. "
        f"Options take numbers as people write them: a whole one as {WHOLE_FORMS}, any other also as {FORMS}. On a "
        "terminal, commands that compute for long show on stderr that they do."
    )
    statuses = [[code(status), meaning] for status, meaning in EXIT_STATUSES.items()]
    variables = [[code(name), meaning] for name, meaning in ENVIRONMENT.items()]
    return Page(
        "commands",
        "Commands",
        "What does each command of `hubbub` do, and which page has its options?",
        "every command, exit statuses, environment",
        (
            section("", wrapped(shared)),
            *blocks,
            section("Exit status", table(("status", "means"), statuses)),
            section("Environment", table(("variable", "means"), variables), wrapped(_OF_A_DEVICE)),
        ),
    )


def _summary(command: Any) -> str:
    return sentence(_text(command).split("\n\n")[0].replace("\n", " "))


def _text(command: Any) -> str:
    # The parser marks a paragraph that it must not wrap.
    return str(command.help or "").replace("\b\n", "").replace("\b", "").strip()


def _sections(name: str, command: Any) -> Iterator[Section]:
    """Return a section for a command, and one for each of its subcommands."""
    inner = getattr(command, "commands", None)
    yield section(f"hubbub {name}", *_prose(command), *(() if inner else _use(f"hubbub {name}", command)))
    for word, each in (inner or {}).items():
        yield section(f"hubbub {name} {word}", *_prose(each), *_use(f"hubbub {name} {word}", each))


def _prose(command: Any) -> Iterator[list[str]]:
    for paragraph in re.split(r"\n\s*\n", _text(command)):
        title, _, rest = paragraph.strip("\n").partition("\n")
        if title in ("Example:", "Examples:"):
            yield fenced("sh", "\n".join(line.removeprefix("  ") for line in rest.splitlines()))
        elif paragraph.strip():
            yield wrapped(paragraph)


def _use(words: str, command: Any) -> Iterator[list[str]]:
    hints = get_type_hints(command.callback, include_extras=True)
    parameters = [each for each in command.params if each.name != "help"]
    places = [each for each in parameters if not each.opts[0].startswith("-")]
    options = [each for each in parameters if each.opts[0].startswith("-")]
    usage = [words, *(_place(each) for each in places), *(["[OPTIONS]"] if options else [])]
    yield fenced("text", " ".join(usage))
    rows = [[code(_place(each)), *_meaning(each, hints)] for each in places]
    yield table(("argument", "values", "default", "what it is"), rows)
    rows = [[_option(each, hints), *_meaning(each, hints)] for each in options]
    yield table(("option", "values", "default", "what it does"), rows)


def _place(parameter: Any) -> str:
    word = str(parameter.metavar or parameter.name.upper())
    return word if parameter.required else f"[{word}]"


def _option(parameter: Any, hints: Mapping[str, Any]) -> str:
    names = ", ".join(parameter.opts)
    if parameter.secondary_opts:
        return code(f"{names} / {', '.join(parameter.secondary_opts)}")
    base, _ = _type_of(hints[parameter.name])
    word = parameter.metavar or ("NAME" if _is_choice(base) else _KINDS.get(base, "TEXT"))
    return code(f"{names} {word}".strip())


def _meaning(parameter: Any, hints: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the values that a parameter takes, its default, and its help."""
    text = str(parameter.help or "").strip()
    if not text:
        raise ValueError(f"{parameter.opts[0]} has no help; write it in cli/commands")
    base, info = _type_of(hints[parameter.name])
    default, said = _default(parameter, base), _DEFAULT.search(text)
    if said is not None:
        # A default that depends on other options is said in the help alone.
        text, default = text[: said.start()], said[1] or said[2]
    repeated = getattr(parameter, "multiple", False) or parameter.nargs == -1
    values = ", ".join(filter(None, (_values(base, info), "repeatable" if repeated else "")))
    return values, default, sentence(text)


def _type_of(hint: Any) -> tuple[Any, Any]:
    """Return the type of one value of a parameter, and what typer knows of it."""
    info = getattr(hint, "__metadata__", (None,))[0]
    base = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    while True:
        inner = [each for each in typing.get_args(base) if each is not types.NoneType]
        if not inner or typing.get_origin(base) is None:
            return base, info
        base = inner[0]


def _is_choice(base: Any) -> bool:
    return isinstance(base, type) and issubclass(base, enum.Enum)


def _values(base: Any, info: Any) -> str:
    if _is_choice(base):
        return ", ".join(code(each.value) for each in base)
    if base is bool:
        return ""
    least, most = getattr(info, "min", None), getattr(info, "max", None)
    if least is not None and most is not None:
        return f"{least:,} to {most:,}"
    if least is not None:
        return f"{least:,} or more"
    return "" if most is None else f"{most:,} or less"


def _default(parameter: Any, base: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value == () or value == [] or (base is bool and value is False):
        return ""
    if callable(value):
        raise ValueError(f"the default of {parameter.opts[0]} is computed; say in its help what it is")
    values = value if isinstance(value, list | tuple) else [value]
    return ", ".join(code(each.value if isinstance(each, enum.Enum) else each) for each in values)
