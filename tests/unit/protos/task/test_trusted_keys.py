"""A folder of public keys names the parties of a task, and its hops without a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.protos.errors import TaskError
from hubbub.protos.identity.keys import Identity
from hubbub.protos.task.trusted_keys import identities_in, shufflers_in

CORE = ("operator", "shuffler", "analyzer")


def keys_of(folder: Path, *names: str) -> dict[str, bytes]:
    made = {name: Identity.generate() for name in (*CORE, *names)}
    for name, identity in made.items():
        identity.save_public(folder / f"{name}.pub.pem")
    return {name: identity.public for name, identity in made.items()}


@pytest.mark.parametrize("hops", [(), ("hop-2",), ("hop-2", "hop-3", "hop-4")], ids=len)
def test_hops_are_taken_in_their_order(hops: tuple[str, ...], tmp_path: Path) -> None:
    keys = keys_of(tmp_path, *hops, "second")
    found = identities_in(tmp_path)
    assert (found.operator, found.shuffler, found.analyzer) == tuple(keys[name] for name in CORE)
    assert found.hops == tuple(keys[name] for name in hops)
    assert shufflers_in(tmp_path) == 1 + len(hops)


def test_without_a_folder_there_is_one_shuffler(tmp_path: Path) -> None:
    assert shufflers_in(tmp_path / "trust") == 1


@pytest.mark.parametrize(
    ("hops", "beyond", "missing"),
    [
        (("hop-3",), "hop-3", "hop-2"),
        (("hop-2", "hop-4", "hop-5"), "hop-4", "hop-3"),
        (("hop-1", "hop-2"), "hop-1", "hop-3"),
        (("hop-2", "hop-03"), "hop-03", "hop-3"),
    ],
    ids=str,
)
def test_a_hop_that_would_be_left_out_in_silence_is_named(
    hops: tuple[str, ...], beyond: str, missing: str, tmp_path: Path
) -> None:
    """One honest shuffler less than the operator thinks of, whose noise nobody would add."""
    keys_of(tmp_path, *hops)
    for read in (identities_in, shufflers_in):
        with pytest.raises(TaskError) as caught:
            read(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path / beyond}.pub.pem is not in the chain: its hops are hop-2, hop-3 and on, and {missing}.pub.pem "
            "is not there; add that key, or rename or remove this one"
        )
