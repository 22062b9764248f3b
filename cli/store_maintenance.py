"""What `hubbub shuffler`, `hop` and `analyzer` do with their store in the place of serving, and then exit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hubbub.cli.output import console, print_json
from hubbub.protos.sqlite_versions import Layout
from hubbub.service.sqlite.maintenance import accept_lost_log, check_store_file

CreateStore = Annotated[
    bool, typer.Option("--create-store", help="Make the store, once, before the first start; then exit.")
]
CheckStore = Annotated[
    bool, typer.Option("--check-store", help="Look all of the store over, while the service is stopped; then exit.")
]
AcceptLostLog = Annotated[
    bool, typer.Option("--accept-lost-log", help="Have the store open without a log that was lost; then exit.")
]


@dataclass(frozen=True)
class Kept:
    """A service's store: whose it is, its folder and file, how it is made, and how it is opened and closed once."""

    service: str
    folder: Path
    file_name: str
    layout: Layout
    create: Callable[[Path], Path]
    try_out: Callable[[Path], None]


def kept_up(kept: Kept, *, create: bool, check: bool, accept: bool, as_json: bool) -> bool:
    """Do what was asked for with a store; return whether it was anything.

    Raises:
        StoreError: where it could not be done.
    """
    where = (kept.folder, kept.file_name, kept.layout)
    if create:
        path = kept.create(kept.folder)
        said = f"made {path}, empty; now start the {kept.service}"
    elif accept:
        path = accept_lost_log(*where)
        said = f"{path} opens without the log that was lost; now start the {kept.service}"
    elif check:
        path = check_store_file(*where)
        kept.try_out(kept.folder)
        said = f"{path} is whole"
    else:
        return False
    if as_json:
        print_json({"service": kept.service, "store": str(path)})
    else:
        console().print(said, markup=False, soft_wrap=True)
    return True
