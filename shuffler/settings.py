"""Settings of the shuffler: every key is described here and no other is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field

from hubbub.service.loops import EventLoop
from hubbub.service.settings import (
    Address,
    DeviceLimitSettings,
    File,
    Listen,
    LogSettings,
    OptionalListen,
    SparkSettings,
    Table,
    TLSSettings,
)
from hubbub.service.settings import load as load_table


def _database(address: str) -> str:
    if address and not address.startswith(("postgresql://", "postgres://")):
        raise ValueError("it must be postgresql://user@host/database; leave it out for SQLite in `data`")
    # Before the driver is loaded, which may be missing: whatever follows a colon in front of the host is a password.
    parts = urlsplit(address)
    named = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if parts.password is not None or "password" in named:
        raise ValueError("it holds a password: leave it out, and name a file with it by PGPASSFILE or ?passfile=")
    return address


Database = Annotated[str, AfterValidator(_database)]
"""The address of a PostgreSQL database, as libpq reads it; or empty."""


class Settings(Table):
    """Everything a shuffler is started with. Relative paths are relative to the settings file."""

    listen: Listen = Field(
        default="127.0.0.1:7301",
        description="host:port where devices submit; port 0 takes a free one",
    )
    behind_proxy: bool = Field(
        default=False,
        description="whether a proxy with limits by address is in front of the devices' ports; "
        "without one the service warns where they are beyond loopback",
    )
    devices_listen: OptionalListen = Field(
        default="",
        description="host:port where devices submit that show a certificate, for tasks with mode mtls; empty for none",
    )
    devices_authority: File | None = Field(
        default=None, description="PEM certificate of the authority that issued the devices'"
    )
    https_listen: OptionalListen = Field(
        default="",
        description="host:port where devices submit by HTTPS (the Connect protocol); empty for none",
    )
    https_origins: tuple[str, ...] = Field(
        default=(),
        description='origins of web pages that may submit there, such as https://app.example.org; "*" is any',
    )
    control_listen: Listen = Field(
        default="127.0.0.1:7302",
        description="host:port where the operator controls rounds; port 0 takes a free one",
    )
    analyzer: Address = Field(
        description="host:port of the analyzer's delivery port; of the first hop's where tasks name hops"
    )
    metrics_listen: OptionalListen = Field(
        default="",
        description="host:port where Prometheus reads metrics, over mutual TLS unless on loopback; empty for none",
    )
    tasks: tuple[File, ...] = Field(description="signed task files, or folders of them (*.json)", min_length=1)
    data: File = Field(description="folder of the shuffler's store, which `--create-store` makes, for its owner alone")
    store: Database = Field(
        default="",
        description="postgresql://user@host/database without a password, for a store in PostgreSQL with its keyring in "
        "`data`; empty for SQLite in `data`",
    )
    identity: File = Field(description="PEM private key (Ed25519) that signs key records and batch records")
    operator_key: File = Field(description="PEM public key of the operator, whom tasks must be signed by")
    successions: tuple[File, ...] = Field(
        default=(), description="successions of identities (`hubbub keys`), or folders of them (*.json)"
    )
    processes: int = Field(default=0, ge=0, le=1024, description="processes that open envelopes; 0 is one per core")
    event_loop: EventLoop = Field(
        default="asyncio", description="event loop of the service: asyncio, or uvloop (extra uvloop)"
    )
    queue: int = Field(
        default=20_000, ge=1, le=10_000_000, description="submissions in work at once; more are answered OVERLOADED"
    )
    queue_seconds: float = Field(
        default=0.1,
        gt=0,
        le=60,
        description="seconds that submissions may be in work; while the first are longer, more are answered OVERLOADED",
    )
    disk_reserve: int = Field(
        default=2**28, ge=0, description="bytes of the store's disk kept free: below, new submissions are refused"
    )
    count_step: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="submissions in status and metrics are rounded down to multiples of this until a round is cut",
    )
    enrolments_per_second: int = Field(
        default=2000,
        ge=1,
        le=1_000_000,
        description="tickets checked in a second at most; more are answered OVERLOADED",
    )
    tls: TLSSettings
    limits: DeviceLimitSettings = DeviceLimitSettings()
    spark: SparkSettings = SparkSettings()
    log: LogSettings = LogSettings()


def load(path: Path) -> Settings:
    """Return the settings of a TOML file.

    Raises:
        SettingsError: naming the file, the key, the value and what is expected.
    """
    return load_table(path, Settings, "shuffler")
