"""One file, nothing unknown, everything described."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.deploy.init.folders import sample
from hubbub.protos.transport.channels import TLS
from hubbub.service.settings import LogSettings, SettingsError, TLSSettings
from hubbub.shuffler.settings import ShufflerSettings, load, load_frontend

COMPLETE = """
analyzer = "127.0.0.1:7463"
tasks = ["tasks"]
data = "data"
identity = "identity.pem"
operator_key = "/keys/operator.pub.pem"

[tls]
authority = "authority.pem"
certificate = "shuffler.pem"
key = "shuffler.key"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "shuffler.toml"
    path.write_text(text)
    return path


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    settings = load(written(tmp_path, COMPLETE))
    assert settings.data == tmp_path / "data"
    assert settings.tasks == (tmp_path / "tasks",)
    assert settings.operator_key == Path("/keys/operator.pub.pem")
    assert settings.tls.paths().key == tmp_path / "shuffler.key"


def test_services_listen_on_loopback_by_default(tmp_path: Path) -> None:
    settings = load(written(tmp_path, COMPLETE))
    assert settings.listen.startswith("127.0.0.1:")
    assert settings.control_listen.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            ('data = "data"', 'data = "data"\ndatas = 1'),
            "datas is not a setting of the shuffler; did you mean data? It",
        ),
        (('data = "data"', 'date = "data"'), "date is not a setting of the shuffler; did you mean data? It knows ana"),
        (
            ('data = "data"', 'data = "data"\nlevel = "info"'),
            "level is not a setting of the shuffler; did you mean log.l",
        ),
        (
            ('data = "data"', 'data = "data"\ncolor = 1'),
            "color is not a setting of the shuffler; it knows analyzer, ",
        ),
        (
            ("[tls]", "[tls]\nauthorty = 1"),
            "tls.authorty is not a setting of the shuffler; did you mean tls.authority",
        ),
        (("[tls]", "[logs]\n[tls]"), "logs is not a setting of the shuffler; did you mean log? It knows"),
        (
            ('data = "data"', f'data = "data"\nqueue = "{"x" * 999}"'),
            f"queue is '{'x' * 79}…; it must be a whole number",
        ),
        (('data = "data"', ""), "data is missing"),
        (('tasks = ["tasks"]', "tasks = []"), "tasks is []; it needs at least 1"),
        (('data = "data"', 'data = "data"\nqueue = 0'), "queue is 0; it must be at least 1"),
        (('data = "data"', "data = "), "is not TOML"),
        (('data = "data"', "data = ”data”"), 'correct the file there: TOML has " for a text, not ”'),
        (("[tls]", "[tls]\nspare = 1"), "tls.spare is not a setting"),
        (("[tls]", '[log]\nlevel = "loud"\n[tls]'), "log.level is 'loud'"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(written(tmp_path, COMPLETE.replace(*change)))
    assert complaint in str(refused.value)


def test_a_task_in_the_place_of_settings_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is JSON, not settings; give the shuffler's settings file"):
        load(written(tmp_path, '{"signatures": {}, "task": {}}'))


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (
            'https_listen = "127.0.0.1:0"\nhttps_certificate = "a.pem"',
            "https_key belong together",
        ),
        ("https_oblivious = true", "https_oblivious is for https_listen, which names no port"),
        ('https_listen = "127.0.0.1:0"\nhttps_key = "a.key"', "https_key belong together"),
        ('https_certificate = "a.pem"\nhttps_key = "a.key"', "https_listen, which names no port; name one"),
    ],
)
def test_a_certificate_of_the_https_port_is_whole(tmp_path: Path, lines: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        load(written(tmp_path, COMPLETE.replace('data = "data"', f'data = "data"\n{lines}')))


def test_the_https_port_shows_the_service_s_certificate_unless_it_has_one(tmp_path: Path) -> None:
    assert load(written(tmp_path, COMPLETE)).https_tls() is None
    lines = 'data = "data"\nhttps_listen = "127.0.0.1:0"\nhttps_certificate = "a.pem"\nhttps_key = "a.key"'
    files = load(written(tmp_path, COMPLETE.replace('data = "data"', lines))).https_tls()
    assert files == TLS(tmp_path / "authority.pem", tmp_path / "a.pem", tmp_path / "a.key", is_public=True)


def test_a_folder_is_answered_with_the_settings_file_in_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"is a folder; give the shuffler's settings file in it$"):
        load(tmp_path)
    (tmp_path / "shuffler").mkdir()
    inside = tmp_path / "shuffler" / "shuffler.toml"
    inside.write_text(COMPLETE)
    for folder in (tmp_path, inside.parent):
        with pytest.raises(SettingsError, match=rf"is a folder; give the shuffler's settings file in it, {inside}$"):
            load(folder)


@pytest.mark.parametrize(
    ("setting", "whose"), [("shuffler_control", "operator"), ("delivery_listen", "analyzer"), ("state", "client")]
)
def test_the_settings_of_another_party_are_named(tmp_path: Path, setting: str, whose: str) -> None:
    path = written(tmp_path, f'{setting} = "127.0.0.1:1"\n{COMPLETE}')
    with pytest.raises(SettingsError, match=f"{path} is the {whose}'s settings file; give the shuffler's$"):
        load(path)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('role = "leader"', "role"),
        ('leader_listen = "127.0.0.1:7309"', "leader_listen"),
        ('leaders = ["127.0.0.1:7319"]', "leaders"),
        ("standbys = 1", "standbys"),
    ],
)
def test_what_several_processes_need_is_refused_over_sqlite(tmp_path: Path, line: str, name: str) -> None:
    with pytest.raises(SettingsError, match=rf": {name} needs a store in PostgreSQL.*; name its database"):
        load(written(tmp_path, f"{line}\n{COMPLETE}"))
    load(written(tmp_path, f'store = "postgresql:///shuffler"\n{line}\n{COMPLETE}'))


def test_a_frontend_names_its_leaders_store(tmp_path: Path) -> None:
    text = sample("frontend.toml").replace('store = "postgresql:///hubbub" ', 'store = ""')
    with pytest.raises(SettingsError, match="store: a front end uses its leader's store in PostgreSQL"):
        load_frontend(written(tmp_path, text))


def test_settings_of_an_editor_that_writes_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, COMPLETE)
    expected = load(path)
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert load(path) == expected
    path.write_text(COMPLETE, encoding="utf-16")
    with pytest.raises(SettingsError, match=r"is not TOML: 'utf-8' codec .*; save it as UTF-8$"):
        load(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="hubbub init"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize("model", [ShufflerSettings, TLSSettings, LogSettings])
def test_every_setting_is_described(model: type[ShufflerSettings]) -> None:
    for name, field in model.model_fields.items():
        assert field.description or name in ("tls", "limits", "spark", "traces", "log")
