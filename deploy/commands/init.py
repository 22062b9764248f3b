"""`hubbub init DIR`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.deploy.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.deploy.initialise import Placement

Hosts = list[str] | None
ShufflerHost = Annotated[Hosts, typer.Option(help="Name or address the shuffler is called by; repeatable.")]
AnalyzerHost = Annotated[Hosts, typer.Option(help="Name or address the analyzer is called by; repeatable.")]
ShufflerListen = Annotated[
    str, typer.Option(metavar="HOST", help="Address the shuffler's ports bind; 0.0.0.0 is every IPv4 one.")
]
AnalyzerListen = Annotated[
    str, typer.Option(metavar="HOST", help="Address the analyzer's ports bind; 0.0.0.0 is every IPv4 one.")
]
PublicKey = Path | None
ShufflerKey = Annotated[
    PublicKey, typer.Option(metavar="PUB.pem", help="The shuffler's public key, from `hubbub identity` there.")
]
AnalyzerKey = Annotated[
    PublicKey, typer.Option(metavar="PUB.pem", help="The analyzer's public key, from `hubbub identity` there.")
]
Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Stores go to DIR/shuffler and so on; else by settings.")
]

HopCount = Annotated[int, typer.Option("--hops", help="Shufflers in the chain, each of another party; 1 is none more.")]
HopHosts = Annotated[Hosts, typer.Option("--hop-host", help="Host of hop-2; repeat for hop-3 and on, in order.")]
HopListens = Annotated[
    Hosts, typer.Option("--hop-listen", metavar="HOST", help="Address hop-2 binds; repeat for hop-3 and on, in order.")
]
HopKeys = Annotated[
    list[Path] | None,
    typer.Option("--hop-key", metavar="PUB.pem", help="Public key of hop-2, from `hubbub identity` there; repeat."),
]
WithProxy = Annotated[
    bool, typer.Option("--proxy", help="Put a proxy in front of the shuffler's public port: a folder for HAProxy.")
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
    as_json: Json = False,
) -> None:
    """Make a folder for each party, with only what that party may know.

    Each of operator/, shuffler/, analyzer/ and client/ gets its keys (private ones with mode 0600), certificates,
    settings documented line by line, and the public keys it trusts; operator/ also a sample task. With --proxy there is
    proxy/ too, for HAProxy, which devices then call in the shuffler's place. A party whose public key is handed over
    keeps its private key to itself, and its folder holds no identity. Hosts are names (international ones too) or
    addresses, without ports. Where anything is wrong, nothing is made.

    Example: hubbub init deployment
    """
    with failures(as_json):
        from hubbub.deploy.chain import Hops
        from hubbub.deploy.initialise import Placement, initialise
        from hubbub.deploy.options import hosts_given
        from hubbub.deploy.trust import identities_in
        from hubbub.protos.keys import Role
        from hubbub.protos.signed import fingerprint

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
        )
        folder = initialise(directory, placement)
        signers = {name: fingerprint(key) for name, key in identities_in(folder.trust_of("operator")).named.items()}
        if as_json:
            print_json({"directory": str(directory), "fingerprints": signers})
        else:
            _print(signers, _next_steps(directory, shuffler_key is not None, placement))


def _print(signers: dict[str, str], steps: str) -> None:
    out = console()
    for role, digits in signers.items():
        out.print(f"{role:<9} {digits}", markup=False, soft_wrap=True)
    out.print(steps, markup=False, soft_wrap=True)


def _next_steps(directory: Path, shuffler_signs_elsewhere: bool, placement: Placement) -> str:
    parties = ("operator", "shuffler", "analyzer", "client")
    # The lines are to be copied into a shell, whatever the folder is called.
    operator, shuffler, analyzer, client = (shlex.quote(str(directory / name)) for name in parties)
    where, key = (
        ("   # where the shuffler's key is", "identity.pem")
        if shuffler_signs_elsewhere
        else ("", f"{shuffler}/identity.pem")
    )
    folders = [shlex.quote(str(directory / name)) for name in placement.hops.names]
    given = "".join(f"\n  cp {operator}/task.json {folder}/tasks/" for folder in folders)
    stores = "".join(f"\n  hubbub hop {folder}/hop.toml --create-store" for folder in folders)
    runs = "".join(f"\n  hubbub hop {folder}/hop.toml" for folder in folders)
    proxy = f"\n  haproxy -W -f {shlex.quote(str(directory / 'proxy'))}/haproxy.cfg" if placement.proxy else ""
    return f"""
next: plan the task, sign it as operator and as shuffler, and give it to everyone
  hubbub plan {operator}/task.toml --out {operator}/task.json
  hubbub sign {operator}/task.json --key {operator}/identity.pem
  hubbub sign {operator}/task.json --key {key}{where}
  cp {operator}/task.json {shuffler}/tasks/
  cp {operator}/task.json {analyzer}/tasks/
  cp {operator}/task.json {client}/{given}
enrol the client's device: a ticket for one device, which whoever has it first redeems
  hubbub enroll {client}/ticket.json --key {operator}/identity.pem --shuffler-key {operator}/trust/shuffler.pub.pem
then make each service's store, once, and run the services
  hubbub analyzer {analyzer}/analyzer.toml --create-store
  hubbub shuffler {shuffler}/shuffler.toml --create-store{stores}
  hubbub analyzer {analyzer}/analyzer.toml{runs}
  hubbub shuffler {shuffler}/shuffler.toml{proxy}"""
