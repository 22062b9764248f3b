"""The page on settings: every key of each party's TOML file, from the classes that read it."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from hubbub.analyzer.settings import AnalyzerSettings
from hubbub.client import settings as client_settings
from hubbub.deploy.settings import OperatorSettings, ReaderSettings
from hubbub.service.settings import (
    Address,
    Addresses,
    Database,
    Listen,
    MetricsListen,
    OptionalListen,
    SettingsTable,
    Store,
)
from hubbub.shuffler.hop.settings import HopSettings
from hubbub.shuffler.settings import FrontendSettings, ShufflerSettings
from reference.making.page import Page, Section, code, divided, section, sentence, table, wrapped

PARTIES: Mapping[str, tuple[type[SettingsTable], str]] = {
    "shuffler": (ShufflerSettings, "`hubbub shuffler shuffler.toml`"),
    "front end": (FrontendSettings, '`hubbub shuffler frontend.toml`: a file with `role = "frontend"`'),
    "hop": (HopSettings, "`hubbub hop hop.toml`"),
    "analyzer": (AnalyzerSettings, "`hubbub analyzer analyzer.toml`"),
    "operator": (OperatorSettings, "`hubbub close`, `status`, `results` and `keys`, with `operator.toml`"),
    "reader": (ReaderSettings, "`hubbub status` and `results`, with `reader.toml`"),
}
"""The class of each party's settings, and the commands that read them."""

_SUFFIXES: Mapping[str, str] = {"_seconds": "seconds", "_mebibytes": "MiB"}
"""The unit that the end of a key says."""

_ALIASES: tuple[tuple[Any, str], ...] = (
    (Address, "host:port"),
    (Addresses, "host:port, several with commas"),
    (Listen, "host:port"),
    (OptionalListen, "host:port, or empty"),
    (MetricsListen, "host:port, or empty"),
    (Database, "address of a database, or empty"),
    (Store, "address of a database, or empty"),
)
"""What the types of addresses take."""

_PLURALS: Mapping[str, str] = {"path": "paths", "text": "texts", "host:port": "host:port"}
"""What a list of them is called."""

_RULES = (
    "Files of settings are TOML. They are read and checked once, at the start. A key that is not here is refused; the "
    "message names the nearest key. A relative path is relative to the file. `hubbub init` writes every file, with a "
    "comment for each key. A key such as `tls.key` is `key` in the table `[tls]`."
)


def pages() -> list[Page]:
    """Return the page on settings, in as many parts as it needs."""
    intro = section(
        "",
        wrapped(_RULES),
        wrapped("Variables of the environment are in [commands](commands.md#environment)."),
    )
    parts = (*(_section(party, kind, read_by) for party, (kind, read_by) in PARTIES.items()), _of_the_client())
    return divided(
        Page(
            "settings",
            "Settings",
            "What can you set in the files of each party, and what is in force if you do not?",
            "every key of the settings files, and the variables of a device: values, default, unit",
            (intro, *parts),
        )
    )


def rows_of(kind: type[SettingsTable], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Return key, values, default and description of every setting, those of its tables behind their names.

    Raises:
        ValueError: if a setting has no description.
    """
    hints = get_type_hints(kind, include_extras=True)
    for name, field in kind.model_fields.items():
        annotation: Any = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, SettingsTable):
            yield from rows_of(annotation, f"{prefix}{name}.")
            continue
        if not field.description:
            raise ValueError(f"{kind.__name__}.{name} has no description; give its Field one")
        yield prefix + name, values_of(name, field, hints[name]), default_of(field), sentence(field.description)


def _section(party: str, kind: type[SettingsTable], read_by: str) -> Section:
    # The tables of a file come after its own keys.
    found = sorted(rows_of(kind), key=lambda row: "." in row[0])
    rows = [[code(key), values, default, text] for key, values, default, text in found]
    heads = ("key", "values", "default", "what it does")
    return section(f"Settings of the {party}", wrapped(f"Read by {read_by}."), table(heads, rows))


def _of_the_client() -> Section:
    """Return the settings of a device, which has no pydantic: its own list, with the variables."""
    read_by = (
        "Read by `Device.from_settings` and its like, `hubbub submit` and `hubbub device`, with `client.toml`, and by "
        "`hubbub rehearse` and `hubbub load`, which read no variable. [Where settings come "
        "from](../howto/embed-a-device.md#where-settings-come-from) has the order in which they count. "
        f"`{client_settings.SETTINGS_FILE}` names the file, if nothing else does."
    )
    rows = [
        [code(key), code(each.variable), each.kind.values, _client_default(each), sentence(each.about)]
        for key, each in client_settings.SETTINGS.items()
    ]
    heads = ("key", "variable", "values", "default", "what it does")
    return section("Settings of the client", wrapped(read_by), table(heads, rows))


def _client_default(setting: client_settings.Setting) -> str:
    if setting.required:
        return "required"
    return "none" if setting.default is None else _in_toml(setting.default)


def default_of(field: FieldInfo) -> str:
    """Return a default as TOML has it; `required`, or `none` if the key is left out."""
    value = field.default
    if value is PydanticUndefined:
        return "required"
    return "none" if value is None else _in_toml(value)


def _in_toml(value: Any) -> str:
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, str):
        return code(f'"{value}"')
    return code(list(value) if isinstance(value, tuple) else value)


def values_of(name: str, field: FieldInfo, hint: Any) -> str:
    """Return which values a setting takes: its type, its unit and its limits."""
    extra: Any = field.json_schema_extra or {}
    unit = extra.get("unit") or next((unit for end, unit in _SUFFIXES.items() if name.endswith(end)), "")
    kind, limits = _kind(hint), _limits(field)
    if unit:
        kind = f"{unit}, {limits}" if limits else unit
    elif limits:
        kind = f"{kind}, {limits}"
    return kind


def _kind(annotation: Any) -> str:
    """Return the TOML type of an annotation."""
    arguments = [each for each in get_args(annotation) if each not in (types.NoneType, Ellipsis)]
    origin = get_origin(annotation)
    if origin is Literal:
        return ", ".join(code(f'"{each}"') for each in arguments)
    if origin is tuple:
        return f"list of {_PLURALS[_kind(arguments[0])]}"
    if origin in (types.UnionType, Union) and len(arguments) == 1:
        return _kind(arguments[0])
    for alias, words in _ALIASES:
        if annotation == alias:
            return words
    if hasattr(annotation, "__metadata__"):
        return _kind(annotation.__origin__)
    names: Mapping[Any, str] = {bool: "true or false", int: "whole number", float: "number", str: "text", Path: "path"}
    if annotation not in names:
        raise ValueError(f"no words for the type {annotation}")
    return names[annotation]


def _limits(field: FieldInfo) -> str:
    found: dict[str, Any] = {}
    for limit in field.metadata:
        for name in ("ge", "gt", "le", "min_length"):
            if getattr(limit, name, None) is not None:
                found[name] = getattr(limit, name)
    if "min_length" in found and "list" in _kind(field.annotation):
        return "at least one"
    least = f"{found['ge']:,}" if "ge" in found else f"above {found['gt']:,}" if "gt" in found else ""
    if "le" in found:
        return f"{least} to {found['le']:,}"
    return f"{least} or more" if "ge" in found else least
