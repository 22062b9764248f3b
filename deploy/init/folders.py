"""Makes a folder for each party for `hubbub init`; each has only the secrets of that party.

operator/   identity, the authority's key, its certificate, everyone's public keys, the sample task
shuffler/   identity, its certificate, the operator's public key, settings
analyzer/   identity, its certificate, the operator's and the shuffler's public keys, settings
reader/     its certificate, everyone's public keys, settings: may look at everything, and change nothing
client/     the operator's and the shuffler's public keys, the authority's certificate, settings: nothing secret
hop-2/      if there are more shufflers, each has its own folder (`deploy/init/hops.py`)
proxy/      if a proxy is in front of the shuffler, its configuration and its certificate (`deploy/init/proxy.py`)
standby/, frontend-1/   if the shuffler is several processes on a database (`deploy/init/cluster.py`)

A shuffler or an analyzer of another organization makes its own identity and hands over only the public key. Then its
folder has no identity.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from hubbub.deploy.init.cluster import Cluster, ClusterLayout, add_cluster
from hubbub.deploy.init.hops import Hops, add_hops
from hubbub.deploy.init.proxy import add_proxy
from hubbub.deploy.new_folder import new_folder
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.keys import CORE_ROLES, Identity, Role, load_public, save_public
from hubbub.protos.task.trusted_keys import identities_in
from hubbub.protos.transport.addresses import bracketed, checked_host
from hubbub.protos.transport.roles import READER

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Hosts that every service's certificate is valid for."""

USUAL_BASE = 7300
"""The number that ports count from if no other one is given."""

LEAST_PORT, LARGEST_PORT = 1024, 65_535
"""Ports that a service may have: a smaller one is for the system's own services."""

_PORT = re.compile(r":(7[3-9][0-9]{2})\b")
"""A port in settings, as every sample and every part of a cluster writes it."""

TRUST = {
    "operator": (Role.OPERATOR, Role.SHUFFLER, Role.ANALYZER),
    "shuffler": (Role.OPERATOR,),
    "analyzer": (Role.OPERATOR, Role.SHUFFLER),
    "client": (Role.OPERATOR, Role.SHUFFLER),
    READER: (Role.OPERATOR, Role.SHUFFLER, Role.ANALYZER),
}
"""The public keys that each party gets, and trusts."""


@dataclass(frozen=True)
class Folder:
    """The folders that `initialize` makes."""

    root: Path

    def of(self, party: str) -> Path:
        """The folder of a party: operator, shuffler, analyzer, client or reader."""
        return self.root / party

    def identity(self, role: Role) -> Path:
        """The private key file of a role."""
        return self.of(role.value) / "identity.pem"

    def trust_of(self, party: str) -> Path:
        """The folder of a party's trusted public keys."""
        return self.of(party) / "trust"

    def trusted(self, party: str, role: Role) -> Path:
        """The file in which a party keeps a role's public key."""
        return self.trust_of(party) / f"{role.value}.pub.pem"


@dataclass(frozen=True)
class Placement:
    """The placement of the services, by role; omitted values stay as in the sample settings.

    Args:
        hosts: names or addresses of a service. Its certificate is valid for all of them, and its callers' settings name
            the first.
        listen: the host or address that its ports bind.
        data: the folder for the stores; each service's store is in a folder named after its role there.
        public_keys: the PEM files of parties that made their own identities.
        hops: the shufflers after the first one.
        proxy: whether a proxy is in front of the shuffler's public port, and has that address.
        cluster: the parts of the shuffler, if it is more than one process; its ports bind like the leader's.
        port_base: the number that every port counts from, instead of 7300: 7301 is then the port after it.
    """

    hosts: Mapping[Role, Sequence[str]] = field(default_factory=dict)
    listen: Mapping[Role, str] = field(default_factory=dict)
    data: Path | None = None
    public_keys: Mapping[Role, Path] = field(default_factory=dict)
    hops: Hops = field(default_factory=Hops)
    proxy: bool = False
    cluster: Cluster | None = None
    port_base: int = USUAL_BASE


HERE = Placement()
"""Everything on this machine's loopback."""


def sample(name: str) -> str:
    """Return the text of a sample file shipped with hubbub."""
    return importlib.resources.files("hubbub.deploy").joinpath("samples", name).read_text("utf-8")


def initialize(root: Path, placement: Placement = HERE, now: datetime | None = None) -> Folder:
    """Make keys, certificates, settings and a sample task in `root`, a new or empty folder.

    If it fails, nothing is left.

    Raises:
        HubbubError: if the folder has content already.
        HostError: if a host of the placement is not one.
        SignatureError: if a handed-over file has no public key.
        UsageError: if two parties hand over the same key, a proxy is requested in front of a cluster, or a port would
            be out of range.
    """
    folder = Folder(root)
    placement = _checked(placement)
    public = {role: load_public(path) for role, path in placement.public_keys.items()}
    _check_different(public, placement.public_keys)
    if placement.proxy and placement.cluster is not None:
        raise UsageError(
            "--proxy is not for --cluster; put a balancer that forwards TCP in front of the front ends instead"
        )
    with new_folder(root):
        authority = Authority.generate()
        for party in TRUST:
            for part in ("trust", "tls"):
                (folder.of(party) / part).mkdir(parents=True, mode=0o700)
            folder.of(party).chmod(0o700)
            authority.save_certificate(folder.of(party) / "tls" / "authority.pem")
        _make_identities(folder, public)
        _issue(folder, authority, placement)
        _write_settings(folder, placement, now or datetime.now(UTC))
        add_hops(root, placement.hops, authority, LOOPBACK, placement.data)
        if placement.proxy:
            bound = placement.listen.get(Role.SHUFFLER, "127.0.0.1")
            add_proxy(root, bound, authority, _called(placement, Role.SHUFFLER))
        if placement.cluster is not None:
            hosts, bound = placement.hosts.get(Role.SHUFFLER, ()), placement.listen.get(Role.SHUFFLER, "127.0.0.1")
            add_cluster(root, placement.cluster, authority, ClusterLayout(hosts, bound, placement.data, LOOPBACK))
        identities_in(folder.trust_of("operator"))
        _move_ports(root, placement.port_base)
    return folder


def _move_ports(root: Path, base: int) -> None:
    """Count every port of every settings file from `base`; databases are at the ports that were given for them."""
    if base == USUAL_BASE:
        return
    files = {path: path.read_text("utf-8") for ending in ("toml", "cfg") for path in root.rglob(f"*.{ending}")}
    moved = {path: _with_ports(text, base) for path, text in files.items()}
    for path, text in moved.items():
        path.write_text(text, "utf-8")


def _with_ports(text: str, base: int) -> str:
    def moved(found: re.Match[str]) -> str:
        port = int(found[1]) - USUAL_BASE + base
        if not LEAST_PORT <= port <= LARGEST_PORT:
            raise UsageError(
                f"--port-base is {base}, which makes {port} of port {found[1]}; ports are from {LEAST_PORT} to "
                f"{LARGEST_PORT}: choose another base"
            )
        return f":{port}"

    lines = text.splitlines(keepends=True)
    return "".join(line if "postgresql://" in line else _PORT.sub(moved, line) for line in lines)


def _checked(placement: Placement) -> Placement:
    """Return the placement with its hosts in the form of certificates and settings."""
    hosts = {role: [checked_host(host) for host in given] for role, given in placement.hosts.items()}
    listen = {role: checked_host(host, listening=True) for role, host in placement.listen.items()}
    return replace(placement, hosts=hosts, listen=listen)


def _check_different(public: Mapping[Role, bytes], paths: Mapping[Role, Path]) -> None:
    """Check that no two parties have the same key: as one party, they would break every (ε, δ)."""
    seen: dict[bytes, Role] = {}
    for role, key in public.items():
        other = seen.setdefault(key, role)
        if other is not role:
            raise UsageError(
                f"{paths[other]} and {paths[role]} are the same key, but {other.value} and {role.value} must be "
                "different parties; make a key for each with `hubbub identity` on its own machine"
            )


def _make_identities(folder: Folder, handed_over: Mapping[Role, bytes]) -> None:
    public = dict(handed_over)
    for role in CORE_ROLES:
        if role not in public:
            identity = Identity.generate()
            identity.save(folder.identity(role))
            public[role] = identity.public
    for party, roles in TRUST.items():
        for role in roles:
            save_public(folder.trusted(party, role), public[role])


def _issue(folder: Folder, authority: Authority, placement: Placement) -> None:
    # Only the operator gets this key: its owner can issue certificates, and pose as any party over TLS.
    authority.save_key(folder.of("operator") / "authority.key")
    for role in CORE_ROLES:
        tls = folder.of(role.value) / "tls"
        # The operator only calls others, so its certificate names no host.
        hosts = () if role is Role.OPERATOR else _called(placement, role)
        authority.issue(role.value, hosts, tls / f"{role.value}.pem", tls / f"{role.value}.key")
    tls = folder.of(READER) / "tls"
    authority.issue(READER, (), tls / f"{READER}.pem", tls / f"{READER}.key")


def _called(placement: Placement, role: Role) -> tuple[str, ...]:
    """Return all hosts of a service."""
    return tuple(dict.fromkeys((*placement.hosts.get(role, ()), *LOOPBACK)))


def _write_settings(folder: Folder, placement: Placement, now: datetime) -> None:
    # The present hour, so that the sample's first round is open immediately.
    start = now.replace(minute=0, second=0, microsecond=0).strftime("%Y-%m-%dT%H:%M:%SZ")
    (folder.of("operator") / "task.toml").write_text(sample("task.toml").replace("@START@", start), "utf-8")
    for name in TRUST:
        (folder.of(name) / f"{name}.toml").write_text(_placed(sample(f"{name}.toml"), name, placement), "utf-8")
    for name in ("shuffler", "analyzer"):
        (folder.of(name) / "tasks").mkdir()
    for role in CORE_ROLES:
        (folder.of(role.value) / "successions").mkdir()


def _placed(settings: str, party: str, placement: Placement) -> str:
    """Return a party's sample settings with the placement's hosts, addresses to listen on and folder for its store."""
    # Lines are changed in place: parsing and writing TOML would lose the comments, which document every setting.
    calls = {
        "shuffler": Role.SHUFFLER,
        "shuffler_control": Role.SHUFFLER,
        "analyzer": Role.ANALYZER,
        "analyzer_results": Role.ANALYZER,
    }
    listens = dict.fromkeys(("listen", "control_listen", "delivery_listen", "results_listen"), party)
    lines = []
    for line in settings.splitlines():
        key = line.partition(" = ")[0]
        if key in calls and placement.hosts.get(calls[key]):
            line = line.replace("127.0.0.1", bracketed(placement.hosts[calls[key]][0]))
        elif key in listens and Role(party) in placement.listen:
            line = line.replace("127.0.0.1", bracketed(placement.listen[Role(party)]))
        elif key in ("data", "folder") and placement.data is not None:
            # Spark's files are next to the store: a unit may write nowhere else.
            # A string in JSON is also one in TOML.
            line = line.replace('"data"', json.dumps(str(placement.data / party), ensure_ascii=False))
        lines.append(line)
    return "\n".join(lines) + "\n"
