"""The settings of an analyzer; a settings file with any other key is refused."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hubbub.service.settings import (
    Database,
    File,
    Listen,
    LogSettings,
    OptionalListen,
    PortLimitSettings,
    SettingsTable,
    SparkSettings,
    TLSSettings,
)
from hubbub.service.settings import load as load_table


class AnalyzerSettings(SettingsTable):
    """The settings of an analyzer. Relative paths are relative to the settings file."""

    delivery_listen: Listen = Field(
        default="127.0.0.1:7401",
        description="host:port where the shuffler delivers batches, over mutual TLS; port 0 takes a free one",
    )
    results_listen: Listen = Field(
        default="127.0.0.1:7402",
        description="host:port where readers ask for results and status, over mutual TLS; port 0 takes a free one",
    )
    metrics_listen: OptionalListen = Field(
        default="",
        description="host:port where Prometheus reads metrics, over mutual TLS unless on loopback; empty for none",
    )
    tasks: tuple[File, ...] = Field(
        description="signed task files, or folders of them (*.json); read at the start", min_length=1
    )
    data: File = Field(description="folder of the analyzer's store; `--create-store` creates it, for its owner alone")
    store: Database = Field(
        default="",
        description="postgresql://user@host/database without a password, for a store in PostgreSQL with its keyring in "
        "`data`; empty for SQLite in `data`",
    )
    identity: File = Field(description="PEM private key (Ed25519) that signs key records and certificates")
    operator_key: File = Field(description="PEM public key of the operator, who signed the tasks")
    shuffler_key: File = Field(description="PEM public key of the shuffler, who signed the tasks and signs batches")
    successions: tuple[File, ...] = Field(
        default=(),
        description="signed successions of identities (`hubbub keys`), or folders of them (*.json); read at the start",
    )
    processes: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="processes that open envelopes; 0 is one per core that the service may use",
    )
    tls: TLSSettings
    limits: PortLimitSettings = PortLimitSettings()
    spark: SparkSettings = SparkSettings()
    log: LogSettings = LogSettings()


def load(path: Path) -> AnalyzerSettings:
    """Read the settings of a TOML file.

    Raises:
        SettingsError: naming the file, the key, the value and what is expected.
    """
    return load_table(path, AnalyzerSettings, "analyzer")
