"""Samples of settings load, they name every setting there is, and each line says what it is for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from hubbub.analyzer import settings as analyzer_settings
from hubbub.client import read_settings
from hubbub.client.settings import SETTINGS
from hubbub.deploy.init.folders import Placement, initialize, sample
from hubbub.deploy.init.hops import Hops
from hubbub.deploy.settings import OperatorSettings, ReaderSettings
from hubbub.planning.plan import plan
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import Identity, Role, load_public
from hubbub.protos.task.draft import read_draft
from hubbub.protos.transparency_log import policy as log_policy
from hubbub.queries.errors import FieldError
from hubbub.queries.fields import Fields
from hubbub.queries.registry import QUESTIONS, question_of
from hubbub.service.settings import load
from hubbub.shuffler import settings as shuffler_settings
from hubbub.shuffler.hop import settings as hop_settings

MODELS: dict[str, type[BaseModel]] = {
    "shuffler": shuffler_settings.ShufflerSettings,
    "hop": hop_settings.HopSettings,
    "analyzer": analyzer_settings.AnalyzerSettings,
    "operator": OperatorSettings,
    "reader": ReaderSettings,
}


@pytest.mark.parametrize("name", MODELS)
def test_sample_names_exactly_the_settings_there_are(name: str) -> None:
    content = tomllib.loads(sample(f"{name}.toml"))
    _compare(content, MODELS[name])


def test_the_sample_of_a_client_names_exactly_the_settings_there_are() -> None:
    # Commented out, as few tasks demand a log: a file that is named has to be there.
    content = tomllib.loads(sample("client.toml").replace("# log_proof =", "log_proof ="))
    limits = content.pop("limits")
    assert [*content, *(f"limits.{name}" for name in limits)] == list(SETTINGS)


def _compare(content: dict[str, object], model: type[BaseModel]) -> None:
    assert set(content) == set(model.model_fields)
    for key, value in content.items():
        kind = model.model_fields[key].annotation
        assert model.model_fields[key].description or isinstance(value, dict), key
        if isinstance(value, dict):
            assert isinstance(kind, type)
            assert issubclass(kind, BaseModel)
            _compare(value, kind)


@pytest.mark.parametrize("name", [*MODELS, "client"])
def test_sample_loads_from_the_folder_init_makes(tmp_path: Path, name: str) -> None:
    folder = initialize(tmp_path / "deployment", Placement(hops=Hops(1)))
    party = "hop-2" if name == "hop" else name
    path = folder.of(party) / f"{name}.toml"
    loaders = {"shuffler": shuffler_settings.load, "hop": hop_settings.load, "analyzer": analyzer_settings.load}
    if name in loaders:
        assert loaders[name](path).identity == folder.of(party) / "identity.pem"
    elif name == "client":
        assert read_settings(path, {}).state == folder.of("client") / "state.db"
    else:
        assert load(path, OperatorSettings, name).model_dump()


def test_unknown_setting_is_refused_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("color = 1\n" + sample("operator.toml"))
    with pytest.raises(HubbubError, match="color"):
        load(path, OperatorSettings, "operator")


def test_missing_setting_is_named(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('shuffler_control = "h:1"\n')
    with pytest.raises(HubbubError, match="analyzer_results"):
        load(path, OperatorSettings, "operator")


def test_hosts_that_are_named_stand_in_settings_and_certificates(tmp_path: Path) -> None:
    hosts = {Role.SHUFFLER: ["shuffler.example"], Role.ANALYZER: ["analyzer.example"]}
    folder = initialize(tmp_path / "deployment", Placement(hosts))
    assert read_settings(folder.of("client") / "client.toml", {}).shuffler == "shuffler.example:7301"
    operator = load(folder.of("operator") / "operator.toml", OperatorSettings, "operator")
    assert (operator.shuffler_control, operator.analyzer_results) == ("shuffler.example:7302", "analyzer.example:7402")
    shuffler = shuffler_settings.load(folder.of("shuffler") / "shuffler.toml")
    assert (shuffler.analyzer, shuffler.listen) == ("analyzer.example:7401", "127.0.0.1:7301")


def test_a_placement_stands_in_the_settings(tmp_path: Path) -> None:
    listen = {Role.SHUFFLER: "0.0.0.0", Role.ANALYZER: "fd00::2"}
    hosts = {Role.ANALYZER: ["fd00::2", "analyzer.example"]}
    folder = initialize(tmp_path / "deployment", Placement(hosts, listen, tmp_path / "stores"))
    shuffler = shuffler_settings.load(folder.of("shuffler") / "shuffler.toml")
    assert (shuffler.listen, shuffler.control_listen) == ("0.0.0.0:7301", "0.0.0.0:7302")
    assert (shuffler.analyzer, shuffler.data) == ("[fd00::2]:7401", tmp_path / "stores" / "shuffler")
    analyzer = analyzer_settings.load(folder.of("analyzer") / "analyzer.toml")
    assert (analyzer.delivery_listen, analyzer.results_listen) == ("[fd00::2]:7401", "[fd00::2]:7402")
    assert analyzer.data == tmp_path / "stores" / "analyzer"


def test_a_party_that_hands_over_its_public_key_keeps_its_identity(tmp_path: Path) -> None:
    identity = Identity.generate()
    identity.save_public(tmp_path / "shuffler.pub.pem")
    folder = initialize(tmp_path / "deployment", Placement(public_keys={Role.SHUFFLER: tmp_path / "shuffler.pub.pem"}))
    assert not folder.identity(Role.SHUFFLER).exists()
    assert folder.identity(Role.ANALYZER).exists()
    for party in ("operator", "analyzer", "client"):
        assert load_public(folder.trusted(party, Role.SHUFFLER)) == identity.public


def test_a_private_key_is_not_taken_for_a_public_one(tmp_path: Path) -> None:
    Identity.generate().save(tmp_path / "identity.pem")
    with pytest.raises(HubbubError, match=r"pub\.pem"):
        initialize(tmp_path / "deployment", Placement(public_keys={Role.ANALYZER: tmp_path / "identity.pem"}))
    assert not (tmp_path / "deployment").exists()


OF_ALL = {"name", "kind", "optional", "weight", "randomizer", "error"}


def keys_of(kind: str) -> set[str]:
    """The keys that questions of the kind have beside those of all, as it names them where it is given another."""
    with pytest.raises(FieldError) as caught:
        question_of("query", kind).read(Fields("query", {"no such key": 1}))
    return set(str(caught.value).partition("it knows ")[2].split(", ")) - OF_ALL


LOG_TABLE = re.compile(r"(?m)^# \[log\].*\n(?:# .*\n)+")
"""The commented table of the log that a task demands. Its keys are to be filled in, so it cannot be read as it is."""


def test_sample_task_has_every_kind_with_every_key_and_can_be_read() -> None:
    text = re.sub(r"(?m)^# (?!dummies)(?=\[\[query\]\]|[a-z_]+ =)", "", LOG_TABLE.sub("", sample("task.toml")))
    text = text.replace("@START@", "2026-01-01T00:00:00Z").replace("…", fingerprint(bytes(32)))
    asked = tomllib.loads(text)["query"]
    assert {query["kind"] for query in asked} == set(QUESTIONS)
    for kind in QUESTIONS:
        assert {key for query in asked if query["kind"] == kind for key in query} - OF_ALL == keys_of(kind), kind
    assert {key for query in asked for key in query} >= OF_ALL
    assert len(read_draft(text).questions) == len(asked)


def test_sample_task_has_a_log_with_every_key() -> None:
    table = LOG_TABLE.search(sample("task.toml"))
    assert table is not None
    content = tomllib.loads(re.sub(r"(?m)^# ", "", table[0]))
    assert content.keys() == {"log"}
    assert content["log"].keys() == log_policy.REQUIRED_KEYS | log_policy.OPTIONAL_KEYS


def test_sample_task_can_be_planned() -> None:
    planned = plan(read_draft(sample("task.toml").replace("@START@", "2026-01-01T00:00:00Z")))
    assert all(query.half_width < query.widest / 10 for query in planned.queries)
