"""Settings of the analyzer: one TOML file, checked at start; every key is described here and no other is taken."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hubbub.protos.errors import HubbubError
from hubbub.protos.transport import TLS


class SettingsError(HubbubError):
    """A settings file that cannot be used: what is wrong, and where."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_ADDRESS = r"^[^\s/]+:[0-9]{1,5}$"


class TLSSettings(_Table):
    """Connections: both ports answer over mutual TLS only."""

    authority: Path = Field(description="PEM certificate of the authority that the other parties' certificates are by")
    certificate: Path = Field(
        description="PEM certificate of this analyzer, for the names or addresses it is called by"
    )
    key: Path = Field(description="PEM private key of that certificate")

    def paths(self) -> TLS:
        """The files as `protos.transport` takes them."""
        return TLS(self.authority, self.certificate, self.key)


class LogSettings(_Table):
    """What is logged, to stderr: never a report, a key or an answer."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least level that is logged"
    )
    format: Literal["console", "json"] = Field(
        default="console", description="lines for people, or one JSON object a line"
    )


class Settings(_Table):
    """Everything an analyzer is started with. Relative paths are relative to the settings file."""

    delivery_listen: str = Field(
        default="127.0.0.1:7401",
        pattern=_ADDRESS,
        description="host:port where the shuffler delivers batches; port 0 takes a free one",
    )
    results_listen: str = Field(
        default="127.0.0.1:7402",
        pattern=_ADDRESS,
        description="host:port where readers ask for results; port 0 takes a free one",
    )
    tasks: tuple[Path, ...] = Field(description="signed task files, or folders of them (*.json)", min_length=1)
    data: Path = Field(description="folder of the analyzer's store; made if missing, for its owner alone")
    identity: Path = Field(description="PEM private key (Ed25519) that signs key records and certificates")
    operator_key: Path = Field(description="PEM public key of the operator, who signed the tasks")
    shuffler_key: Path = Field(description="PEM public key of the shuffler, who signed the tasks and signs batches")
    processes: int = Field(default=0, ge=0, le=1024, description="processes that open envelopes; 0 is one per core")
    tls: TLSSettings
    log: LogSettings = LogSettings()


def load(path: Path) -> Settings:
    """Return the settings of a TOML file.

    Raises:
        SettingsError: naming the file, the key, the value and what is expected.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}; `hubbub init` writes settings") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML: {error}") from error
    try:
        settings = Settings.model_validate(content)
    except ValidationError as error:
        raise SettingsError(f"{path}: {_first_problem(error)}") from error
    return _resolved(settings, path.parent)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key} is not a setting of the analyzer; it knows {', '.join(sorted(Settings.model_fields))}"
    if problem["type"] == "missing":
        return f"{key} is missing; add it"
    return f"{key} is {problem['input']!r}: {problem['msg'].lower()}"


def _resolved(settings: Settings, folder: Path) -> Settings:
    paths: dict[str, Any] = {
        name: folder / getattr(settings, name) for name in ("data", "identity", "operator_key", "shuffler_key")
    }
    tls = TLSSettings(**{name: folder / getattr(settings.tls, name) for name in TLSSettings.model_fields})
    tasks = tuple(folder / task for task in settings.tasks)
    return settings.model_copy(update=paths | {"tls": tls, "tasks": tasks})
