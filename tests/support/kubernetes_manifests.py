"""The manifests of Kubernetes as tests read them: objects, pods, what they mount and whom policies name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from support.deployment_files import ROOT

KUBERNETES = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.30", "1.37")
"""The oldest version of Kubernetes that the manifests are for, and the newest that their test knows."""

Manifest = dict[str, Any]


def manifests(party: str) -> list[Manifest]:
    """Every object of a party's file."""
    return list(yaml.safe_load_all((KUBERNETES / f"{party}.yaml").read_text()))


def of_kind(party: str, kind: str) -> list[Manifest]:
    return [each for each in manifests(party) if each["kind"] == kind]


def one(party: str, kind: str) -> Manifest:
    (found,) = of_kind(party, kind)
    return found


def pod(party: str) -> Manifest:
    """The template of a party's pods."""
    found: Manifest = workload(party)["spec"]["template"]
    return found


def workload(party: str) -> Manifest:
    """What runs a party's pods."""
    (found,) = (each for each in manifests(party) if each["kind"] in ("StatefulSet", "Deployment"))
    return found


def containers(party: str) -> list[Manifest]:
    """All containers of a party's pod, those that run first among them."""
    spec = pod(party)["spec"]
    return [*spec["initContainers"], *spec["containers"]]


def ports(party: str) -> dict[str, int]:
    """The ports that a party's pod names."""
    return {port["name"]: port["containerPort"] for each in containers(party) for port in each.get("ports", ())}


def settings(party: str, folder: Path) -> list[Path]:
    """Write the settings in a party's ConfigMap to files."""
    written = []
    for name, text in one(party, "ConfigMap")["data"].items():
        (folder / name).write_text(text)
        written.append(folder / name)
    return written
