"""The settings of a hop; a settings file with any other key is refused."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hubbub.service.settings import (
    Address,
    FeedFolder,
    File,
    Listen,
    LogSettings,
    MetricsListen,
    PortLimitSettings,
    Processes,
    SettingsTable,
    SuccessionFiles,
    TLSSettings,
    TraceSettings,
)
from hubbub.service.settings import load as load_table


class HopSettings(SettingsTable):
    """The settings of a hop. Relative paths are relative to the settings file."""

    listen: Listen = Field(
        default="127.0.0.1:7501",
        description="host:port at which the previous shuffler delivers batches, over mutual TLS; port 0 takes a free "
        "one",
    )
    next: Address = Field(
        description="host:port of the next party: the next hop's `listen`, or the analyzer's `delivery_listen`"
    )
    metrics_listen: MetricsListen = ""
    tasks: tuple[File, ...] = Field(
        description="signed task files, or folders of them (*.json); read at the start; each must name this hop",
        min_length=1,
    )
    feed: FeedFolder = None
    successions: SuccessionFiles = ()
    data: File = Field(description="folder of the hop's store; `--create-store` creates it, for its owner alone")
    identity: File = Field(description="PEM private key (Ed25519) that signs key records and its records of batches")
    operator_key: File = Field(description="PEM public key of the operator, who signed the tasks")
    shuffler_key: File = Field(
        description="PEM public key of the first shuffler, who signed the tasks and signs batches"
    )
    processes: Processes = 0
    tls: TLSSettings
    limits: PortLimitSettings = PortLimitSettings()
    traces: TraceSettings = TraceSettings()
    log: LogSettings = LogSettings()


def load(path: Path) -> HopSettings:
    """Read the settings of a TOML file.

    Raises:
        SettingsError: naming the file, the key, the value and what is expected.
    """
    return load_table(path, HopSettings, "hop")
