"""Reads a folder of public keys by the parties' names (`trust/`), which `hubbub init` makes for operator and reader."""

from __future__ import annotations

import re
from pathlib import Path

from hubbub.protos.errors import TaskError
from hubbub.protos.identity.keys import CORE_ROLES, load_public
from hubbub.protos.sealing.envelope import FIRST_HOP
from hubbub.protos.task.task import Identities, hop_name

_HOP_KEY = re.compile(r"hop-[0-9]+\.pub\.pem")


def identities_in(folder: Path) -> Identities:
    """Return the identities of a task's parties: operator, shuffler and analyzer, and the hops that have a key there.

    Hops are taken in the order of their names: hop-2.pub.pem, hop-3.pub.pem and on.

    Raises:
        SignatureError: if a key is missing, or a file has none.
        TaskError: if two parties have one key, or a hop's key is there without those of all hops before it.
    """
    keys = {role.value: load_public(folder / f"{role.value}.pub.pem") for role in CORE_ROLES}
    hops = tuple(load_public(path) for path in hop_keys_in(folder))
    return Identities(keys["operator"], keys["shuffler"], keys["analyzer"], hops)


def shufflers_in(folder: Path) -> int:
    """Return how many shufflers a task of these parties has: the first one, and the hops that have a key there.

    It is 1 if there is no such folder: then nobody has named a hop.

    Raises:
        TaskError: if a hop's key is there without those of all hops before it.
    """
    return 1 + len(hop_keys_in(folder))


def hop_keys_in(folder: Path) -> list[Path]:
    """Return the files of the hops' keys, in the order of the chain; none if there is no hop, or no such folder.

    Raises:
        TaskError: if a hop's key is there without those of all hops before it.
    """
    found: list[Path] = []
    while (path := folder / f"{hop_name(FIRST_HOP + len(found))}.pub.pem").exists():
        found.append(path)
    # Such a hop would be left out of the chain in silence, and its noise with it.
    beyond = [each for each in folder.glob("hop-*.pub.pem") if each not in found and _HOP_KEY.fullmatch(each.name)]
    if beyond:
        raise TaskError(
            f"{min(beyond)} is not in the chain: its hops are {hop_name(FIRST_HOP)}, {hop_name(FIRST_HOP + 1)} and on, "
            f"and {path.name} is not there; add that key, or rename or remove this one"
        )
    return found
