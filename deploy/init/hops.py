"""Makes the folders of hops, the shufflers after the first one, for `hubbub init --hops`.

hop-2/      identity, its certificate, the operator's and the first shuffler's public keys, settings; so hop-3/ and on

The settings of each hop name the next party, and the first shuffler delivers to hop-2 instead of the analyzer.
"""

from __future__ import annotations

import importlib.resources
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.keys import Identity, load_public, save_public
from hubbub.protos.sealing.envelope import FIRST_HOP
from hubbub.protos.task.task import MAXIMUM_HOPS, hop_name
from hubbub.protos.transport.addresses import bracketed, checked_host

LISTEN_PORT = 7501
"""The port of hop-2 in its sample settings; those of later hops are ten apart, so that all can be tried on one host."""


@dataclass(frozen=True)
class Hops:
    """The hops of a deployment: their number, their hosts, and the PEM files of handed-over keys.

    `listen` are the addresses that their ports bind. Hosts, keys and addresses are in the hops' order, from hop-2 on;
    there may be fewer of them than hops.

    Raises:
        UsageError: if there are more hops than a task may name, or more hosts, keys or addresses than hops.
        HostError: if a host is not one.
    """

    count: int = 0
    hosts: Sequence[str] = ()
    public_keys: Sequence[Path] = ()
    listen: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.count <= MAXIMUM_HOPS:
            raise UsageError(f"--hops is {self.count + 1}; give a number from 1 to {MAXIMUM_HOPS + 1}")
        options = {"--hop-host": self.hosts, "--hop-key": self.public_keys, "--hop-listen": self.listen}
        for option, given in options.items():
            if len(given) > self.count:
                behind = f"for {self.count} shufflers behind the first one"
                raise UsageError(f"{option} is given {len(given)} times {behind}; give the number of all with --hops")
        object.__setattr__(self, "hosts", tuple(map(checked_host, self.hosts)))
        object.__setattr__(self, "listen", tuple(checked_host(host, listening=True) for host in self.listen))

    @property
    def names(self) -> list[str]:
        """Their folders' names, in order."""
        return [hop_name(FIRST_HOP + index) for index in range(self.count)]

    def address(self, index: int) -> str:
        """The address at which the hop of that index is called: host:port."""
        host = self.hosts[index] if index < len(self.hosts) else "127.0.0.1"
        return f"{bracketed(host)}:{LISTEN_PORT + 10 * index}"

    def bound(self, index: int) -> str:
        """The address at which the hop of that index listens: host:port."""
        host = self.listen[index] if index < len(self.listen) else "127.0.0.1"
        return f"{bracketed(host)}:{LISTEN_PORT + 10 * index}"


def add_hops(root: Path, hops: Hops, authority: Authority, loopback: Sequence[str], data: Path | None) -> None:
    """Make the hops' folders in `root`, next to the others, and make the shuffler deliver to the first of them."""
    for index, name in enumerate(hops.names):
        folder = root / name
        for part in ("trust", "tls", "tasks", "successions"):
            (folder / part).mkdir(parents=True, mode=0o700)
        folder.chmod(0o700)
        authority.save_certificate(folder / "tls" / "authority.pem")
        hosts = tuple(dict.fromkeys((*hops.hosts[index : index + 1], *loopback)))
        authority.issue(name, hosts, folder / "tls" / f"{name}.pem", folder / "tls" / f"{name}.key")
        identity = _identity(folder, hops, index)
        for party in ("operator", "reader"):
            save_public(root / party / "trust" / f"{name}.pub.pem", identity)
        for party in ("operator", "shuffler"):
            save_public(
                folder / "trust" / f"{party}.pub.pem", load_public(root / "operator" / "trust" / f"{party}.pub.pem")
            )
        _settle(root, hops, index, data)
    if hops.count:
        addresses = [hops.address(index) for index in range(hops.count)]
        for name in ("operator", "reader"):
            change(root / name / f"{name}.toml", "hops", addresses)
        change(root / "shuffler" / "shuffler.toml", "analyzer", hops.address(0))


def _identity(folder: Path, hops: Hops, index: int) -> bytes:
    if index < len(hops.public_keys):
        return load_public(hops.public_keys[index])
    identity = Identity.generate()
    identity.save(folder / "identity.pem")
    return identity.public


def _settle(root: Path, hops: Hops, index: int, data: Path | None) -> None:
    path = root / hops.names[index] / "hop.toml"
    sample = importlib.resources.files("hubbub.deploy").joinpath("samples", "hop.toml")
    path.write_text(sample.read_text("utf-8"), "utf-8")
    port = LISTEN_PORT + 10 * index
    for key, ending in (("certificate", "pem"), ("key", "key")):
        change(path, key, f"tls/{hops.names[index]}.{ending}")
    change(path, "listen", hops.bound(index))
    change(path, "metrics_listen", f"127.0.0.1:{port + 2}")
    if index + 1 < hops.count:
        change(path, "next", hops.address(index + 1))
    else:
        shuffler = tomllib.loads((root / "shuffler" / "shuffler.toml").read_text(encoding="utf-8"))
        change(path, "next", str(shuffler["analyzer"]))
    if data is not None:
        change(path, "data", str(data / hops.names[index]))


def change(path: Path, key: str, value: str | int | Sequence[str]) -> None:
    """Write another value to a key of a settings file; its comment stays.

    Raises:
        UsageError: if the file does not have exactly one line with that key.
    """
    # Lines are changed in place: parsing and writing TOML would lose the comments, which document every setting.
    written, lines = json.dumps(value, ensure_ascii=False), path.read_text("utf-8").splitlines()
    found = [index for index, line in enumerate(lines) if line.startswith(f"{key} = ")]
    if len(found) != 1:
        raise UsageError(f"{path} has {len(found)} lines with {key}; it must have one")
    _, mark, comment = lines[found[0]].partition("#")
    lines[found[0]] = f"{key} = {written}".ljust(39) + " " + mark + comment if mark else f"{key} = {written}"
    path.write_text("\n".join(lines) + "\n", "utf-8")
