"""`hubbub init DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.deploy.output import Json, console, failures, print_json


def command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new or empty.")],
    shuffler_host: Annotated[
        list[str] | None, typer.Option(help="Host the shuffler is reached at; repeatable.")
    ] = None,
    analyzer_host: Annotated[
        list[str] | None, typer.Option(help="Host the analyzer is reached at; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a folder for each party, with only what that party may know.

    Each of operator/, shuffler/, analyzer/ and client/ gets its keys (private ones with mode 0600), certificates,
    settings documented line by line, and the public keys it trusts; operator/ also a sample task.

    Example: hubbub init deployment
    """
    with failures(as_json):
        from hubbub.deploy.initialise import initialise
        from hubbub.protos.keys import Role, load_public
        from hubbub.protos.signed import fingerprint

        hosts = {Role.SHUFFLER: shuffler_host or [], Role.ANALYZER: analyzer_host or []}
        folder = initialise(directory, hosts)
        signers = {role.value: fingerprint(load_public(folder.trusted("operator", role))) for role in Role}
        if as_json:
            print_json({"directory": str(directory), "fingerprints": signers})
            return
        out = console()
        for role, digits in signers.items():
            out.print(f"{role:<9} {digits}", markup=False, soft_wrap=True)
        out.print(_next_steps(directory), markup=False, soft_wrap=True)


def _next_steps(directory: Path) -> str:
    operator, shuffler, analyzer, client = (directory / name for name in ("operator", "shuffler", "analyzer", "client"))
    return f"""
next: plan the task, sign it as operator and as shuffler, and give it to everyone
  hubbub plan {operator}/task.toml --out {operator}/task.json
  hubbub sign {operator}/task.json --key {operator}/identity.pem
  hubbub sign {operator}/task.json --key {shuffler}/identity.pem
  cp {operator}/task.json {shuffler}/tasks/
  cp {operator}/task.json {analyzer}/tasks/
  cp {operator}/task.json {client}/
then run the services
  hubbub analyzer {analyzer}/analyzer.toml
  hubbub shuffler {shuffler}/shuffler.toml"""
