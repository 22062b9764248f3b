"""Settings of the commands that call the services: the client's and the operator's files."""

from __future__ import annotations

import math

from pydantic import Field

from hubbub.service.settings import Address, Addresses, File, SettingsTable, Target, TLSSettings


class PrivacyLimitSettings(SettingsTable):
    """The `[limits]` table: the most that this device may spend, or a task promise; infinity, `inf`, is no limit."""

    epsilon_local_per_day: float = Field(default=math.inf, ge=0, description="local ε in a UTC day, over all tasks")
    epsilon_per_day: float = Field(default=math.inf, ge=0, description="central ε in a UTC day, over all tasks")
    epsilon_local_per_task: float = Field(default=math.inf, ge=0, description="local ε in all rounds of a task")
    epsilon_per_task: float = Field(default=math.inf, ge=0, description="central ε in all rounds of a task")
    epsilon: float = Field(default=math.inf, ge=0, description="ε that a task may promise for a round")
    delta: float = Field(default=math.inf, ge=0, description="δ that a task may promise")
    epsilon_local: float = Field(default=math.inf, ge=0, description="local ε of a round that a task may allow")


class ClientSettings(SettingsTable):
    """The settings that `hubbub submit` and `hubbub device` read."""

    task: File = Field(description="the signed task")
    shuffler: Target = Field(description="where devices submit: host:port, or https://host:port for its HTTPS port")
    operator_key: File = Field(description="whom the task must be signed by")
    shuffler_key: File = Field(description="and countersigned by")
    state: File = Field(description="what this device answered, and keeps to send")
    authority: File = Field(description="whose TLS certificates are trusted")
    ticket: File | None = Field(default=None, description="the ticket by which the operator enrolled this device")
    certificate: File | None = Field(default=None, description="its TLS certificate, for tasks that admit by it")
    key: File | None = Field(default=None, description="private key of that certificate")
    limits: PrivacyLimitSettings = PrivacyLimitSettings()


class OperatorSettings(SettingsTable):
    """The settings that `hubbub close`, `status`, `results` and `keys` read."""

    shuffler_control: Addresses = Field(
        description="the shuffler's control port, host:port; with a standby both, with a comma between them"
    )
    analyzer_results: Address = Field(description="the analyzer's results port, host:port")
    hops: tuple[Address, ...] = Field(
        default=(), description="ports of hops, in their order, that `status` may ask whether they work (host:port)"
    )
    identity: File | None = Field(default=None, description="the operator's identity, where this machine has it")
    successions: tuple[File, ...] = Field(
        default=(), description="successions of identities (`hubbub keys`), or folders of them (*.json)"
    )
    tls: TLSSettings = Field(description="the operator's TLS files")
