"""Makes the folders of a new deployment's parties: `hubbub init DIR`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.deploy.init.cluster import Cluster
    from hubbub.deploy.init.folders import Folder, Placement

Hosts = list[str] | None
ShufflerHost = Annotated[
    Hosts,
    typer.Option(
        metavar="HOST", help="Name or address at which others reach the shuffler; repeatable. [default: localhost]"
    ),
]
AnalyzerHost = Annotated[
    Hosts,
    typer.Option(
        metavar="HOST", help="Name or address at which others reach the analyzer; repeatable. [default: localhost]"
    ),
]
ShufflerListen = Annotated[
    str, typer.Option(metavar="HOST", help="Address that the shuffler's ports bind; :: is every address.")
]
AnalyzerListen = Annotated[
    str, typer.Option(metavar="HOST", help="Address that the analyzer's ports bind; :: is every address.")
]
PublicKey = Path | None
ShufflerKey = Annotated[
    PublicKey, typer.Option(metavar="PUB.pem", help="The shuffler's public key, made there by `hubbub identity`.")
]
AnalyzerKey = Annotated[
    PublicKey, typer.Option(metavar="PUB.pem", help="The analyzer's public key, made there by `hubbub identity`.")
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Put stores into DIR/shuffler and so on. [default: next to the settings]"),
]

HopCount = Annotated[
    int, typer.Option("--hops", help="Shufflers in the chain, each run by another party; 1 is the shuffler alone.")
]
HopHosts = Annotated[
    Hosts,
    typer.Option(
        "--hop-host", metavar="HOST", help="Name or address of hop-2; repeat for hop-3 and on. [default: 127.0.0.1]"
    ),
]
HopListens = Annotated[
    Hosts,
    typer.Option(
        "--hop-listen", metavar="HOST", help="Address that hop-2 binds; repeat for hop-3 and on. [default: 127.0.0.1]"
    ),
]
HopKeys = Annotated[
    list[Path] | None,
    typer.Option(
        "--hop-key",
        metavar="PUB.pem",
        help="Public key of hop-2, made there by `hubbub identity`; repeat for hop-3 and on.",
    ),
]
WithProxy = Annotated[
    bool, typer.Option("--proxy", help="Also make proxy/: HAProxy in front of the shuffler's public port.")
]
Clustered = Annotated[
    bool, typer.Option("--cluster", help="Run the shuffler as leader, standby and front ends, with PostgreSQL stores.")
]
Frontends = Annotated[int | None, typer.Option(help="With --cluster: how many front ends to make. [default: 2]")]
FrontendHosts = Annotated[
    Hosts,
    typer.Option(
        "--frontend-host",
        metavar="HOST",
        help="With --cluster: name or address of frontend-1; repeat for the others, in order. [default: localhost]",
    ),
]
StandbyHosts = Annotated[
    Hosts,
    typer.Option(
        "--standby-host",
        metavar="HOST",
        help="With --cluster: name or address of the standby; repeatable. [default: localhost]",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="With --cluster: the party's database, as postgresql://ACCOUNT@HOST/DATABASE. [default: on 127.0.0.1]",
    ),
]

PortBase = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Count all ports from N: 7301 becomes N + 1, and so on. So several deployments run on one machine.",
    ),
]


def command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new or empty.")],
    shuffler_host: ShufflerHost = None,
    analyzer_host: AnalyzerHost = None,
    shuffler_listen: ShufflerListen = "127.0.0.1",
    analyzer_listen: AnalyzerListen = "127.0.0.1",
    shuffler_key: ShufflerKey = None,
    analyzer_key: AnalyzerKey = None,
    data: Data = None,
    hops: HopCount = 1,
    hop_host: HopHosts = None,
    hop_listen: HopListens = None,
    hop_key: HopKeys = None,
    proxy: WithProxy = False,
    cluster: Clustered = False,
    frontends: Frontends = None,
    frontend_host: FrontendHosts = None,
    standby_host: StandbyHosts = None,
    shuffler_store: Address = None,
    analyzer_store: Address = None,
    port_base: PortBase = 7300,
    as_json: Json = False,
) -> None:
    """Make a folder for each party, with only what it may know.

    The folders are operator/, shuffler/, analyzer/, client/ and reader/. Each has the party's keys (private ones with
    mode 0600), its certificates, its settings with a comment on each line, and the public keys that it trusts.
    operator/ also has a sample task.

    With --shuffler-key, --analyzer-key or --hop-key, that party keeps its private key to itself: its folder has no
    identity. With --hops there is a folder for each hop.

    With --proxy there is also proxy/, for HAProxy; devices then call the proxy instead of the shuffler.

    With --cluster the shuffler is several processes on a PostgreSQL database: shuffler/ is the leader and keeps the
    rounds, standby/ takes over if the leader fails, and frontend-1/ and so on answer devices. A file database.sql, next
    to the settings, makes the party's database.

    Hosts are names (international ones too) or addresses, without ports. If anything is wrong, nothing is made.

    Examples: hubbub init deployment; hubbub init deployment --cluster --frontends 3
    """
    with failures(as_json):
        from hubbub.deploy.init.folders import Placement, initialize
        from hubbub.deploy.init.hops import Hops
        from hubbub.deploy.option_values import hosts_given
        from hubbub.protos.identity.keys import Role

        keys = {Role.SHUFFLER: shuffler_key, Role.ANALYZER: analyzer_key}
        hop_bound = hosts_given("--hop-listen", hop_listen, listening=True)
        placement = Placement(
            hosts={
                Role.SHUFFLER: hosts_given("--shuffler-host", shuffler_host),
                Role.ANALYZER: hosts_given("--analyzer-host", analyzer_host),
            },
            listen={
                Role.SHUFFLER: hosts_given("--shuffler-listen", [shuffler_listen], listening=True)[0],
                Role.ANALYZER: hosts_given("--analyzer-listen", [analyzer_listen], listening=True)[0],
            },
            data=data,
            public_keys={role: key for role, key in keys.items() if key is not None},
            hops=Hops(hops - 1, hosts_given("--hop-host", hop_host), hop_key or (), hop_bound),
            proxy=proxy,
            port_base=port_base,
            cluster=_cluster(cluster, frontends, frontend_host, standby_host, shuffler_store, analyzer_store),
        )
        _say(initialize(directory, placement), _next_steps(directory, placement), as_json)


def _cluster(
    wanted: bool,
    frontends: int | None,
    frontend_hosts: Hosts,
    standby_hosts: Hosts,
    shuffler_store: str | None,
    analyzer_store: str | None,
) -> Cluster | None:
    from hubbub.deploy.init.cluster import Cluster
    from hubbub.deploy.option_values import hosts_given
    from hubbub.protos.errors import UsageError
    from hubbub.protos.identity.keys import Role

    given = {
        "--frontends": frontends,
        "--frontend-host": frontend_hosts,
        "--standby-host": standby_hosts,
        "--shuffler-store": shuffler_store,
        "--analyzer-store": analyzer_store,
    }
    alone = [option for option, value in given.items() if value is not None]
    if not wanted:
        if alone:
            raise UsageError(f"{alone[0]} needs --cluster; add --cluster, or leave {alone[0]} out")
        return None
    stores = {Role.SHUFFLER: shuffler_store, Role.ANALYZER: analyzer_store}
    return Cluster(
        2 if frontends is None else frontends,
        hosts_given("--frontend-host", frontend_hosts),
        hosts_given("--standby-host", standby_hosts),
        {role: store for role, store in stores.items() if store is not None},
    )


def _say(made: Folder, steps: str, as_json: bool) -> None:
    from hubbub.cli.tables.printing import print_columns
    from hubbub.protos.identity.documents import fingerprint
    from hubbub.protos.task.trusted_keys import identities_in

    signers = {name: fingerprint(key) for name, key in identities_in(made.trust_of("operator")).named.items()}
    if as_json:
        folders = sorted(path.name for path in made.root.iterdir())
        print_json({"directory": str(made.root), "folders": folders, "fingerprints": signers})
        return
    out = console()
    print_columns(out, list(signers.items()))
    out.print(steps, markup=False, soft_wrap=True)


def _next_steps(directory: Path, placement: Placement) -> str:
    """Return the commands that come next: those of one machine, or those of parties that made their own identities."""
    by_parties = bool(placement.public_keys or placement.hops.public_keys)
    return (_on_hosts if by_parties else _on_one_machine)(directory, placement)


def _on_one_machine(directory: Path, placement: Placement) -> str:
    operator, shuffler, analyzer, client = (_folder(directory, name) for name in _PARTIES)
    folders = [_folder(directory, name) for name in placement.hops.names]
    others = [_folder(directory, name) for name in _others(placement)]
    given = _lines(f"cp {operator}/task.json {folder}/tasks/" for folder in (*folders, *others))
    hops = [f"hubbub hop {folder}/hop.toml" for folder in folders]
    runs = [f"hubbub shuffler {folder}/shuffler.toml" for folder in others[:1]]
    stores = _lines(f"{each} --create-store" for each in (*runs, *hops))
    runs += [f"hubbub shuffler {folder}/frontend.toml" for folder in others[1:]]
    runs += [f"haproxy -W -f {_folder(directory, 'proxy')}/haproxy.cfg"] if placement.proxy else []
    return f"""
next: plan the task, sign it as operator and as shuffler, and copy it to every party
  hubbub plan {operator}/task.toml --out {operator}/task.json
  hubbub sign {operator}/task.json --key {operator}/identity.pem
  hubbub sign {operator}/task.json --key {shuffler}/identity.pem
  cp {operator}/task.json {shuffler}/tasks/
  cp {operator}/task.json {analyzer}/tasks/
  cp {operator}/task.json {client}/{given}
{_enrollment(operator, f"{client}/")}
{_databases(shuffler, analyzer) if others else ""}make each service's store, once, and then run the services
  hubbub analyzer {analyzer}/analyzer.toml --create-store
  hubbub shuffler {shuffler}/shuffler.toml --create-store{stores}
  hubbub analyzer {analyzer}/analyzer.toml{_lines(hops)}
  hubbub shuffler {shuffler}/shuffler.toml{_lines(runs)}"""


def _on_hosts(directory: Path, placement: Placement) -> str:
    operator, shuffler, analyzer, client = (_folder(directory, name) for name in _PARTIES)
    beside = [_folder(directory, "proxy")] if placement.proxy else []
    places = {"the shuffler's host": [shuffler, *beside], "the analyzer's host": [analyzer]}
    places |= {f"{name}'s host": [_folder(directory, name)] for name in placement.hops.names}
    places |= {f"the host of {name}": [_folder(directory, name)] for name in _others(placement)}
    moves = _lines(f"{' '.join(folders)}   # to {place}" for place, folders in places.items())
    databases = _databases(shuffler, analyzer) if _others(placement) else ""
    return f"""
next: copy each folder to its host, where that party's identity.pem joins it{moves}
plan the task, and sign it as operator
  hubbub plan {operator}/task.toml --out {operator}/task.json
  hubbub sign {operator}/task.json --key {operator}/identity.pem
on the shuffler's host, sign a copy of it as shuffler
  hubbub sign task.json --key identity.pem
put the copy with both signatures into tasks/ of each service, and into {operator} and {client}
{_enrollment(operator)}
{databases}on each host, make the service's store once (--create-store), and then run the service
docs/howto/deploy-two-parties.md has the commands of each host, from step 3 on"""


_PARTIES = ("operator", "shuffler", "analyzer", "client")


def _folder(directory: Path, name: str) -> str:
    """Return a party's folder, quoted: people copy it into a shell, and a folder may have any name."""
    return shlex.quote(str(directory / name))


def _enrollment(operator: str, into: str = "") -> str:
    """Return the command for one device's ticket, `into` its folder; a folder of many devices gets none."""
    whose = "the client's device" if into else "a device"
    return f"""enroll {whose}: the ticket is for one device, and the first to redeem it has it
  hubbub enroll {into}ticket.json --key {operator}/identity.pem --shuffler-key {operator}/trust/shuffler.pub.pem"""


def _lines(commands: Iterable[str]) -> str:
    return "".join(f"\n  {command}" for command in commands)


def _others(placement: Placement) -> list[str]:
    """Return the folders of a cluster: the standby's, then the front ends'."""
    from hubbub.deploy.init.cluster import STANDBY

    return [] if placement.cluster is None else [STANDBY, *placement.cluster.names]


def _databases(*folders: str) -> str:
    lines = "".join(f"  psql --file {folder}/database.sql\n" for folder in folders)
    return (
        f"make the databases, each as an administrator of its server; the files explain how to set a password\n{lines}"
    )
