from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.analyzer.settings import AnalyzerSettings, load
from hubbub.analyzer.tasks import load_tasks
from hubbub.protos.errors import TaskError
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.settings import LogSettings, SettingsError, TLSSettings
from support.messages import NO_TASK_TO_RUN
from support.samples import Parties, sample_task, signed
from support.source_tree import ROOT

GOOD = """
tasks = ["tasks", "/elsewhere/task.json"]
data = "data"
identity = "identity.pem"
operator_key = "operator.pub.pem"
shuffler_key = "shuffler.pub.pem"
[tls]
authority = "tls/authority.pem"
certificate = "tls/analyzer.pem"
key = "tls/analyzer.key"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "analyzer.toml"
    path.write_text(text)
    return path


def test_paths_are_relative_to_the_file_and_ports_on_loopback(tmp_path: Path) -> None:
    settings = load(written(tmp_path, GOOD))
    assert settings.tasks == (tmp_path / "tasks", Path("/elsewhere/task.json"))
    assert settings.data == tmp_path / "data"
    assert settings.tls.paths().key == tmp_path / "tls" / "analyzer.key"
    assert settings.delivery_listen.startswith("127.0.0.1:")
    assert settings.results_listen.startswith("127.0.0.1:")
    assert (settings.processes, settings.log.level, settings.log.format) == (0, "info", "console")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("data =", "date ="), r"date is not a setting|data is missing"),
        (("\nkey =", "\nkeys ="), r"tls\.key"),
        (("data = ", "processes = -1\ndata = "), "processes is -1"),
        (("[tls]", "[log]\nlevel = 'loud'\n[tls]"), r"log\.level is 'loud'"),
        (('tasks = ["tasks", "/elsewhere/task.json"]', "tasks = []"), "tasks is"),
        (("data = ", "data ! "), "not TOML"),
        (("data = ", "delivery_listen = '127.0.0.1'\ndata = "), "delivery_listen: '127.0.0.1' is not host:port"),
        (("data = ", "delivery_listen = 'a b:1'\ndata = "), "delivery_listen: 'a b' is not a host"),
        (("data = ", "metrics_listen = 'http://x:1'\ndata = "), "metrics_listen: 'http://x:1' is a URL"),
    ],
)
def test_a_bad_setting_is_named(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        load(written(tmp_path, GOOD.replace(*change)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"analyzer\.toml.*hubbub init"):
        load(tmp_path / "analyzer.toml")


def test_every_setting_is_described() -> None:
    for table in (AnalyzerSettings, TLSSettings, LogSettings):
        for name, field in table.model_fields.items():
            assert field.description or name in ("tls", "limits", "spark", "traces", "log"), name


def test_the_sample_names_every_setting_and_its_default_ports() -> None:
    sample = ROOT / "deploy" / "samples" / "analyzer.toml"
    settings = load(sample)
    assert settings.model_fields_set == set(AnalyzerSettings.model_fields)
    assert settings.log.model_fields_set == set(LogSettings.model_fields)
    for name in ("delivery_listen", "results_listen", "processes"):
        assert getattr(settings, name) == AnalyzerSettings.model_fields[name].default


def test_only_tasks_that_can_be_served_are_loaded(tmp_path: Path) -> None:
    parties = Parties.generate()
    task = sample_task(parties)
    (tmp_path / "good.json").write_bytes(signed(task, parties).encode())
    assert set(load_tasks([tmp_path], parties.public)) == {task.id}
    unsigned = SignedTask(sample_task(parties, name="other")).signed_by(parties.operator)
    (tmp_path / "unsigned.json").write_bytes(unsigned.encode())
    with pytest.raises(TaskError, match=r"unsigned\.json: the shuffler has not signed"):
        load_tasks([tmp_path], parties.public)


@pytest.mark.parametrize("content", [None, b"{}", b"\xff"])
def test_task_files_that_are_none_are_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "task.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TaskError, match=r"task\.json"):
        load_tasks([path], Parties.generate().public)


def test_no_task_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=NO_TASK_TO_RUN):
        load_tasks([tmp_path], Parties.generate().public)
