"""`hubbub certificate PARTY`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hubbub.cli.output import Json, console, failures, print_json


class Party(StrEnum):
    """The parties that services tell apart by the common name of their TLS certificates."""

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
        typer.Argument(help="reader may read results, monitor metrics; the others are as `hubbub init` makes them."),
    ],
    authority: Annotated[
        Path, typer.Option("--authority", help="The operator's folder, with authority.key and tls/authority.pem.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for PARTY.pem and PARTY.key.")] = Path(),
    host: Annotated[
        list[str] | None,
        typer.Option("--host", help="Name or address a service is called by; repeat for more. Loopback always is."),
    ] = None,
    old: Annotated[
        Path | None,
        typer.Option(
            "--old", metavar="PEM", help="The certificate to replace, for its hosts; else the one beside DIR."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a TLS certificate with the operator's authority: for a reader or a monitor, or before one runs out.

    Certificates are valid for 825 days, and no longer than the authority's. A service's new one is for the hosts that
    --host names, or for those of the old one. Nothing is overwritten: make it into another folder, put it in the place
    of the old one and restart the service; the authority stays, so nobody else changes anything.

    Example: hubbub certificate monitor --authority deployment/operator --out monitoring
    """
    with failures(as_json):
        from hubbub.deploy.pki.authority import Authority
        from hubbub.deploy.pki.renewal import described, hosts_for, printed
        from hubbub.protos.errors import HubbubError, UsageError

        certificate, key = out / f"{party.value}.pem", out / f"{party.value}.key"
        taken = [path for path in (certificate, key) if path.exists()]
        if taken:
            raise HubbubError(f"{taken[0]} exists; nothing is overwritten, name another folder with --out")
        issuer = Authority.load(authority / "authority.key", authority / "tls" / "authority.pem")
        # Only the services are called by a host's name; the others' certificates are for clients.
        serves = party in (Party.SHUFFLER, Party.ANALYZER, Party.PROXY, Party.FRONTEND) or party.startswith("hop-")
        if not serves and (host or old):
            raise UsageError(
                f"nobody calls the {party.value}, so its certificate has no hosts; leave out --host and --old"
            )
        hosts = hosts_for(party.value, host, old, authority) if serves else ()
        out.mkdir(parents=True, exist_ok=True)
        made = issuer.issue(party.value, hosts, certificate, key)
        if as_json:
            print_json({"certificate": str(certificate), "key": str(key), **described(made)})
            return
        console().print(printed(made), markup=False, soft_wrap=True)
        console().print(f"{key} is secret: only {party.value} may have it", markup=False, soft_wrap=True)
