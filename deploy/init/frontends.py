"""Makes the folders of front ends, each with a certificate and without any of the shuffler's keys."""

from __future__ import annotations

import importlib.resources
import shutil
from collections.abc import Sequence
from pathlib import Path

from hubbub.deploy.init.hops import change
from hubbub.deploy.new_folder import new_folder
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.identity.keys import Role

NAME = "frontend"
"""The command's settings and the common name of the certificate."""


def add_frontend(
    root: Path, name: str, authority: Authority, hosts: Sequence[str], store: str, leaders: Sequence[str]
) -> Path:
    """Make the folder of a front end next to the shuffler's in `root`, and return its settings file.

    Its certificate is for `hosts`, its store is the database `store`, and its leader is at one of the addresses
    `leaders`. It needs its own copy of tasks, successions and the settings of devices' ports, like the shuffler.

    Raises:
        HubbubError: if there is such a folder already.
    """
    folder, shuffler = root / name, root / Role.SHUFFLER.value
    with new_folder(folder):
        for part in ("trust", "tls", "tasks", "successions"):
            (folder / part).mkdir(mode=0o700)
        authority.save_certificate(folder / "tls" / "authority.pem")
        authority.issue(NAME, hosts, folder / "tls" / f"{NAME}.pem", folder / "tls" / f"{NAME}.key")
        for role in (Role.OPERATOR, Role.SHUFFLER):
            shutil.copy(root / "operator" / "trust" / f"{role.value}.pub.pem", folder / "trust")
        for part in ("tasks", "successions"):
            for path in (shuffler / part).glob("*.json"):
                shutil.copy(path, folder / part)
        settings = folder / f"{NAME}.toml"
        sample = importlib.resources.files("hubbub.deploy").joinpath("samples", f"{NAME}.toml")
        settings.write_text(sample.read_text("utf-8"), "utf-8")
        change(settings, "store", store)
        change(settings, "leaders", list(leaders))
    return settings
