"""Makes an identity, a signing key pair: `hubbub identity FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the private key, such as identity.pem.")],
    as_json: Json = False,
) -> None:
    """Make an identity: a private key and its public key.

    Run it on the machine that will sign. The private key stays there, readable by its owner only. The public key is
    written to the same folder, as FILE with .pub.pem in place of .pem; hand it over. Its recipient must compare the
    fingerprint with the one printed here, over another channel than the key came by.

    Example: hubbub identity identity.pem
    """
    with failures(as_json):
        from hubbub.protos.errors import HubbubError, UsageError
        from hubbub.protos.identity.documents import fingerprint
        from hubbub.protos.identity.keys import Identity

        if not file.name:
            raise UsageError(f"FILE is {str(file)!r}, a folder; name a new file in it, such as identity.pem")
        if file.name.endswith(".pub.pem"):
            raise HubbubError(
                f"{file} is a name for the public key; name the private key's file, "
                f"such as {file.with_name((file.name.removesuffix('.pub.pem') or 'identity') + '.pem')}"
            )
        public = file.with_suffix(".pub.pem")
        taken = [path for path in (file, public) if path.exists()]
        if file.suffix != ".pem" or taken:
            problem = f"{taken[0]} exists and is not overwritten" if taken else f"{file} does not end in .pem"
            raise HubbubError(f"{problem}; name a new file, such as {file.with_suffix('.new.pem')}")
        identity = Identity.generate()
        identity.save(file)
        identity.save_public(public)
        digits = fingerprint(identity.public)
        if as_json:
            print_json({"private": str(file), "public": str(public), "fingerprint": digits})
            return
        console().print(f"fingerprint {digits}\nhand over {public}; {file} stays here", markup=False, soft_wrap=True)
