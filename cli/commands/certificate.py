"""Makes a TLS certificate with the operator's authority: `hubbub certificate PARTY`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json


class Party(StrEnum):
    """The parties, as the common names of their TLS certificates; services recognize each other by these names."""

    OPERATOR = "operator"
    SHUFFLER = "shuffler"
    ANALYZER = "analyzer"
    HOP_2 = "hop-2"
    HOP_3 = "hop-3"
    HOP_4 = "hop-4"
    HOP_5 = "hop-5"
    HOP_6 = "hop-6"
    HOP_7 = "hop-7"
    HOP_8 = "hop-8"
    PROXY = "proxy"
    FRONTEND = "frontend"
    READER = "reader"
    MONITOR = "monitor"


def command(
    party: Annotated[
        Party,
        typer.Argument(
            help="The party it is for. A reader may look, a monitor may read metrics; `hubbub init` makes the others."
        ),
    ],
    authority: Annotated[
        Path, typer.Option("--authority", help="The operator's folder, with authority.key and tls/authority.pem.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder that PARTY.pem and PARTY.key are written to.")] = Path(),
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="HOST", help="Name or address of the service; repeatable. Loopback is always included."
        ),
    ] = None,
    old: Annotated[
        Path | None,
        typer.Option(
            "--old",
            metavar="PEM",
            help="Take the hosts from this certificate. [default: PARTY/tls/PARTY.pem next to the authority's folder]",
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="Own name of a reader, which the services log when it looks."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Make a TLS certificate, signed by the operator's authority.

    Use it for a reader or a monitor, or before a certificate expires. A reader may look at tasks, rounds, results and
    certificates at both services, and change nothing; --name gives each reader a name of its own. A certificate is
    valid for 825 days, and no longer than the authority's. A service's certificate is for the hosts of --host, or for
    those of the old one.

    Nothing is overwritten. To replace a certificate, write the new one to another folder, move both files into next/
    beside the old one, and run `hubbub keys activate certificate`. The authority stays the same, so other parties
    change nothing.

    Example: hubbub certificate reader --name ana --authority deployment/operator --out ana
    """
    with failures(as_json):
        from hubbub.deploy.pki.authority import Authority
        from hubbub.deploy.pki.renewal import described, hosts_for, printed
        from hubbub.protos.errors import HubbubError, UsageError

        shown = _shown(party, name)
        certificate, key = out / f"{party.value}.pem", out / f"{party.value}.key"
        taken = [path for path in (certificate, key) if path.exists()]
        if taken:
            raise HubbubError(f"{taken[0]} exists and is not overwritten; name another folder with --out")
        issuer = Authority.load(authority / "authority.key", authority / "tls" / "authority.pem")
        # Only services are called by a host name. The other certificates are for clients.
        serves = party in (Party.SHUFFLER, Party.ANALYZER, Party.PROXY, Party.FRONTEND) or party.startswith("hop-")
        if not serves and (host or old):
            raise UsageError(
                f"the {party.value} is a client, so its certificate has no hosts; leave out --host and --old"
            )
        hosts = hosts_for(party.value, host, old, authority) if serves else ()
        out.mkdir(parents=True, exist_ok=True)
        made = issuer.issue(shown, hosts, certificate, key)
        if as_json:
            print_json({"certificate": str(certificate), "key": str(key), **described(made)})
            return
        console().print(printed(made), markup=False, soft_wrap=True)
        console().print(f"{key} is secret: give it to the {shown} only", markup=False, soft_wrap=True)


def _shown(party: Party, name: str) -> str:
    """Return the common name of the certificate: the party, or a reader with a name of its own."""
    from hubbub.protos.errors import UsageError
    from hubbub.protos.transport.roles import reader_called

    if name and party is not Party.READER:
        raise UsageError(f"--name is for a reader, and services know the {party.value} as {party.value}; leave it out")
    return reader_called(name) if party is Party.READER else party.value
