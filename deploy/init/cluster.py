"""Clustering: a standby, replicas and stores in PostgreSQL, as `hubbub init --cluster` makes them.

shuffler/    the keeper of rounds, and the SQL by which its database is made
standby/     the same shuffler on another host: its identity and settings, a keyring and a certificate of its own
replica-1/   answers devices, and has none of the shuffler's keys; so replica-2/ and on
analyzer/    its store in PostgreSQL too, and the SQL by which that database is made

Ports of the standby and of replicas are ten apart, so that all can be tried on one host.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from hubbub.deploy.init.frontends import add_replica
from hubbub.deploy.init.hops import change
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.keys import Role
from hubbub.protos.transport.addresses import bracketed, checked_host
from hubbub.service.settings import checked_database

STANDBY = "standby"
"""The folder of the shuffler that stands by at first."""

DATABASE = "database.sql"
"""By this file of a party its database is made."""

STORES = {
    role: f"postgresql://hubbub_{role.value}@127.0.0.1/hubbub_{role.value}" for role in (Role.SHUFFLER, Role.ANALYZER)
}
"""Where stores are unless it is said: each party's own database and account, on this machine."""

CONTROL_PORT, METRICS_PORT, KEEPER_PORT = 7302, 7303, 7309
"""The keeper's ports; the standby's are ten higher."""

REPLICA_PORT = 7601
"""The port of replica-1 for devices; its metrics have the next but one, and those of later replicas are ten apart."""

MOST_REPLICAS = 32
"""Most replicas that folders are made for at once; `hubbub certificate replica` makes certificates for more."""


@dataclass(frozen=True)
class Cluster:
    """A shuffler of several processes: how many replicas, the hosts all are called by, the addresses of the stores.

    Hosts of replicas are in their order, and there may be fewer of them than replicas.

    Raises:
        UsageError: where there are no or too many replicas, more hosts than replicas, or a store that is none.
        HostError: where a host is not one.
    """

    replicas: int = 2
    replica_hosts: Sequence[str] = ()
    standby_hosts: Sequence[str] = ()
    stores: Mapping[Role, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= MOST_REPLICAS:
            raise UsageError(f"--replicas is {self.replicas}; folders are made for 1 to {MOST_REPLICAS}")
        if len(self.replica_hosts) > self.replicas:
            raise UsageError(f"--replica-host is given {len(self.replica_hosts)} times for {self.replicas} replicas")
        stores = {role: _checked(role, self.stores.get(role) or store) for role, store in STORES.items()}
        if len({_database_of(store) for store in stores.values()}) < len(stores):
            raise UsageError("both stores are one database; give --shuffler-store and --analyzer-store a database each")
        object.__setattr__(self, "stores", stores)
        object.__setattr__(self, "replica_hosts", tuple(map(checked_host, self.replica_hosts)))
        object.__setattr__(self, "standby_hosts", tuple(map(checked_host, self.standby_hosts)))

    @property
    def names(self) -> list[str]:
        """The replicas' folders, in order."""
        return [f"replica-{number}" for number in range(1, self.replicas + 1)]

    def called(self, index: int) -> tuple[str, ...]:
        """The hosts by which the replica of that index is called, besides this machine's own."""
        return tuple(self.replica_hosts[index : index + 1])


def _checked(role: Role, store: str) -> str:
    option = f"--{role.value}-store"
    try:
        checked = checked_database(store)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if not _account_of(checked):
        raise UsageError(f"{option}: it names no account; write postgresql://{role.value}@host/database")
    return checked


def _account_of(store: str) -> str:
    parts = urlsplit(store)
    return dict(parse_qsl(parts.query)).get("user") or unquote(parts.username or "")


def _database_of(store: str) -> tuple[str, str]:
    """Return a database's server and name, as libpq reads them from its address."""
    parts = urlsplit(store)
    named = dict(parse_qsl(parts.query))
    name = named.get("dbname") or unquote(parts.path.removeprefix("/")) or _account_of(store)
    return named.get("host") or parts.netloc.rpartition("@")[2], name


@dataclass(frozen=True)
class Place:
    """What the folders around it say: the hosts of the keeper, what the ports bind, where stores go, loopback."""

    hosts: Sequence[str]
    bound: str
    data: Path | None
    loopback: Sequence[str]


def add_cluster(root: Path, cluster: Cluster, authority: Authority, place: Place) -> None:
    """Make the folders of standby and replicas in `root`, where the others are, whose settings it changes."""
    for role in STORES:
        change(root / role.value / f"{role.value}.toml", "store", cluster.stores[role])
        (root / role.value / DATABASE).write_text(_sql(role, cluster.stores[role]))
    hosts = [(*place.hosts, "127.0.0.1")[0], (*cluster.standby_hosts, "127.0.0.1")[0]]
    keepers = [f"{bracketed(host)}:{KEEPER_PORT + 10 * number}" for number, host in enumerate(hosts)]
    first = root / Role.SHUFFLER.value / "shuffler.toml"
    for key, value in (("role", "keeper"), ("standbys", 1), ("keepers", keepers[1:])):
        change(first, key, value)
    change(first, "keeper_listen", f"{bracketed(place.bound)}:{KEEPER_PORT}")
    _add_standby(root, cluster, authority, place, keepers)
    for index, name in enumerate(cluster.names):
        named = (*cluster.called(index), *place.loopback)
        settings = add_replica(root, name, authority, named, cluster.stores[Role.SHUFFLER], keepers)
        (root / name).chmod(0o700)
        change(settings, "listen", f"{bracketed(place.bound)}:{REPLICA_PORT + 10 * index}")
        change(settings, "metrics_listen", f"127.0.0.1:{REPLICA_PORT + 10 * index + 2}")
    called = [(*cluster.called(index), "127.0.0.1")[0] for index in range(cluster.replicas)]
    targets = [f"{bracketed(host)}:{REPLICA_PORT + 10 * index}" for index, host in enumerate(called)]
    change(root / "client" / "client.toml", "shuffler", ",".join(targets))
    controls = [f"{bracketed(host)}:{CONTROL_PORT + 10 * number}" for number, host in enumerate(hosts)]
    change(root / "operator" / "operator.toml", "shuffler_control", ",".join(controls))


def _add_standby(root: Path, cluster: Cluster, authority: Authority, place: Place, keepers: Sequence[str]) -> None:
    folder = root / STANDBY
    # All that the keeper has but its TLS key, which is its host's own.
    shutil.copytree(root / Role.SHUFFLER.value, folder, ignore=shutil.ignore_patterns("shuffler.key", DATABASE))
    hosts = tuple(dict.fromkeys((*cluster.standby_hosts, *place.loopback)))
    authority.issue(Role.SHUFFLER.value, hosts, folder / "tls" / "shuffler.pem", folder / "tls" / "shuffler.key")
    settings, at = folder / "shuffler.toml", bracketed(place.bound)
    change(settings, "keepers", keepers[:1])
    change(settings, "keeper_listen", f"{at}:{KEEPER_PORT + 10}")
    change(settings, "control_listen", f"{at}:{CONTROL_PORT + 10}")
    change(settings, "metrics_listen", f"127.0.0.1:{METRICS_PORT + 10}")
    if place.data is not None:
        change(settings, "data", str(place.data / STANDBY))


def _sql(role: Role, store: str) -> str:
    """Return what makes a party's database and its account."""
    account, name = _quoted(_account_of(store)), _quoted(_database_of(store)[1])
    return f"""-- The {role.value}'s database and account. Once, as an administrator of its server:
--   psql --file {DATABASE}
-- Then give the account a password (\\password in psql), and the service a file with it: PGPASSFILE, or passfile=
-- in the address of its store. Where the server knows the account in another way, neither is needed.
CREATE ROLE {account} LOGIN;
CREATE DATABASE {name} OWNER {account};
REVOKE ALL ON DATABASE {name} FROM PUBLIC;
"""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
