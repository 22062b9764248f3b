"""Makes a standby, front ends and stores in PostgreSQL for `hubbub init --cluster`.

shuffler/    the leader of rounds, and the SQL by which its database is made
standby/     the same shuffler on another host: its identity and settings, a keyring and a certificate of its own
frontend-1/   answers devices, and has none of the shuffler's keys; so frontend-2/ and on
analyzer/    its store in PostgreSQL too, and the SQL by which that database is made

Ports of the standby and of front ends are ten apart, so that all can be tried on one host.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from hubbub.deploy.init.frontends import add_frontend
from hubbub.deploy.init.hops import change
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.keys import Role
from hubbub.protos.transport.addresses import bracketed, checked_host
from hubbub.service.settings import checked_database

STANDBY = "standby"
"""The folder of the shuffler that is the standby at first."""

DATABASE = "database.sql"
"""The file of a party that creates its database."""

STORES = {
    role: f"postgresql://hubbub_{role.value}@127.0.0.1/hubbub_{role.value}" for role in (Role.SHUFFLER, Role.ANALYZER)
}
"""The default places of stores: each party's own database and account, on this machine."""

CONTROL_PORT, METRICS_PORT, LEADER_PORT = 7302, 7303, 7309
"""The leader's ports; the standby's are ten higher."""

FRONTEND_PORT = 7601
"""The port of frontend-1 for devices; its metrics port is two higher. Those of later front ends are ten apart."""

MOST_FRONTENDS = 32
"""Most front ends that get folders at once; `hubbub certificate frontend` makes certificates for more."""


@dataclass(frozen=True)
class Cluster:
    """A shuffler of several processes: the number of front ends, the hosts of all, and the addresses of the stores.

    Hosts of front ends are in their order; there may be fewer than front ends.

    Raises:
        UsageError: if there are no or too many front ends, more hosts than front ends, or a store's address is wrong.
        HostError: if a host is not one.
    """

    frontends: int = 2
    frontend_hosts: Sequence[str] = ()
    standby_hosts: Sequence[str] = ()
    stores: Mapping[Role, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.frontends <= MOST_FRONTENDS:
            raise UsageError(f"--frontends is {self.frontends}; give a number from 1 to {MOST_FRONTENDS}")
        if len(self.frontend_hosts) > self.frontends:
            raise UsageError(
                f"--frontend-host is given {len(self.frontend_hosts)} times for {self.frontends} front ends; give it "
                "once for each, or more --frontends"
            )
        stores = {role: _checked(role, self.stores.get(role) or store) for role, store in STORES.items()}
        if len({_database_of(store) for store in stores.values()}) < len(stores):
            raise UsageError(
                "both stores are the same database; give --shuffler-store and --analyzer-store different ones"
            )
        object.__setattr__(self, "stores", stores)
        object.__setattr__(self, "frontend_hosts", tuple(map(checked_host, self.frontend_hosts)))
        object.__setattr__(self, "standby_hosts", tuple(map(checked_host, self.standby_hosts)))

    @property
    def names(self) -> list[str]:
        """The front ends' folders, in order."""
        return [f"frontend-{number}" for number in range(1, self.frontends + 1)]

    def called(self, index: int) -> tuple[str, ...]:
        """The hosts of the front end with that index, in addition to this machine's own."""
        return tuple(self.frontend_hosts[index : index + 1])


def _checked(role: Role, store: str) -> str:
    option = f"--{role.value}-store"
    try:
        checked = checked_database(store)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if not _account_of(checked):
        raise UsageError(f"{option} names no account; write postgresql://{role.value}@host/database")
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
class ClusterLayout:
    """The placement of the other folders: the leader's hosts, the bound address, the folder of stores, loopback."""

    hosts: Sequence[str]
    bound: str
    data: Path | None
    loopback: Sequence[str]


def add_cluster(root: Path, cluster: Cluster, authority: Authority, place: ClusterLayout) -> None:
    """Make the folders of standby and front ends in `root`, next to the others, and change the others' settings."""
    for role in STORES:
        change(root / role.value / f"{role.value}.toml", "store", cluster.stores[role])
        (root / role.value / DATABASE).write_text(_sql(role, cluster.stores[role]), "utf-8")
    hosts = [(*place.hosts, "127.0.0.1")[0], (*cluster.standby_hosts, "127.0.0.1")[0]]
    leaders = [f"{bracketed(host)}:{LEADER_PORT + 10 * number}" for number, host in enumerate(hosts)]
    first = root / Role.SHUFFLER.value / "shuffler.toml"
    for key, value in (("role", "leader"), ("standbys", 1), ("leaders", leaders[1:])):
        change(first, key, value)
    change(first, "leader_listen", f"{bracketed(place.bound)}:{LEADER_PORT}")
    _add_standby(root, cluster, authority, place, leaders)
    for index, name in enumerate(cluster.names):
        named = (*cluster.called(index), *place.loopback)
        settings = add_frontend(root, name, authority, named, cluster.stores[Role.SHUFFLER], leaders)
        (root / name).chmod(0o700)
        change(settings, "listen", f"{bracketed(place.bound)}:{FRONTEND_PORT + 10 * index}")
        change(settings, "metrics_listen", f"127.0.0.1:{FRONTEND_PORT + 10 * index + 2}")
    called = [(*cluster.called(index), "127.0.0.1")[0] for index in range(cluster.frontends)]
    targets = [f"{bracketed(host)}:{FRONTEND_PORT + 10 * index}" for index, host in enumerate(called)]
    change(root / "client" / "client.toml", "shuffler", ",".join(targets))
    controls = [f"{bracketed(host)}:{CONTROL_PORT + 10 * number}" for number, host in enumerate(hosts)]
    for name in ("operator", "reader"):
        change(root / name / f"{name}.toml", "shuffler_control", ",".join(controls))


def _add_standby(
    root: Path, cluster: Cluster, authority: Authority, place: ClusterLayout, leaders: Sequence[str]
) -> None:
    folder = root / STANDBY
    # Everything of the leader except its TLS key, which is its host's own.
    shutil.copytree(root / Role.SHUFFLER.value, folder, ignore=shutil.ignore_patterns("shuffler.key", DATABASE))
    hosts = tuple(dict.fromkeys((*cluster.standby_hosts, *place.loopback)))
    authority.issue(Role.SHUFFLER.value, hosts, folder / "tls" / "shuffler.pem", folder / "tls" / "shuffler.key")
    settings, at = folder / "shuffler.toml", bracketed(place.bound)
    change(settings, "leaders", leaders[:1])
    change(settings, "leader_listen", f"{at}:{LEADER_PORT + 10}")
    change(settings, "control_listen", f"{at}:{CONTROL_PORT + 10}")
    change(settings, "metrics_listen", f"127.0.0.1:{METRICS_PORT + 10}")
    if place.data is not None:
        for key in ("data", "folder"):
            change(settings, key, str(place.data / STANDBY))


def _sql(role: Role, store: str) -> str:
    """Return the SQL that creates a party's database and its account."""
    account, name = _quoted(_account_of(store)), _quoted(_database_of(store)[1])
    return f"""-- Makes the {role.value}'s database and account. Run it once, as an administrator of the server:
--   psql --file {DATABASE}
-- Then give the account a password (\\password in psql), and the service a file with it: PGPASSFILE, or passfile=
-- in the address of its store. If the server authenticates the account in another way, neither is needed.
CREATE ROLE {account} LOGIN;
CREATE DATABASE {name} OWNER {account};
REVOKE ALL ON DATABASE {name} FROM PUBLIC;
"""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
