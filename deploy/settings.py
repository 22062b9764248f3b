"""Settings of the commands that call the services: the operator's and a reader's files."""

from __future__ import annotations

from pydantic import Field

from hubbub.service.settings import Address, Addresses, File, SettingsTable, TLSSettings


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
