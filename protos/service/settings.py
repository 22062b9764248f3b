"""Settings files: TOML, checked at start, unknown keys refused, paths relative to the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from hubbub.protos.errors import HubbubError
from hubbub.protos.transport import TLS


class SettingsError(HubbubError):
    """A settings file that cannot be used: what is wrong, and where."""


def _placed(path: Path, info: ValidationInfo) -> Path:
    folder: Path | None = (info.context or {}).get("folder")
    return path if folder is None else folder / path


File = Annotated[Path, AfterValidator(_placed)]
"""A path; a relative one is relative to the settings file."""

ADDRESS = r"^[^\s/]+:[0-9]{1,5}$"
"""Form of host:port."""


class Table(BaseModel):
    """A table of a settings file: fixed once read, and every key known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TLSSettings(Table):
    """The `[tls]` table: PEM files."""

    authority: File = Field(description="certificate of the authority whose certificates are trusted")
    certificate: File = Field(description="this party's certificate, for the names or addresses it is called by")
    key: File = Field(description="private key of that certificate")

    def paths(self) -> TLS:
        """The files as `protos.transport` takes them."""
        return TLS(self.authority, self.certificate, self.key)


class LogSettings(Table):
    """The `[log]` table: what is logged, to stderr; never a report, a key, an answer or a submission's id."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least level that is logged"
    )
    format: Literal["console", "json"] = Field(
        default="console", description="lines for people, or one JSON object a line"
    )


T = TypeVar("T", bound=Table)


def load(path: Path, kind: type[T], whose: str) -> T:
    """Return the settings in a TOML file; `whose` names the party in errors.

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
        return kind.model_validate(content, context={"folder": path.parent})
    except ValidationError as error:
        raise SettingsError(f"{path}: {_first_problem(error, kind, whose)}") from error


def _first_problem(error: ValidationError, kind: type[Table], whose: str) -> str:
    problem: Any = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key} is not a setting of the {whose}; it knows {', '.join(sorted(kind.model_fields))}"
    if problem["type"] == "missing":
        return f"{key} is missing; add it"
    return f"{key} is {problem['input']!r}: {problem['msg'].lower()}"
