"""`hubbub sign TASK.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.deploy.output import Json, console, failures, print_json, progress_console


def command(
    task: Annotated[Path, typer.Argument(metavar="TASK.json", help="A task that `hubbub plan` wrote.")],
    key: Annotated[Path, typer.Option("--key", help="The signer's identity: PEM file of its private key.")],
    as_json: Json = False,
) -> None:
    """Sign a planned task as its operator or its shuffler, whichever the key belongs to; read it first.

    Example: hubbub sign deployment/operator/task.json --key deployment/operator/identity.pem
    """
    with failures(as_json):
        from hubbub.deploy.files import save, signed_task_in
        from hubbub.protos.keys import Identity
        from hubbub.protos.pem import readable_by_others

        identity = Identity.load(key)
        exposed = readable_by_others(key)
        if exposed:
            progress_console().print(f"warning: {exposed}", markup=False, soft_wrap=True)
        signed = signed_task_in(task).signed_by(identity)
        save(task, signed.encode())
        pairs = (("operator", signed.operator_signature), ("shuffler", signed.shuffler_signature))
        missing = [role for role, signature in pairs if signature is None]
        if as_json:
            print_json({"task": signed.task.name, "task_id": signed.task.id.hex(), "missing": missing})
            return
        console().print(f"signed task {signed.task.name} ({signed.task.id.hex()})", markup=False, soft_wrap=True)
        if missing:
            console().print(f"still to sign: {' and '.join(missing)}", markup=False)
