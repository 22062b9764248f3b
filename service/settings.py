"""Reads and checks settings files in TOML; unknown keys are refused, and paths are relative to the file."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from hubbub.protos.errors import SettingsError as SettingsError
from hubbub.protos.errors import toml_remedy
from hubbub.protos.transport.addresses import HostError, checked_address, checked_addresses
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.proxies import ProxyError, checked_proxy, is_here
from hubbub.service.runtime.setting_messages import expectation


def _placed(path: Path, info: ValidationInfo) -> Path:
    folder: Path | None = (info.context or {}).get("folder")
    return path if folder is None else folder / path


File = Annotated[Path, AfterValidator(_placed)]
"""A path; a relative one is relative to the settings file."""


def _called(address: str) -> str:
    return _host(lambda: checked_address(address))


def _several(address: str) -> str:
    return _host(lambda: checked_addresses(address))


def _listened(address: str) -> str:
    return _host(lambda: checked_address(address, listening=True))


def _listened_if_any(address: str) -> str:
    return address and _listened(address)


def _proxied_if_any(proxy: str) -> str:
    return proxy and _host(lambda: checked_proxy(proxy))


def _host(check: Callable[[], str]) -> str:
    try:
        return check()
    except (HostError, ProxyError) as error:  # of our errors, pydantic accepts only a ValueError as a wrong value
        raise ValueError(str(error)) from error


Address = Annotated[str, AfterValidator(_called)]
"""host:port of a server to call."""

Addresses = Annotated[str, AfterValidator(_several)]
"""host:port of a server to call, or several separated by commas, any of which may be the right one."""

OptionalProxy = Annotated[str, AfterValidator(_proxied_if_any)]
"""http://host:port of a proxy through which others are called, or empty for none."""

Listen = Annotated[str, AfterValidator(_listened)]
"""host:port to listen at; port 0 is any free one."""

OptionalListen = Annotated[str, AfterValidator(_listened_if_any)]
"""host:port to listen at, or empty for none."""


def checked_database(address: str) -> str:
    """Return the address of a PostgreSQL database, or an empty one.

    Raises:
        ValueError: if it is another kind of address, or contains a password.
    """
    if address and not address.startswith(("postgresql://", "postgres://")):
        raise ValueError("it must be postgresql://user@host/database; leave it out for SQLite in `data`")
    # Checked without the driver, which may be missing: text after a colon before the host is a password.
    parts = urlsplit(address)
    named = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if parts.password is not None or "password" in named:
        raise ValueError("it contains a password; remove it, and name a password file by PGPASSFILE or ?passfile=")
    return address


Database = Annotated[str, AfterValidator(checked_database)]
"""The address of a PostgreSQL database, as libpq reads it, or empty."""


MetricsListen = Annotated[
    OptionalListen,
    Field(
        description="host:port at which Prometheus reads metrics, over mutual TLS unless on loopback; empty for none"
    ),
]
"""`metrics_listen` of every service."""

TaskFiles = Annotated[
    tuple[File, ...],
    Field(description="signed task files, or folders of them (*.json); read at the start", min_length=1),
]
"""`tasks` of a shuffler and of an analyzer."""

OptionalFile = Annotated[File | None, BeforeValidator(lambda path: path or None)]
"""A file or a folder, or none if the text is empty."""

FeedFolder = Annotated[
    OptionalFile,
    Field(
        description="folder of the feed of tasks (`hubbub tasks`); its new entries are taken while the service runs; "
        "empty for none"
    ),
]
"""`feed` of a shuffler, of a hop and of an analyzer."""

SuccessionFiles = Annotated[
    tuple[File, ...],
    Field(
        description="signed successions of identities (`hubbub keys`), or folders of them (*.json); read at the start"
    ),
]
"""`successions` of every service."""

Processes = Annotated[
    int, Field(ge=0, le=1024, description="processes that open envelopes; 0 is one per core that the service may use")
]
"""`processes` of every service."""

RevokedReaders = Annotated[
    File,
    Field(
        default=Path("revoked-readers.txt"),
        validate_default=True,
        description="readers who may no longer look (`hubbub keys revoke --reader`); looked at at each of their calls, "
        "and none if there is no such file",
    ),
]
"""`revoked_readers` of a shuffler and of an analyzer."""

Store = Annotated[
    Database,
    Field(
        description="postgresql://user@host/database without a password, for a store in PostgreSQL with its keyring in "
        "`data`; empty for SQLite in `data`"
    ),
]
"""`store` of a shuffler and of an analyzer."""


SHOWN_CHARACTERS = 80
"""The most characters of a wrong value that an error shows."""


class SettingsTable(BaseModel):
    """A table of a settings file; it is immutable, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TLSSettings(SettingsTable):
    """The `[tls]` table: PEM files, and the proxy through which others are called."""

    authority: File = Field(description="PEM certificate of the authority whose certificates are trusted")
    certificate: File = Field(
        description="this party's PEM certificate, for the names or addresses by which it is called"
    )
    key: File = Field(description="PEM private key of that certificate")
    proxy: OptionalProxy = Field(
        default="",
        description="http://host:port of a proxy that takes CONNECT, to call other machines through; empty for "
        "none, whatever `https_proxy` says",
    )

    def paths(self) -> TLS:
        """The files as `protos.transport.channels` expects them."""
        return TLS(self.authority, self.certificate, self.key, self.proxy or None)


class LogSettings(SettingsTable):
    """The `[log]` table: what is logged, to stderr; never a report, a key, an answer or a submission's id."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least level that is logged"
    )
    format: Literal["console", "json"] = Field(
        default="console", description="lines for people, or one JSON object a line"
    )


class PortLimitSettings(SettingsTable):
    """The `[limits]` table: what callers can take of a service at once, each port by itself."""

    connections: int = Field(
        default=2000,
        ge=16,
        le=1_000_000,
        description="connections at once on each port, half-open ones included; further ones are closed",
    )
    streams: int = Field(
        default=512, ge=1, le=100_000, description="calls at once on one connection; further ones wait at the caller"
    )
    idle_seconds: float = Field(
        default=300.0, ge=1, le=86_400, description="how long a connection without calls is kept"
    )
    message_mebibytes: int = Field(
        default=64, ge=8, le=65_536, description="MiB of the messages in work, and of those on their way, on each port"
    )
    memory_mebibytes: int = Field(
        default=0,
        ge=0,
        le=16_777_216,
        description="MiB of memory above which the service takes no calls until it has less; 0 for no such limit",
    )


class DevicePortLimitSettings(PortLimitSettings):
    """The `[limits]` table of a service whose port for devices everybody can reach."""

    memory_mebibytes: int = Field(
        default=2048,
        ge=0,
        le=16_777_216,
        description="MiB of memory above which the service takes no calls until it has less; 0 for no such limit",
    )
    calls: int = Field(
        default=4096,
        ge=1,
        le=1_000_000,
        description="calls of devices in work at once; more are refused as `overloaded`",
    )
    unfinished_seconds: float = Field(
        default=5.0, ge=0.1, le=600, description="how long a device's message may take to arrive as a whole"
    )
    address_connections: int = Field(
        default=256,
        ge=1,
        le=1_000_000,
        description="connections at once from one address (of IPv6 a /64) at `https_listen`; not used with "
        "`behind_proxy`",
    )
    age_seconds: float = Field(
        default=1800.0, ge=1, le=86_400, description="how long a device's connection is kept; it may connect again"
    )


def checked_endpoint(address: str) -> str:
    """Return the address of a collector of traces as it is called, its scheme in lower case; or an empty one.

    Raises:
        ValueError: if it is no such address, has no path, or is in clear beyond loopback.
    """
    if not address:
        return address
    parts = urlsplit(address)
    if (
        parts.scheme not in ("http", "https")
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
        or parts.path in ("", "/")
    ):
        raise ValueError("it must be http://127.0.0.1:4318/v1/traces or https://host:port/v1/traces")
    # The port's number is needed by the check of a host; `netloc` has it.
    _called(parts.netloc)
    if parts.scheme == "http" and not is_here(parts.netloc):
        raise ValueError("http beyond this machine is in clear; use https, or a collector on loopback that passes on")
    return parts.geturl()


class TraceSettings(SettingsTable):
    """The `[traces]` table: the collector of traces, one a round. Without an endpoint nothing of it is used."""

    endpoint: Annotated[str, AfterValidator(checked_endpoint)] = Field(
        default="",
        description="address of an OpenTelemetry collector that takes traces by OTLP over HTTP, such as "
        "`http://127.0.0.1:4318/v1/traces` (extra traces); beyond loopback `https://`, with the files of `[tls]` on "
        "both sides; empty for none",
    )


class SparkSettings(SettingsTable):
    """The `[spark]` table: the cluster that large batches are given to. Without a master nothing of it is used."""

    master: str = Field(
        default="",
        max_length=1000,
        description="Spark's master, such as `local[*]`, `spark://host:7077`, `k8s://…` or `yarn`, on which the "
        "shuffler "
        "mixes and the analyzer opens large batches; empty for none",
    )
    minimum_envelopes: int = Field(
        default=10**6,
        ge=1,
        description="envelopes of a batch from which on that is done; smaller ones stay in this service",
    )
    folder: File | None = Field(
        default=None,
        description="folder for a job's files, this service's alone and the same on all of Spark's machines; "
        "without it the store's",
    )
    configuration: File | None = Field(
        default=None,
        description="folder with spark-defaults.conf, such as a standalone cluster's spark.authenticate.secret",
    )
    driver_host: str = Field(
        default="127.0.0.1", min_length=1, description="address of this machine at which the cluster reaches the driver"
    )
    python: str = Field(default="", description="interpreter with hubbub on Spark's machines; empty for this one's")
    memory_mebibytes: int = Field(
        default=1024,
        ge=512,
        le=1_048_576,
        description="MiB of the driver's JVM, which in local mode runs the tasks too",
    )


T = TypeVar("T", bound=SettingsTable)


def load(path: Path, kind: type[T], whose: str, given: Mapping[str, object] = MappingProxyType({})) -> T:
    """Return the settings in a TOML file; `whose` names the party in errors. Values in `given` override the file.

    Raises:
        SettingsError: naming the file, the key, the value and the expected value.
    """
    text = None
    try:
        # Editors of Windows begin a file with a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
        content = tomllib.loads(text)
    except IsADirectoryError as error:
        inside = path / f"{whose}.toml", path / whose / f"{whose}.toml"
        found = next((f", {each}" for each in inside if each.is_file()), "")
        raise SettingsError(f"{path} is a folder; give the {whose}'s settings file in it{found}") from error
    except PermissionError as error:
        raise SettingsError(
            f"cannot read {path}: {error.strerror}: this account may not read it; give it the file with chown"
        ) from error
    except OSError as error:
        remedy = "check the path; `hubbub init` writes settings"
        raise SettingsError(f"cannot read {path}: {error.strerror}; {remedy}") from error
    except (ValueError, RecursionError) as error:  # tomllib also raises errors that are not its own
        if text and text.lstrip().startswith("{"):
            raise SettingsError(f"{path} is JSON, not settings; give the {whose}'s settings file") from error
        raise SettingsError(f"{path} is not TOML: {error!s:.200}; {toml_remedy(text)}") from error
    try:
        return kind.model_validate({**content, **given}, context={"folder": path.parent})
    except ValidationError as error:
        other = _owner(content, kind)
        if other is not None:
            raise SettingsError(f"{path} is the {other}'s settings file; give the {whose}'s") from error
        raise SettingsError(f"{path}: {_first_problem(error, kind, whose)}") from error


_OWNERS = {
    "shuffler_control": "operator",
    "control_listen": "shuffler",
    "delivery_listen": "analyzer",
    "next": "hop",
    "state": "client",
}
"""A required setting of each party that no other party has."""


def _owner(content: Mapping[str, object], kind: type[SettingsTable]) -> str | None:
    """Return the party whose settings these are, if it is another than that of `kind`."""
    return next((owner for name, owner in _OWNERS.items() if name in content and name not in kind.model_fields), None)


def _first_problem(error: ValidationError, kind: type[SettingsTable], whose: str) -> str:
    problems: list[Any] = error.errors(include_url=False)
    # A misspelled key is unknown and also missing under its right name: the first problem is more helpful.
    problem = next((each for each in problems if each["type"] == "extra_forbidden"), problems[0])
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key} is not a setting of the {whose}; {_instead(problem['loc'], kind)}"
    if problem["type"] == "missing":
        return f"{key} is missing; add it"
    if problem["type"] == "value_error":
        # What several settings are together has no key.
        return f"{key}: {problem['ctx']['error']}" if key else str(problem["ctx"]["error"])
    return f"{key} is {_shown(problem['input'])}; {expectation(problem)}"


def setting_names(kind: type[SettingsTable], prefix: str = "") -> list[str]:
    """Return the full names of all settings in a table and its inner tables, such as `log.level`."""
    names = []
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, SettingsTable):
            names += setting_names(inner, f"{prefix}{name}.")
        else:
            names.append(prefix + name)
    return names


def _instead(place: tuple[str | int, ...], kind: type[SettingsTable]) -> str:
    """Suggest a setting: one with a similar name in the same table, or with this name in another table."""
    expectation, table = str(place[-1]), "".join(f"{part}." for part in place[:-1])
    names = setting_names(kind)
    siblings = {name.removeprefix(table).split(".")[0] for name in names if name.startswith(table)}
    near = [table + found for found in difflib.get_close_matches(expectation, sorted(siblings), n=1)]
    near += [name for name in names if name.rpartition(".")[2] == expectation]
    if near:
        return f"did you mean {near[0]}? It knows {', '.join(sorted(names))}"
    return f"it knows {', '.join(sorted(names))}"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "a value too long to show"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
