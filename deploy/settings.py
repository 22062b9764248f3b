"""Settings of the commands that call the services: the client's and the operator's files."""

from __future__ import annotations

import math

from pydantic import Field

from hubbub.service.settings import Address, Addresses, File, OptionalProxy, SettingsTable, Target, TLSSettings


class PrivacyLimitSettings(SettingsTable):
    """The `[limits]` table: the most that this device may spend, or that a task may have; `inf` is no limit."""

    epsilon_local_per_day: float = Field(
        default=math.inf, ge=0, description="most ε_local in a UTC day, over all tasks with this state file"
    )
    epsilon_per_day: float = Field(
        default=math.inf, ge=0, description="most central ε in a UTC day, over all tasks with this state file"
    )
    epsilon_local_per_task: float = Field(default=math.inf, ge=0, description="most ε_local in all rounds of a task")
    epsilon_per_task: float = Field(default=math.inf, ge=0, description="most central ε in all rounds of a task")
    epsilon: float = Field(
        default=math.inf,
        ge=0,
        description="largest ε of a round that a task may have; a task whose ε is larger is not answered",
    )
    delta: float = Field(default=math.inf, ge=0, description="largest δ that a task may have")
    epsilon_local: float = Field(
        default=math.inf, ge=0, description="largest cap on the ε_local of a round that a task may state"
    )


class ClientSettings(SettingsTable):
    """The settings that `hubbub submit` and `hubbub device` read."""

    task: File = Field(description="the signed task")
    shuffler: Target = Field(
        description="the shuffler's address for devices: host:port, or https://host:port for its HTTPS port"
    )
    operator_key: File = Field(description="PEM public key of the operator, who must have signed the task")
    shuffler_key: File = Field(description="PEM public key of the shuffler, who must have countersigned it")
    state: File = Field(
        description="file with this device's randomized reports until they are sent, its credential, and any opt-out"
    )
    authority: File = Field(description="PEM certificate of the authority that issues the trusted TLS certificates")
    ticket: File | None = Field(
        default=None,
        description="the operator's ticket for this device (`hubbub enroll`); the file may be added later",
    )
    certificate: File | None = Field(
        default=None,
        description="PEM TLS certificate of this device, presented only in tasks that admit by certificates (mtls)",
    )
    key: File | None = Field(default=None, description="PEM private key of that certificate")
    proxy: OptionalProxy = Field(
        default="",
        description="http://host:port of a proxy that takes CONNECT, to call another machine through; empty for "
        "none, whatever variables of the environment name",
    )
    limits: PrivacyLimitSettings = PrivacyLimitSettings()


class ReaderSettings(SettingsTable):
    """The settings that `hubbub results` and `status` read for somebody who may look."""

    shuffler_control: Addresses = Field(
        description="the shuffler's control port, host:port; with a standby both ports, separated by a comma: commands "
        "try each until they find the leader"
    )
    analyzer_results: Address = Field(description="the analyzer's results port, host:port")
    hops: tuple[Address, ...] = Field(
        default=(),
        description="host:port of hops (`listen`), in order from hop-2 on; `hubbub status` checks whether they serve",
    )
    tls: TLSSettings


class OperatorSettings(ReaderSettings):
    """The settings that `hubbub close`, `status`, `results` and `keys` read."""

    identity: File | None = Field(
        default=None,
        description="PEM private key (Ed25519) of the operator, if this machine has it; `hubbub keys` shows it",
    )
    successions: tuple[File, ...] = Field(
        default=(),
        description="signed successions of identities, or folders of them (*.json); `hubbub keys` reads the states of "
        "identities from them",
    )
