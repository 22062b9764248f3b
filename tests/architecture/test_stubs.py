"""The committed stubs are what the .proto files generate."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOS = ROOT / "protos"


def generated(script: Path, out: Path) -> dict[str, str]:
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run(["sh", str(script), str(out)], check=True, env=environment, capture_output=True)
    return stubs(out / "hubbub" / "protos" / "v1")


def stubs(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*_pb2*.py*") if path.suffix in (".py", ".pyi")}


def test_stubs_are_not_stale(tmp_path: Path) -> None:
    fresh = generated(PROTOS / "generate.sh", tmp_path)
    committed = stubs(PROTOS / "v1")
    assert sorted(fresh) == sorted(committed)
    assert [name for name in fresh if fresh[name] != committed[name]] == [], "run protos/generate.sh"


def test_every_proto_file_is_generated() -> None:
    names = {path.stem for path in (PROTOS / "v1").glob("*.proto")}
    assert names == {name.split("_pb2")[0] for name in stubs(PROTOS / "v1")}
    assert len(names) == 9


# `test_stubs_are_not_stale` makes them anew.
@pytest.mark.exhaustive
def test_a_changed_contract_changes_the_stubs(tmp_path: Path) -> None:
    """The check above can fail: a new field in a copy of the contract gives other stubs."""
    copy = tmp_path / "copy" / "protos"
    shutil.copytree(PROTOS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    contract = copy / "v1" / "submission.proto"
    contract.write_text(contract.read_text().replace("uint32 round = 2;", "uint32 round = 2; uint32 more = 9;", 1))
    (tmp_path / "out").mkdir()
    fresh = generated(copy / "generate.sh", tmp_path / "out")
    assert fresh["submission_pb2.py"] != stubs(PROTOS / "v1")["submission_pb2.py"]
