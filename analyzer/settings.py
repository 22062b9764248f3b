"""The settings of an analyzer; a settings file with any other key is refused."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hubbub.service.settings import (
    FeedFolder,
    File,
    Listen,
    LogSettings,
    MetricsListen,
    PortLimitSettings,
    Processes,
    RevokedReaders,
    SettingsTable,
    SparkSettings,
    Store,
    SuccessionFiles,
    TaskFiles,
    TLSSettings,
    TraceSettings,
)
from hubbub.service.settings import load as load_table


class AnalyzerSettings(SettingsTable):
    """The settings of an analyzer. Relative paths are relative to the settings file."""

    delivery_listen: Listen = Field(
        default="127.0.0.1:7401",
        description="host:port at which the shuffler delivers batches, over mutual TLS; port 0 takes a free one",
    )
    results_listen: Listen = Field(
        default="127.0.0.1:7402",
        description="host:port at which readers ask for results and status, over mutual TLS; port 0 takes a free one",
    )
    metrics_listen: MetricsListen = ""
    tasks: TaskFiles
    feed: FeedFolder = None
    data: File = Field(description="folder of the analyzer's store; `--create-store` creates it, for its owner alone")
    store: Store = ""
    identity: File = Field(description="PEM private key (Ed25519) that signs key records and certificates")
    operator_key: File = Field(description="PEM public key of the operator, who signed the tasks")
    shuffler_key: File = Field(description="PEM public key of the shuffler, who signed the tasks and signs batches")
    successions: SuccessionFiles = ()
    revoked_readers: RevokedReaders
    processes: Processes = 0
    tls: TLSSettings
    limits: PortLimitSettings = PortLimitSettings()
    spark: SparkSettings = SparkSettings()
    traces: TraceSettings = TraceSettings()
    log: LogSettings = LogSettings()


def load(path: Path) -> AnalyzerSettings:
    """Read the settings of a TOML file.

    Raises:
        SettingsError: naming the file, the key, the value and what is expected.
    """
    return load_table(path, AnalyzerSettings, "analyzer")
