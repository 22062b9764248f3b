"""`hubbub init`: a folder for each party, holding only what that party may know.

operator/   identity, the authority's key, its certificate, everyone's public keys, the sample task
shuffler/   identity, its certificate, the operator's public key, settings
analyzer/   identity, its certificate, the operator's and the shuffler's public keys, settings
client/     the operator's and the shuffler's public keys, the authority's certificate, settings: nothing secret
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from hubbub.deploy.authority import Authority
from hubbub.protos.errors import HubbubError
from hubbub.protos.keys import Identity, Role

LOOPBACK = ("localhost", "127.0.0.1")
"""Hosts that every service's certificate is valid for."""

TRUST = {
    "operator": (Role.OPERATOR, Role.SHUFFLER, Role.ANALYZER),
    "shuffler": (Role.OPERATOR,),
    "analyzer": (Role.OPERATOR, Role.SHUFFLER),
    "client": (Role.OPERATOR, Role.SHUFFLER),
}
"""Whose public keys each party is given."""


@dataclass(frozen=True)
class Folder:
    """The folders that `initialise` makes."""

    root: Path
    hosts: Mapping[Role, Sequence[str]] = field(default_factory=dict)

    def of(self, party: str) -> Path:
        """The folder of a party: operator, shuffler, analyzer or client."""
        return self.root / party

    def identity(self, role: Role) -> Path:
        """The private key file of a role."""
        return self.of(role.value) / "identity.pem"

    def trusted(self, party: str, role: Role) -> Path:
        """The file in which a party keeps a role's public key."""
        return self.of(party) / "trust" / f"{role.value}.pub.pem"


def sample(name: str) -> str:
    """Return the text of a sample file shipped with hubbub."""
    return importlib.resources.files("hubbub.deploy").joinpath("samples", name).read_text()


def initialise(root: Path, hosts: Mapping[Role, Sequence[str]] | None = None, now: datetime | None = None) -> Folder:
    """Make keys, certificates, settings and a sample task in `root`, a folder that is new or empty.

    `hosts` names further hosts that a service's certificate is to be valid for; the first is also put into settings.

    Raises:
        HubbubError: where the folder holds something already.
    """
    folder = Folder(root, hosts or {})
    make_empty(root)
    authority = Authority.generate()
    for party in TRUST:
        for part in ("trust", "tls"):
            (folder.of(party) / part).mkdir(parents=True, mode=0o700)
        folder.of(party).chmod(0o700)
        authority.save_certificate(folder.of(party) / "tls" / "authority.pem")
    identities = {role: Identity.generate() for role in Role}
    for role, identity in identities.items():
        identity.save(folder.identity(role))
    for party, roles in TRUST.items():
        for role in roles:
            identities[role].save_public(folder.trusted(party, role))
    _issue(folder, authority)
    _write_settings(folder, now or datetime.now(UTC))
    return folder


def make_empty(root: Path) -> None:
    """Make the folder, or take it if it is empty.

    Raises:
        HubbubError: where it holds something, or is a file.
    """
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise HubbubError(f"{root} is not an empty folder; name one that is new or empty, nothing is overwritten")
    root.mkdir(parents=True, exist_ok=True)


def _issue(folder: Folder, authority: Authority) -> None:
    authority.save_key(folder.of("operator") / "authority.key")
    for role in Role:
        tls = folder.of(role.value) / "tls"
        hosts = () if role is Role.OPERATOR else (*LOOPBACK, *folder.hosts.get(role, ()))
        authority.issue(role.value, hosts, tls / f"{role.value}.pem", tls / f"{role.value}.key")


def _write_settings(folder: Folder, now: datetime) -> None:
    start = now.replace(minute=0, second=0, microsecond=0).strftime("%Y-%m-%dT%H:%M:%SZ")
    (folder.of("operator") / "task.toml").write_text(sample("task.toml").replace("@START@", start))
    for name in ("operator", "shuffler", "analyzer", "client"):
        (folder.of(name) / f"{name}.toml").write_text(_addressed(sample(f"{name}.toml"), folder))
    for name in ("shuffler", "analyzer"):
        (folder.of(name) / "tasks").mkdir()


def _addressed(settings: str, folder: Folder) -> str:
    """Put the hosts that were named into the addresses that are called; those listened on stay on loopback."""
    calls = {
        Role.SHUFFLER: ("shuffler = ", "shuffler_control = "),
        Role.ANALYZER: ("analyzer = ", "analyzer_results = "),
    }
    lines = []
    for line in settings.splitlines():
        for role, keys in calls.items():
            if folder.hosts.get(role) and line.startswith(keys):
                line = line.replace("127.0.0.1", folder.hosts[role][0])
        lines.append(line)
    return "\n".join(lines) + "\n"
