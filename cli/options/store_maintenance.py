"""Creates, checks or accepts a service's store instead of serving: options of `hubbub shuffler`, `hop`, `analyzer`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hubbub.cli.terminal.output import console, print_json
from hubbub.protos.sqlite_layout import Layout
from hubbub.service.sqlite.maintenance import accept_lost_log, check_store_file

CreateStore = Annotated[
    bool, typer.Option("--create-store", help="Create the store, once, before the first start; then exit.")
]
CheckStore = Annotated[
    bool, typer.Option("--check-store", help="Check the whole store while the service is stopped; then exit.")
]
AcceptLostLog = Annotated[
    bool, typer.Option("--accept-lost-log", help="Let the store open without its lost write-ahead log; then exit.")
]


@dataclass(frozen=True)
class Kept:
    """A service's store: the service, the folder and file, how to create it, and how to open and close it once.

    If the store is in a database, `database` is its address without a password, and the file is only its keyring.
    """

    service: str
    folder: Path
    file_name: str
    layout: Layout
    create: Callable[[Path], Path]
    try_out: Callable[[Path], None]
    database: str = ""


def kept_up(kept: Kept, *, create: bool, check: bool, accept: bool, as_json: bool) -> bool:
    """Create, check or accept a store, as asked; return whether anything was asked.

    Raises:
        StoreError: if it failed.
    """
    where = (kept.folder, kept.file_name, kept.layout)
    if create:
        path = kept.create(kept.folder)
        said = f"{_created(kept, path)}; now start the {kept.service}"
    elif accept:
        path = accept_lost_log(*where)
        said = f"{path} opens without its lost write-ahead log; now start the {kept.service}"
    elif check:
        path = check_store_file(*where)
        kept.try_out(kept.folder)
        said = f"{kept.database} is whole, and so is its keyring {path}" if kept.database else f"{path} is whole"
    else:
        return False
    if as_json:
        print_json({"service": kept.service, "store": str(path)})
    else:
        console().print(said, markup=False, soft_wrap=True)
    return True


def _created(kept: Kept, path: Path) -> str:
    if not kept.database:
        return f"created the empty store {path}"
    return f"{kept.database} has the tables of the store now; created its empty keyring {path}"
