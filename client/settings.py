"""The settings of a device: from arguments, from variables of the environment, and from one file.

An argument counts before a variable, and a variable before the file. `DeviceSettings` is the one list of their names,
types and meanings; the variables' names, the errors and the reference follow from it. Nothing is read unless a caller
asks for it: `Device(…)` itself looks at no variable and no settings file, and no file is searched for.
"""

from __future__ import annotations

import dataclasses
import difflib
import errno
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from hubbub.accountant.written_numbers import limit
from hubbub.client.errors import AuthorityError
from hubbub.client.limits import PrivacyLimits
from hubbub.client.session.session import checked_name
from hubbub.client.session.trust import trusted_authority
from hubbub.client.submit import Retrying, RetryPolicy
from hubbub.client.validation import is_number
from hubbub.protos.errors import (
    HubbubError,
    SettingsError,
    SignatureError,
    TaskError,
    UsageError,
    remedy_of,
    toml_remedy,
)
from hubbub.protos.identity.keys import load_public
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transparency_log.proofs import LoggedProof
from hubbub.protos.transparency_log.signed_notes import LogError
from hubbub.protos.transport.addresses import checked_relay, checked_target
from hubbub.protos.transport.proxies import checked_proxy
from hubbub.queries.randomizers.sampling import Random

BEGINNING = "HUBBUB_"
"""What the name of every variable begins with."""

SETTINGS_FILE = "HUBBUB_SETTINGS"
"""The variable that names the settings file, if no argument does."""

OTHER_VARIABLES = frozenset({"HUBBUB_TRACEBACK", "HUBBUB_ENDS_WITH_STDIN"})
"""Variables of the command line and of services, which are no settings of a device."""

# Kubernetes sets these for each service whose name begins with `hubbub`, such as HUBBUB_SHUFFLER_SERVICE_HOST.
_OF_KUBERNETES = re.compile(r"HUBBUB_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)\w*)?)")

_OF_OTHERS = frozenset({"shuffler_control", "identity", "tls", "log"})
"""Keys of settings files that are not a device's."""

_CONTENT = ("{", "-----", "eyJ", "LS0tLS1")
"""How keys and tickets begin, the last two in base64, as secrets of Kubernetes are written."""

_LONGEST_NAME = 255
"""Most characters of a file's name on any common file system."""

_LONGEST_SHOWN = 80


class _WrongValue(Exception):
    """A value cannot be taken; the message follows the name of its place."""


def _file(value: object) -> Path:
    if not isinstance(value, str):
        raise _WrongValue(f" is {_shown(value)}; it must be the name of a file, in quotes")
    # Somebody may have put a key or a ticket itself there, so such a value is never shown.
    if any(ord(mark) < 32 for mark in value) and not _is_there(value):
        raise _WrongValue(" has line ends or control characters, as the content of a file has; name the file itself")
    if _is_content(value) or any(len(part) > _LONGEST_NAME for part in Path(value).parts):
        raise _WrongValue(" is not the name of a file, but seems to be its content; name the file itself")
    if not value:
        raise _WrongValue(" is empty; name a file")
    return Path(value)


def _is_there(name: str) -> bool:
    """Return whether a file has this name: then it is no content, whatever characters it has."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _WrongValue(f" is {_shown(value)}; it must be a text, in quotes")
    return value


def _checked(check: Callable[[str], str]) -> Callable[[object], str]:
    """Return a reader of a text that a check of the same value elsewhere takes."""

    def read(value: object) -> str:
        text = _text(value)
        if _is_content(text):
            # The other check would show it.
            raise _WrongValue(f" is {_shown(text)}; look which setting it belongs to")
        try:
            return check(text)
        except HubbubError as error:
            raise _WrongValue(f": {error}") from error

    return read


def _proxy(value: object) -> str | None:
    return _checked(checked_proxy)(value) if value != "" else None


def _relay(value: object) -> str | None:
    return _checked(checked_relay)(value) if value != "" else None


def _double(value: object) -> float:
    """Return a number as a double; NaN if it is none, which no check takes."""
    try:
        return float(value) if is_number(value) else math.nan  # type: ignore[arg-type] # it is a number
    except OverflowError:  # a whole number of more than 308 digits
        return math.nan


def _seconds(value: object) -> float:
    found = _double(value)
    if not 0 < found < math.inf:
        raise _WrongValue(f" is {_shown(value)}; it must be a number of seconds above 0, such as 60")
    return found


def _limit(value: object) -> float:
    found = _double(value)
    if not found >= 0:
        raise _WrongValue(f" is {_shown(value)}; it must be a number, 0 or more, or inf for no limit")
    return found


@dataclass(frozen=True)
class SettingKind:
    """A type of settings.

    Attributes:
        values: what it takes, for the reference.
        read: returns a value of it; its error has a message that follows the setting's name.
        is_number: whether a variable's text is read as a number first.
    """

    values: str
    read: Callable[[object], Any]
    is_number: bool = False

    def read_variable(self, value: object) -> Any:
        """Return a value of it from a variable. An empty one is refused, unless that is a value of this type.

        As not set, an empty limit would be no limit: a program that sets it from a value of its own that is missing
        would answer everything.
        """
        try:
            return self.read(value)
        except _WrongValue:
            if value == "":
                raise _WrongValue(" is empty; give it a value, or unset it") from None
            raise

    def of(self, about: str) -> Mapping[str, Any]:
        """Return what a field of settings says of itself: its kind, and what it is."""
        return {"kind": self, "about": about}


FILE = SettingKind("path", _file)
ADDRESS = SettingKind("host:port or https://host:port", _checked(checked_target))
RELAY = SettingKind("https://host/path, or empty", _relay)
PROXY = SettingKind("http://host:port, or empty", _proxy)
NAME = SettingKind("text", _checked(checked_name))
SECONDS = SettingKind("seconds, above 0", _seconds, is_number=True)
LIMIT = SettingKind("number, 0 or more", _limit, is_number=True)


@dataclass(frozen=True)
class DeviceSettings:
    """The settings of one device, read and checked; what its files contain is not read yet.

    Its fields are the keys of a settings file. Those of `limits` are in the table of that name.
    """

    task: Path = field(metadata=FILE.of("the signed task"))
    shuffler: str = field(
        metadata=ADDRESS.of("the shuffler's address for devices, or several with commas between them")
    )
    operator_key: Path = field(metadata=FILE.of("PEM public key of the operator, who must have signed the task"))
    shuffler_key: Path = field(metadata=FILE.of("PEM public key of the shuffler, who must have countersigned it"))
    state: Path = field(
        metadata=FILE.of("this device's randomized reports until they are sent, its credential, and any opt-out")
    )
    authority: Path = field(metadata=FILE.of("PEM certificate of the authority that issues the trusted certificates"))
    log_proof: Path | None = field(
        default=None,
        metadata=FILE.of("the proof that the task is in the transparency log that it demands (`hubbub log prove`)"),
    )
    ticket: Path | None = field(
        default=None,
        metadata=FILE.of("the operator's ticket for this device (`hubbub enroll`); the file may be added later"),
    )
    certificate: Path | None = field(
        default=None,
        metadata=FILE.of("PEM TLS certificate of this device, presented only in tasks that admit by it (mtls)"),
    )
    key: Path | None = field(default=None, metadata=FILE.of("PEM private key of that certificate"))
    proxy: str | None = field(
        default=None,
        metadata=PROXY.of("a proxy that takes CONNECT, to call other machines through; `https_proxy` names none"),
    )
    relay: str | None = field(
        default=None,
        metadata=RELAY.of(
            "another party's relay of Oblivious HTTP, through which all calls go, and none to `shuffler`; `authority` "
            "is then that of the relay's certificate"
        ),
    )
    name: str = field(default="", metadata=NAME.of("the device's name, if several share a state file; never sent"))
    timeout: float = field(default=60.0, metadata=SECONDS.of("how long a call tries to reach the shuffler"))
    limits: PrivacyLimits = field(default_factory=PrivacyLimits)


_LIMITS: Mapping[str, str] = {
    "epsilon_local_per_day": "most ε_local in a UTC day, over all tasks with this state file",
    "epsilon_per_day": "most central ε in a UTC day, over all tasks with this state file",
    "epsilon_local_per_task": "most ε_local in all rounds of a task",
    "epsilon_per_task": "most central ε in all rounds of a task",
    "epsilon": "largest ε of a round that a task may have; a task whose ε is larger is not answered",
    "delta": "largest δ that a task may have",
    "epsilon_local": "largest cap on the ε_local of a round that a task may state",
}
"""What each limit is on. `PrivacyLimits` has the same names."""


@dataclass(frozen=True)
class Setting:
    """A setting: its key in a file, such as `limits.epsilon`, its type, its meaning, and whether it must be given."""

    key: str
    kind: SettingKind
    about: str
    default: Any
    required: bool

    @property
    def variable(self) -> str:
        """The variable of the environment with this setting."""
        return BEGINNING + self.key.replace(".", "_").upper()


def _listed() -> Iterable[Setting]:
    for each in dataclasses.fields(DeviceSettings):
        if each.metadata:
            required = each.default is dataclasses.MISSING
            default = None if required else each.default
            yield Setting(each.name, each.metadata["kind"], each.metadata["about"], default, required)
    for each in dataclasses.fields(PrivacyLimits):
        yield Setting(f"limits.{each.name}", LIMIT, _LIMITS[each.name], math.inf, required=False)


SETTINGS: Mapping[str, Setting] = {setting.key: setting for setting in _listed()}
"""Every setting by its key."""

VARIABLES: Mapping[str, Setting] = {setting.variable: setting for setting in SETTINGS.values()}
"""Every setting by its variable."""


class GatewayArguments(TypedDict, total=False):
    """Arguments of `Gateway` that `Gateway.from_settings` takes before all settings."""

    shuffler: str
    authority: Path | bytes
    proxy: str | None
    retrying: Retrying | None


class FleetArguments(GatewayArguments, total=False):
    """Arguments of `Fleet` that `Fleet.from_settings` takes before all settings."""

    task: bytes
    operator_key: bytes
    shuffler_key: bytes
    state: Path
    log_proof: bytes | None
    tickets: Any
    limits: PrivacyLimits | None
    random: Random
    clock: Callable[[], float]
    relay: str | None


class DeviceArguments(GatewayArguments, total=False):
    """Arguments of `Device` that `Device.from_settings` takes before all settings."""

    task: bytes
    operator_key: bytes
    shuffler_key: bytes
    state: Path
    log_proof: bytes | None
    ticket: Path | bytes | None
    certificate: Path | None
    key: Path | None
    name: str
    limits: PrivacyLimits | None
    random: Random
    clock: Callable[[], float]
    relay: str | None


@dataclass(frozen=True)
class _PlacedValue:
    """A value of a setting, and where it is: a variable's name, or the file and the key."""

    value: Any
    place: str
    of_variable: bool = False


def read_settings(file: Path | str | None = None, environment: Mapping[str, str] | None = None) -> DeviceSettings:
    """Return the settings of a device from variables and from a file; a variable counts before the file.

    `file` is a settings file in TOML. Without it, the variable HUBBUB_SETTINGS may name one. A relative path in a file
    is relative to the file; in a variable it is relative to the current folder. `environment` has the variables, those
    of the process by default. Give `{}` to read none.

    Raises:
        SettingsError: naming the file and the key, or the variable, with the value and the expected value.
        UsageError: if a required setting is missing, and there is no file.
    """
    found, path = _found(file, environment)
    _check_complete(found, (name for name, setting in SETTINGS.items() if setting.required), path)
    values = {name: each.value for name, each in found.items() if "." not in name}
    return DeviceSettings(**values, limits=_limits(found))


def arguments_from(
    takes: type, file: Path | str | None, environment: Mapping[str, str] | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return arguments for a class: those `given`, and the rest from settings, with the content of files read.

    `takes` is the class's TypedDict of arguments.

    Raises:
        SettingsError, UsageError: as `read_settings` does, or if a file cannot be read.
        SignatureError, TaskError, AuthorityError: if a file does not have what it must; the message names it.
    """
    found, path = _found(file, environment)
    wanted = [name for name in takes.__annotations__ if name not in given]
    _check_complete(found, (name for name, each in SETTINGS.items() if each.required and name in wanted), path)
    made = {name: _opened(name, found[name]) for name in wanted if name in found}
    if "limits" in wanted:
        made["limits"] = _limits(found)
    if "retrying" in wanted and "timeout" in found:
        made["retrying"] = Retrying(RetryPolicy(total=found["timeout"].value))
    return made | dict(given)


def _found(
    file: Path | str | None, environment: Mapping[str, str] | None
) -> tuple[dict[str, _PlacedValue], Path | None]:
    """Return the settings that are given, by key, and the settings file."""
    variables = os.environ if environment is None else environment
    if not isinstance(variables, Mapping):
        raise UsageError(
            f"environment is of type {type(variables).__name__}; give a dict of variables, or leave it out"
        )
    path, named_by = _settings_file(file, variables)
    of_file = {} if path is None else _of_file(path, named_by)
    return of_file | _of_environment(variables), path


def _settings_file(file: object, variables: Mapping[str, str]) -> tuple[Path | None, str]:
    """Return the settings file, and what errors say before its name."""
    if file is None:
        named = variables.get(SETTINGS_FILE)
        if named is None:
            return None, ""
        return _taken(FILE.read_variable, named, SETTINGS_FILE), f"{SETTINGS_FILE}: "
    if not isinstance(file, str | os.PathLike) or isinstance(os.fspath(file), bytes):
        raise UsageError(f"the settings file is of type {type(file).__name__}; give a Path, or its name as a text")
    return _taken(_file, os.fspath(file), "the settings file"), ""


def _of_file(path: Path, named_by: str) -> dict[str, _PlacedValue]:
    content = _content(path, named_by)
    if not _OF_OTHERS.isdisjoint(content):
        raise SettingsError(f"{named_by}{path} is another party's settings file; give a device's, such as client.toml")
    found = {}
    for key, value in _flat(content, path):
        if key not in SETTINGS:
            raise SettingsError(f"{path}: {_word(key)} is not a setting of a device; {_nearest(key, SETTINGS)}")
        place = f"{path}: {key}"
        read = _taken(SETTINGS[key].kind.read, value, place)
        found[key] = _PlacedValue(placed(path.parent, read) if isinstance(read, Path) else read, place)
    return found


def placed(folder: Path, file: Path) -> Path:
    """Return the file that a settings file in `folder` names; an absolute path stays as it is."""
    return folder / file


def _content(path: Path, named_by: str) -> dict[str, Any]:
    text = None
    try:
        # Editors of Windows begin a file with a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
        return tomllib.loads(text, parse_float=_finite)
    except OSError as error:
        remedy = "check the path; `hubbub init` writes one" if error.errno == errno.ENOENT else remedy_of(error)
        raise SettingsError(f"{named_by}cannot read {path}: {error.strerror}; {remedy}") from error
    except UnicodeEncodeError as error:  # of the path
        raise SettingsError(f"{named_by}cannot read {str(path)!a}: no file has such a name; check the path") from error
    except (ValueError, RecursionError) as error:  # tomllib also raises errors that are not its own
        if text and text.lstrip().startswith("{"):
            raise SettingsError(
                f"{named_by}{path} is JSON, not settings; give a settings file, such as client.toml"
            ) from error
        remedy = "write a path that has \\ in single quotes" if text and "\\" in text else toml_remedy(text)
        raise SettingsError(f"{named_by}{path} is not TOML: {error!s:.200}; {remedy}") from error


def _finite(text: str) -> float:
    """Return a number of TOML. One that is too large for a double would be read as `inf`, which is no limit."""
    found = float(text)
    if math.isinf(found) and not text.endswith("inf"):
        raise ValueError(f"{text:.20} is beyond the largest number, 1.8e308")
    return found


def _flat(content: Mapping[str, Any], path: Path) -> Iterable[tuple[str, Any]]:
    """Yield each key with its value, those of the table `limits` behind its name."""
    for key, value in content.items():
        if key != "limits":
            yield key, value
        elif isinstance(value, dict):
            yield from ((f"limits.{inner}", each) for inner, each in value.items())
        else:
            raise SettingsError(f"{path}: limits is {_shown(value)}; it must be a table of its own, [limits]")


def _of_environment(variables: Mapping[str, str]) -> dict[str, _PlacedValue]:
    found = {}
    for name in sorted(each for each in variables if isinstance(each, str) and each.startswith(BEGINNING)):
        if name == SETTINGS_FILE or name in OTHER_VARIABLES or _OF_KUBERNETES.fullmatch(name):
            continue
        if name not in VARIABLES:
            # A limit whose name is misspelled must not be left out in silence. The value may be anything: not shown.
            near = _nearest(name, [*VARIABLES, SETTINGS_FILE], BEGINNING)
            raise SettingsError(f"{_word(name)} is no variable of hubbub; {near}, or unset it")
        setting, text = VARIABLES[name], variables[name]
        if not isinstance(text, str):
            raise SettingsError(f"{name} is of type {type(text).__name__}; give a text, as variables are")
        value = _as_number(text) if setting.kind.is_number else text
        found[setting.key] = _PlacedValue(_taken(setting.kind.read_variable, value, name), name, of_variable=True)
    return found


def _as_number(text: str) -> float | str:
    """Return the number that a text says, as every option reads one; or the text itself, for the error."""
    try:
        return limit(text)
    except ValueError:
        return text


def _taken(read: Callable[[object], Any], value: object, place: str) -> Any:
    try:
        return read(value)
    except _WrongValue as error:
        # Not chained: what the error came from may show the value.
        raise SettingsError(f"{place}{error}") from None


def _check_complete(found: Mapping[str, _PlacedValue], required: Iterable[str], path: Path | None) -> None:
    missing = [name for name in required if name not in found]
    if not missing:
        return
    names, variables = ", ".join(missing), ", ".join(SETTINGS[name].variable for name in missing)
    are = "is" if len(missing) == 1 else "are"
    if path is not None:
        raise SettingsError(f"{path}: {names} {are} missing; add it there, or set {variables}")
    raise UsageError(f"{names} {are} missing; name a settings file, by {SETTINGS_FILE} too, or set {variables}")


def _limits(found: Mapping[str, _PlacedValue]) -> PrivacyLimits:
    given = {name.partition(".")[2]: each.value for name, each in found.items() if "." in name}
    return PrivacyLimits(**given)


def _opened(name: str, found: _PlacedValue) -> Any:
    """Return what a device takes for a setting: of files that are read at once their content, else the value."""
    # An error names a file of the settings file by itself.
    before = f"{found.place}: " if found.of_variable else ""
    try:
        return _READ_AT_ONCE[name](found.value) if name in _READ_AT_ONCE else found.value
    except OSError as error:
        raise SettingsError(
            f"{found.place}: cannot read {found.value}: {error.strerror}; {remedy_of(error)}"
        ) from error
    except (AuthorityError, SignatureError, TaskError) as error:
        raise type(error)(f"{before}{error}") from error


def _task_in(path: Path) -> bytes:
    content = path.read_bytes()
    try:
        SignedTask.decode(content)
    except HubbubError as error:
        raise TaskError(f"{path}: {error}") from error
    return content


def _proof_in(path: Path) -> bytes:
    content = path.read_bytes()
    try:
        LoggedProof.decode(content)
    except LogError as error:
        raise LogError(f"{path}: {error}") from error
    return content


_READ_AT_ONCE: Mapping[str, Callable[[Path], bytes]] = {
    "task": _task_in,
    "operator_key": load_public,
    "shuffler_key": load_public,
    "authority": trusted_authority,
    "log_proof": _proof_in,
}
"""Settings of which a device is given the content, so that an error can name the variable and the file."""


def _nearest(name: str, known: Iterable[str], beginning: str = "") -> str:
    """Suggest the nearest of the known names, or list them all if none is near; all have the `beginning`."""
    # What all have in common makes none nearer.
    ends = sorted(each.removeprefix(beginning) for each in known)
    end = name.removeprefix(beginning)
    near = difflib.get_close_matches(end[:_LONGEST_SHOWN], ends, n=1)
    # A limit may be named without its table.
    near = [each for each in ends if each == f"limits.{end}"] or near
    if near:
        return f"write {beginning}{near[0]} if you mean that"
    return f"the names are {', '.join(beginning + each for each in ends)}"


def _word(name: str) -> str:
    """Return a name that anybody may have chosen, fit for one line of a log."""
    return (name if name.isprintable() else repr(name))[:_LONGEST_SHOWN]


def _is_content(text: str) -> bool:
    """Return whether a text begins as keys and tickets do."""
    return text.lstrip().startswith(_CONTENT)


def _shown(value: object) -> str:
    """Return a value for an error; not what may be a key or a ticket, or contain one."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    if isinstance(value, str) and _is_content(value):
        return "what looks like a key or a ticket"
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "a value too long to show"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
