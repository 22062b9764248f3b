"""`hubbub verify CERTIFICATE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubbub.deploy.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.deploy.verification import Verified

KeyFile = Path | None


def command(
    certificate: Annotated[Path, typer.Argument(help="The certificate's file.")],
    operator_key: Annotated[
        KeyFile, typer.Option("--operator-key", help="PEM file of the operator's public key.")
    ] = None,
    shuffler_key: Annotated[
        KeyFile, typer.Option("--shuffler-key", help="PEM file of the shuffler's public key.")
    ] = None,
    analyzer_key: Annotated[
        KeyFile, typer.Option("--analyzer-key", help="PEM file of the analyzer's public key.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute a certificate from scratch and check its signatures, records and numbers.

    Exits 0 where everything holds, 1 where something does not, saying what. Without all three keys it says that the
    signers are not pinned: then the certificate is sound, but anybody could have made it.

    Example: hubbub verify certificate-flights-0.json --operator-key operator.pub.pem
    """
    with failures(as_json):
        from hubbub.deploy.files import naming
        from hubbub.deploy.verification import Pins, verify
        from hubbub.protos.keys import load_public

        keys = [load_public(path) if path is not None else None for path in (operator_key, shuffler_key, analyzer_key)]
        with naming(certificate):
            verified = verify(certificate.read_bytes(), Pins(*keys))
        if as_json:
            print_json(_document(verified))
        else:
            _print(verified)


def _document(verified: Verified) -> dict[str, Any]:
    content = verified.content
    return {
        "verified": True,
        "signers_pinned": verified.pinned,
        "signers": verified.fingerprints,
        "task": verified.task.name,
        "task_id": verified.task.id.hex(),
        "round": content["round"],
        "honest_share": content["honest_share"],
        "queries": content["queries"],
        "round_total": content["round_total"],
        "all_rounds": content["all_rounds"],
    }


def _print(verified: Verified) -> None:
    out, content = console(), verified.content
    total, rounds = content["round_total"], content["all_rounds"]
    out.print(f"the certificate holds: task {verified.task.name}, round {content['round']}", markup=False)
    for query in content["queries"]:
        out.print(
            f"  {query['name']}: {query['valid']} valid reports of {query['reports']}, {query['state']}; "
            f"epsilon <= {query['epsilon_upper']} at delta {query['delta']:g} ({query['bound']}), "
            f"{query['epsilon_local']} if shuffler and analyzer collude",
            markup=False,
            soft_wrap=True,
        )
    out.print(f"  this round, all queries: epsilon <= {total['epsilon_upper']}", markup=False)
    out.print(f"  all {len(rounds['history'])} rounds so far: epsilon <= {rounds['epsilon_upper']}", markup=False)
    if not verified.pinned:
        out.print("signers not pinned: compare these with what the parties told you", markup=False)
    for role, digits in verified.fingerprints.items():
        out.print(f"  {role:<9} {digits}", markup=False, soft_wrap=True)
