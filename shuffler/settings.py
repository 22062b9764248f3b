"""The settings of a shuffler and of a front end; a settings file with any other key is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hubbub.protos.transport.channels import TLS
from hubbub.service.runtime.event_loop import EventLoop
from hubbub.service.settings import (
    Address,
    Database,
    DevicePortLimitSettings,
    FeedFolder,
    File,
    Listen,
    LogSettings,
    MetricsListen,
    OptionalFile,
    OptionalListen,
    Processes,
    RevokedReaders,
    SettingsError,
    SettingsTable,
    SparkSettings,
    Store,
    SuccessionFiles,
    TaskFiles,
    TLSSettings,
    TraceSettings,
)
from hubbub.service.settings import load as load_table


class DevicePortSettings(SettingsTable):
    """The settings of every process that answers devices. Relative paths are relative to the settings file."""

    listen: Listen = Field(
        default="127.0.0.1:7301",
        description="host:port at which devices submit, over TLS; port 0 takes a free one",
    )
    behind_proxy: bool = Field(
        default=False,
        description="whether a proxy with limits by address is in front of the devices' ports; "
        "without one the service warns if they are beyond loopback",
    )
    devices_listen: OptionalListen = Field(
        default="",
        description="host:port at which devices submit that show a certificate (mutual TLS), for tasks with mode mtls; "
        "empty for none",
    )
    devices_authority: File | None = Field(
        default=None,
        description="PEM certificate of the authority that issued the devices' certificates; it must not be "
        "`tls.authority`, which is checked",
    )
    https_listen: OptionalListen = Field(
        default="",
        description="host:port at which devices submit by HTTPS (the Connect protocol), such as 127.0.0.1:7308; "
        "empty for none",
    )
    https_origins: tuple[str, ...] = Field(
        default=(),
        description='origins of web pages that may submit there, such as https://app.example.org; "*" is any',
    )
    https_certificate: OptionalFile = Field(
        default=None,
        description="PEM certificate of the HTTPS port that callers trust already, with those that lead to its "
        "authority; empty for none, then the port shows `tls.certificate`",
    )
    https_key: OptionalFile = Field(default=None, description="PEM private key of `https_certificate`; empty for none")
    https_oblivious: bool = Field(
        default=False,
        description="whether the HTTPS port also takes calls by Oblivious HTTP, through a relay of another party, "
        "at /ohttp",
    )
    metrics_listen: MetricsListen = ""
    tasks: TaskFiles
    operator_key: File = Field(description="PEM public key of the operator, who must have signed the tasks")
    successions: SuccessionFiles = ()
    processes: Processes = 0
    event_loop: EventLoop = Field(
        default="asyncio",
        description="event loop of the service: asyncio, or uvloop (extra uvloop), with which a call by HTTPS takes "
        "about 15 µs less of the core that answers calls",
    )
    queue: int = Field(
        default=20_000, ge=1, le=10_000_000, description="submissions in work at once; more are refused as `overloaded`"
    )
    queue_seconds: float = Field(
        default=0.05,
        gt=0,
        le=60,
        description="how long submissions may be in work; while more than 500 are, and more than are done in that "
        "time, new ones are refused as `overloaded`",
    )
    count_step: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="submissions and refusals in status and metrics are rounded down to multiples of this until a "
        "round is cut; 1 shows each",
    )
    # Checking that many tickets, each of another list, takes a quarter of a core, so a flood leaves the rest free.
    enrollments_per_second: int = Field(
        default=2000,
        ge=1,
        le=1_000_000,
        description="most tickets of devices checked in a second; more are refused as `overloaded`",
    )
    tls: TLSSettings
    limits: DevicePortLimitSettings = DevicePortLimitSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _https_files(self) -> Self:
        if (self.https_certificate is None) != (self.https_key is None):
            raise ValueError("https_certificate and https_key belong together; name both files, or none")
        if self.https_certificate is not None and not self.https_listen:
            raise ValueError("https_certificate is for https_listen, which names no port; name one")
        if self.https_oblivious and not self.https_listen:
            raise ValueError("https_oblivious is for https_listen, which names no port; name one")
        return self

    def https_tls(self) -> TLS | None:
        """The files of the HTTPS port's own certificate; None if it shows the service's."""
        if self.https_certificate is None:
            return None
        return TLS(self.tls.authority, self.https_certificate, self.https_key, is_public=True)


class ShufflerSettings(DevicePortSettings):
    """The settings of a shuffler."""

    feed: FeedFolder = None

    role: Literal["both", "leader"] = Field(
        default="both",
        description="`leader` manages rounds, and leaves devices to front ends; `both` answers devices as well; "
        "`hubbub shuffler --role` overrides it",
    )
    workers: int = Field(
        default=0,
        ge=0,
        le=256,
        description="processes that answer devices and open their submissions (`processes` is not used then); "
        "each has `queue` and `limits` for itself; with 0 the main process answers",
    )
    control_listen: Listen = Field(
        default="127.0.0.1:7302",
        description="host:port at which the operator controls rounds, over mutual TLS; port 0 takes a free one",
    )
    analyzer: Address = Field(
        description="host:port of the analyzer's delivery port, or of the first hop's if tasks name hops"
    )
    data: File = Field(description="folder of the shuffler's store; `--create-store` creates it, for its owner alone")
    store: Store = ""
    leader_listen: OptionalListen = Field(
        default="",
        description="host:port at which front ends ask, and standbys follow this one's keyring, over mutual TLS; "
        "empty for none",
    )
    standbys: int = Field(
        default=0,
        ge=0,
        le=16,
        description="standbys that must have each change of the keyring on disk before it is answered",
    )
    identity: File = Field(description="PEM private key (Ed25519) that signs key records and batch records")
    revoked_readers: RevokedReaders
    disk_reserve: int = Field(
        default=2**28,
        ge=0,
        description="bytes of the store's disk kept free, or what a round needs to be mixed if that is more; below, "
        "new submissions are refused as `disk_full`; 0 keeps none",
        json_schema_extra={"unit": "bytes"},
    )
    spark: SparkSettings = SparkSettings()
    traces: TraceSettings = TraceSettings()
    leaders: tuple[Address, ...] = Field(
        default=(),
        description="host:port of the `leader_listen` of the other processes that may lead the same rounds; one leads "
        "at a time",
    )


def _shared(store: str) -> str:
    if not store:
        raise ValueError("a front end uses its leader's store in PostgreSQL; give postgresql://user@host/database")
    return store


class FrontendSettings(DevicePortSettings):
    """The settings of a front end, which answers devices for a leader and manages no rounds."""

    role: Literal["frontend"] = Field(description="makes the service a front end")
    store: Annotated[Database, AfterValidator(_shared)] = Field(
        description="postgresql://user@host/database without a password: the leader's store"
    )
    leaders: tuple[Address, ...] = Field(
        min_length=1, description="host:port of the `leader_listen` of the leader and of its standbys"
    )
    shuffler_key: File = Field(description="PEM public key of the shuffler that manages the rounds")


def load(path: Path, role: str = "") -> ShufflerSettings:
    """Read the settings of a TOML file; a `role` that is given overrides the one in the file.

    Raises:
        SettingsError: naming the file, the key, the value and what is expected.
    """
    found = load_table(path, ShufflerSettings, "shuffler", _given(role))
    shared = {
        "role": found.role == "leader",
        "leader_listen": bool(found.leader_listen),
        "leaders": bool(found.leaders),
        "standbys": bool(found.standbys),
    }
    for name in (name for name, given in shared.items() if given and not found.store):
        raise SettingsError(
            f"{path}: {name} needs a store in PostgreSQL, which several processes share; name its database in `store`, "
            f"or remove {name}. With SQLite one process manages rounds, and `workers` answer devices"
        )
    if found.workers and found.role == "leader":
        raise SettingsError(
            f"{path}: workers answer devices, but role `leader` leaves devices to front ends; remove one of the two"
        )
    return found


def load_frontend(path: Path, role: str = "") -> FrontendSettings:
    """Read the settings of a front end in a TOML file; a `role` that is given overrides the one in the file.

    Raises:
        SettingsError: naming the file, the key, the value and what is expected.
    """
    return load_table(path, FrontendSettings, "frontend", _given(role))


def _given(role: str) -> dict[str, str]:
    return {"role": role} if role else {}


def is_frontend(path: Path) -> bool:
    """Return whether a file has the settings of a front end, by its `role`; loading reports its faults."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig")).get("role") == "frontend"
    except (OSError, ValueError, RecursionError):
        return False
