"""An argument counts before a variable, and a variable before the file; every error names the place, and no secret."""

from __future__ import annotations

import inspect
import math
import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.cli.registry import ENVIRONMENT
from hubbub.client import (
    AuthorityError,
    Device,
    DeviceSettings,
    Fleet,
    Gateway,
    HubbubError,
    PrivacyLimits,
    Retrying,
    RetryPolicy,
    SettingsError,
    SignatureError,
    TaskError,
    UsageError,
    read_settings,
)
from hubbub.client.settings import (
    OTHER_VARIABLES,
    SETTINGS,
    SETTINGS_FILE,
    VARIABLES,
    DeviceArguments,
    FleetArguments,
    GatewayArguments,
    placed,
)
from hubbub.deploy.init.folders import initialize, sample
from hubbub.protos.identity.keys import save_public
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transport.channels import TLS
from support.samples import Parties

REQUIRED = """
task = "task.json"
shuffler = "127.0.0.1:7301"
operator_key = "operator.pub.pem"
shuffler_key = "shuffler.pub.pem"
state = "state.db"
authority = "authority.pem"
"""


@pytest.fixture
def file(tmp_path: Path, document: SignedTask, parties: Parties, tls: TLS) -> Path:
    """A settings file with all that a device must have, beside the files that it names."""
    folder = tmp_path / "client"
    folder.mkdir()
    (folder / "task.json").write_bytes(document.encode())
    save_public(folder / "operator.pub.pem", parties.operator.public)
    save_public(folder / "shuffler.pub.pem", parties.shuffler.public)
    (folder / "authority.pem").write_bytes(Path(cast(Path, tls.authority)).read_bytes())
    path = folder / "client.toml"
    path.write_text(REQUIRED)
    return path


def refusal(file: Path | None, variables: Mapping[str, str], kind: type[HubbubError] = SettingsError) -> str:
    with pytest.raises(kind) as caught:
        read_settings(file, variables)
    assert type(caught.value) is kind
    return str(caught.value)


# What there is


@pytest.mark.parametrize(
    ("kind", "arguments"), [(Device, DeviceArguments), (Fleet, FleetArguments), (Gateway, GatewayArguments)]
)
def test_every_argument_may_be_given_beside_settings(kind: type, arguments: type) -> None:
    taken = inspect.signature(cast(Any, kind).__init__).parameters.keys() - {"self"}
    assert arguments.__annotations__.keys() == taken


def test_every_setting_of_a_device_is_an_argument_and_every_argument_that_a_file_can_say_is_a_setting() -> None:
    arguments = DeviceArguments.__annotations__.keys() - {"retrying", "limits", "random", "clock"}
    assert {name for name in SETTINGS if "." not in name} - {"timeout"} == arguments
    assert {name.removeprefix("limits.") for name in SETTINGS if "." in name} == vars(PrivacyLimits()).keys()


def test_no_two_settings_share_a_variable_and_other_variables_of_hubbub_are_left_alone() -> None:
    assert len(VARIABLES) == len(SETTINGS)
    assert {name for name in ENVIRONMENT if name.startswith("HUBBUB_")} == OTHER_VARIABLES
    assert (OTHER_VARIABLES | {SETTINGS_FILE}).isdisjoint(VARIABLES)


def test_the_sample_says_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "client.toml").write_text(sample("client.toml"))
    (tmp_path / "least.toml").write_text(REQUIRED)
    told, least = read_settings(tmp_path / "client.toml", {}), read_settings(tmp_path / "least.toml", {})
    assert (told.proxy, told.name, told.timeout) == (least.proxy, least.name, least.timeout) == (None, "", 60.0)
    assert not told.limits.any
    assert not least.limits.any


# What counts

VALUES: Mapping[str, tuple[str, str, Any]] = {
    "shuffler": ('"a.example:1"', "B.example:2", "b.example:2"),
    "proxy": ('"http://a.example:1"', "http://b.example:2", "http://b.example:2"),
    "relay": ('"https://a.example:1/x"', "https://b.example/y", "https://b.example:443/y"),
    "name": ('"one"', "two", "two"),
    "timeout": ("5", "2.5e-1", 0.25),
    **{name: ("1.5", "inf", math.inf) for name in SETTINGS if name.startswith("limits.")},
}
"""In a file, in a variable, and what is read of the variable. What is left out is a file."""


def value_of(settings: DeviceSettings, key: str) -> Any:
    table, _, name = key.rpartition(".")
    return getattr(settings.limits if table else settings, name)


@pytest.mark.parametrize("key", SETTINGS)
def test_a_variable_counts_before_the_file(tmp_path: Path, key: str) -> None:
    of_file, of_variable, read = VALUES.get(key, ("'in the file'", "in the variable", Path("in the variable")))
    path = tmp_path / "client.toml"
    table, _, name = key.rpartition(".")
    others = "".join(line for line in REQUIRED.splitlines(keepends=True) if not line.startswith(f"{name} ="))
    path.write_text(others + (f"[{table}]\n" if table else "") + f"{name} = {of_file}\n")
    assert value_of(read_settings(path, {}), key) not in (read, SETTINGS[key].default)
    assert value_of(read_settings(path, {SETTINGS[key].variable: of_variable}), key) == read


MAY_BE_EMPTY = {"proxy": None, "relay": None, "name": ""}
"""Settings of which nothing is a value; it counts before the file's."""


@pytest.mark.parametrize("key", [*SETTINGS, SETTINGS_FILE])
def test_an_empty_variable_is_never_taken_for_one_that_is_not_set(file: Path, key: str) -> None:
    """An empty limit would be no limit, or the file's: nobody who set it meant that."""
    named = key if key == SETTINGS_FILE else SETTINGS[key].variable
    if key in MAY_BE_EMPTY:
        file.write_text(f"{file.read_text()}{key} = {VALUES[key][0]}\n")
        assert value_of(read_settings(file, {named: ""}), key) == MAY_BE_EMPTY[key]
        return
    assert refusal(None if key == SETTINGS_FILE else file, {named: ""}) == (
        f"{named} is empty; give it a value, or unset it"
    )


def test_a_relative_path_is_relative_to_its_file_and_in_a_variable_to_the_current_folder(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = read_settings("client/client.toml", {"HUBBUB_STATE": "here.db", "HUBBUB_TICKET": "/abs/ticket.json"})
    assert found.task.resolve() == file.with_name("task.json")
    assert (found.state, found.ticket) == (Path("here.db"), Path("/abs/ticket.json"))


def test_variables_alone_are_enough(file: Path) -> None:
    names = ("task", "operator_key", "shuffler_key", "state", "authority")
    found = read_settings(file, {})
    variables = {SETTINGS[name].variable: str(getattr(found, name)) for name in names}
    assert read_settings(None, {**variables, "HUBBUB_SHUFFLER": found.shuffler}) == found
    assert read_settings(None, {SETTINGS_FILE: str(file)}) == found


def test_a_file_that_is_named_counts_before_the_variable_that_names_one(file: Path, tmp_path: Path) -> None:
    assert read_settings(file, {SETTINGS_FILE: str(tmp_path / "nothing.toml")}) == read_settings(file, {})


def test_the_variables_are_those_of_the_process_unless_others_are_given(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUBBUB_TIMEOUT", "7")
    assert (read_settings(file).timeout, read_settings(file, {}).timeout) == (7.0, 60.0)


def test_an_argument_counts_before_everything_and_what_it_replaces_is_not_opened(
    file: Path, document: SignedTask, parties: Parties, tmp_path: Path
) -> None:
    variables = {
        "HUBBUB_TASK": str(tmp_path / "nothing"),
        "HUBBUB_OPERATOR_KEY": str(tmp_path / "nothing"),
        "HUBBUB_LIMITS_DELTA": "0.5",
        "HUBBUB_TIMEOUT": "5",
    }
    limits = PrivacyLimits(epsilon=1.0)
    device = Device.from_settings(
        file,
        environment=variables,
        task=document.encode(),
        operator_key=parties.operator.public,
        shuffler="b.example:2",
        limits=limits,
        retrying=Retrying(RetryPolicy(total=9.0)),
    )
    assert device._session.limits == limits
    assert (device._session.address, device._session.retrying.policy.total) == ("b.example:2", 9.0)


def test_a_device_a_fleet_and_a_gateway_are_made_of_one_file(file: Path) -> None:
    variables = {"HUBBUB_LIMITS_EPSILON": "1", "HUBBUB_TIMEOUT": "5", "HUBBUB_NAME": "one"}
    device = Device.from_settings(file, environment=variables)
    fleet = Fleet.from_settings(file, environment=variables)
    for made in (device, fleet):
        assert made._session.limits == PrivacyLimits(epsilon=1.0)
        assert made._session.retrying.policy.total == 5.0
        assert made._session.address == "127.0.0.1:7301"
    assert device._work.name == "one"
    assert Gateway.from_settings(file, environment=variables)._retrying.policy.total == 5.0


def test_a_gateway_needs_no_task(file: Path) -> None:
    file.write_text('shuffler = "127.0.0.1:7301"\nauthority = "authority.pem"\n')
    assert isinstance(Gateway.from_settings(file, environment={}), Gateway)
    with pytest.raises(SettingsError, match="task, operator_key, shuffler_key, state are missing; add it there, or"):
        Fleet.from_settings(file, environment={})


def test_a_device_that_is_made_of_arguments_reads_no_variable(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUBBUB_LIMITS_EPSILON", "nothing that fits")
    monkeypatch.setenv("HUBBUB_SHUFFLER", "b.example:2")
    assert Device(**settings, shuffler="a.example:1")._session.address == "a.example:1"


# Errors


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("task = 5", "task is 5; it must be the name of a file, in quotes"),
        ('task = ""', "task is empty; name a file"),
        ('task = "a\\u0000b"', "task has line ends or control characters, as the content of a file has"),
        ("shuffler = 7301", "shuffler is 7301; it must be a text, in quotes"),
        ('shuffler = "host"', "shuffler: 'host' is not host:port with a port from 0 to 65535"),
        ('relay = "http://h/x"', "relay: relay is 'http://h/x'; give https://host/path"),
        ('proxy = "https://h:1"', "proxy: proxy is 'https://h:1'; give http://host:port of a proxy"),
        ('name = "a\\nb"', "name: a device's name must be a text of at most 200 printable characters"),
        ('timeout = "60"', "timeout is '60'; it must be a number of seconds above 0, such as 60"),
        ("timeout = true", "timeout is True; it must be a number of seconds"),
        ("timeout = 0", "timeout is 0; it must be a number of seconds above 0"),
        ("timeout = inf", "timeout is inf; it must be a number of seconds"),
        ("timeout = nan", "timeout is nan; it must be a number of seconds"),
        ('ticket = ["hunter2"]', "ticket is a list; it must be the name of a file, in quotes"),
        ("limits = [{epsilon = 1}]", "limits is a list; it must be a table of its own, [limits]"),
        ("timeout = {a = 1}", "timeout is a table; it must be a number of seconds above 0"),
        ("limits = 3", "limits is 3; it must be a table of its own, [limits]"),
        ("limits.delta = -1", "limits.delta is -1; it must be a number, 0 or more, or inf for no limit"),
        ("limits.delta = nan", "limits.delta is nan; it must be a number, 0 or more"),
        ("limits.delta = 1e999", "is not TOML: 1e999 is beyond the largest number"),
        (f"limits.delta = {10**400}", "…; it must be a number, 0 or more"),
        ('limits.delta = "1"', "limits.delta is '1'; it must be a number"),
        ("staet = 1", "staet is not a setting of a device; write state if you mean that"),
        ("delta = 1", "write limits.delta if you mean that"),
        ("limits.epsilon_per_dya = 1", "write limits.epsilon_per_day if you mean that"),
        ("color = 1", "color is not a setting of a device; the names are authority, certificate, "),
        ('"a\\nb" = 1', r"'a\nb' is not a setting of a device"),
        ("tls = 1", "is another party's settings file; give a device's, such as client.toml"),
        ("task = ", "is not TOML: "),
        ('{"task": 1}', "is JSON, not settings; give a settings file, such as client.toml"),
        ("task = “task.json”", 'correct the file there: TOML has " for a text, not “'),
        (f"task = {'[' * 5000}", "is not TOML: "),
        (f"timeout = {'9' * 5000}", "is not TOML: "),
        ('state = "C:\\Users\\state.db"', "write a path that has \\ in single quotes"),
    ],
)
def test_a_wrong_line_of_a_file_is_named_with_the_value_and_what_it_must_be(
    tmp_path: Path, line: str, says: str
) -> None:
    path = tmp_path / "client.toml"
    path.write_text(line)
    told = refusal(path, {})
    assert told.startswith(str(path))
    assert says in told


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("HUBBUB_TIMEOUT", "soon", " is 'soon'; it must be a number of seconds above 0, such as 60"),
        ("HUBBUB_TIMEOUT", "-1", " is -1.0; it must be a number of seconds above 0"),
        ("HUBBUB_TIMEOUT", "1e999", " is '1e999'; it must be"),
        ("HUBBUB_TIMEOUT", "1_0", " is '1_0'; it must be"),
        ("HUBBUB_TIMEOUT", "\u0665", " is '\u0665'; it must be"),
        ("HUBBUB_LIMITS_DELTA", "1e999", " is '1e999'; it must be a number, 0 or more, or inf for no limit"),
        ("HUBBUB_LIMITS_DELTA", "infinity", " is 'infinity'; it must be"),
        ("HUBBUB_LIMITS_DELTA", "few", " is 'few'; it must be a number, 0 or more"),
        ("HUBBUB_LIMITS_DELTA", "nan", " is 'nan'; it must be"),
        ("HUBBUB_LIMITS_DELTA", "x" * 5000, f" is '{'x' * 79}…; it must be a number, 0 or more"),
        ("HUBBUB_SHUFFLER", "host", ": 'host' is not host:port"),
        ("HUBBUB_SHUFFLER", "\udcff:1", ": "),
        ("HUBBUB_STAET", "x", " is no variable of hubbub; write HUBBUB_STATE if you mean that, or unset it"),
        ("HUBBUB_LIMITS_EPSILON_PER_DY", "1", " is no variable of hubbub; write HUBBUB_LIMITS_EPSILON_PER_DAY if"),
        ("HUBBUB_SETTING", "x", " is no variable of hubbub; write HUBBUB_SETTINGS if"),
        ("HUBBUB_COLOR", "x", " is no variable of hubbub; the names are HUBBUB_AUTHORITY, "),
        ("HUBBUB_SETTINGS", "/no/such/file", ": cannot read /no/such/file: No such file or directory; check the path;"),
        ("HUBBUB_SETTINGS", "/", ": cannot read /: Is a directory; name a file, not a folder"),
    ],
)
def test_a_wrong_variable_is_named_with_the_value_and_what_it_must_be(
    file: Path, name: str, value: str, says: str
) -> None:
    told = refusal(None if name == SETTINGS_FILE else file, {name: value})
    assert told.startswith(name + says)


@pytest.mark.parametrize(
    "name",
    [
        "HUBBUB_TRACEBACK",
        "HUBBUB_ENDS_WITH_STDIN",
        "HUBBUB_SERVICE_HOST",
        "HUBBUB_SHUFFLER_SERVICE_PORT",
        "HUBBUB_SHUFFLER_SERVICE_PORT_DEVICES",
        "HUBBUB_SHUFFLER_PORT",
        "HUBBUB_SHUFFLER_PORT_7301_TCP",
        "HUBBUB_SHUFFLER_PORT_7301_TCP_ADDR",
        "OTHER_HUBBUB_STAET",
    ],
)
def test_variables_that_others_set_are_left_alone(file: Path, name: str) -> None:
    assert read_settings(file, {name: "tcp://10.0.0.1:7301"}) == read_settings(file, {})


def test_what_is_missing_is_named_with_its_variables(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text(REQUIRED.replace('state = "state.db"\n', ""))
    assert refusal(path, {}) == f"{path}: state is missing; add it there, or set HUBBUB_STATE"
    told, last = refusal(None, {"HUBBUB_STATE": "x"}, UsageError), "HUBBUB_SHUFFLER_KEY, HUBBUB_AUTHORITY"
    assert told.startswith("task, shuffler, operator_key, shuffler_key, authority are missing; name a settings file")
    assert told.endswith(f", or set HUBBUB_TASK, HUBBUB_SHUFFLER, HUBBUB_OPERATOR_KEY, {last}")


@pytest.mark.parametrize("environment", [3, "HUBBUB_STATE=x", ["HUBBUB_STATE"], True])
def test_variables_are_a_mapping_of_texts(environment: Any) -> None:
    with pytest.raises(UsageError, match=r"environment is of type .*; give a dict of variables, or leave it out"):
        read_settings(environment=environment)
    with pytest.raises(SettingsError, match="HUBBUB_STATE is of type int; give a text, as variables are"):
        read_settings(environment=cast(Any, {"HUBBUB_STATE": 3, 4: "x"}))


def test_a_file_is_given_by_its_name() -> None:
    with pytest.raises(UsageError, match="the settings file is of type bytes; give a Path, or its name as a text"):
        read_settings(cast(Any, b"client.toml"))
    for name, says in (("", "is empty; name a file"), ("a\0b", "has line ends or control characters")):
        with pytest.raises(SettingsError, match=f"the settings file {says}"):
            read_settings(name)
    with pytest.raises(SettingsError, match=r"cannot read '\\ud800': no file has such a name; check the path"):
        read_settings("\ud800")


@pytest.mark.parametrize(
    ("variable", "kind", "says"),
    [
        ("HUBBUB_TASK", SettingsError, "HUBBUB_TASK: cannot read {0}: No such file or directory; put it there, or"),
        ("HUBBUB_AUTHORITY", AuthorityError, "HUBBUB_AUTHORITY: authority {0}: No such file or directory; give the"),
        ("HUBBUB_OPERATOR_KEY", SignatureError, "HUBBUB_OPERATOR_KEY: cannot read {0}: No such file or directory; get"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_variable(
    file: Path, tmp_path: Path, variable: str, kind: type[HubbubError], says: str
) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(kind) as caught:
        Device.from_settings(file, environment={variable: str(missing)})
    assert str(caught.value).startswith(says.format(missing))


def test_a_file_without_a_task_is_named(file: Path) -> None:
    file.with_name("task.json").write_text("{}")
    with pytest.raises(TaskError, match=f"^{file.with_name('task.json')}: "):
        Device.from_settings(file, environment={})


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HUBBUB_KEY", f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"),
        ("HUBBUB_KEY", f"-----BEGIN PRIVATE KEY-----{SECRET}"),
        ("HUBBUB_TICKET", f'{{"ticket": "{SECRET}"}}'),
        ("HUBBUB_TICKET", SECRET * 1000),
        ("HUBBUB_SETTINGS", f'key = """\n{SECRET}"""'),
        ("HUBBUB_PROXY", f"http://me:{SECRET}@proxy.example:1"),
        ("HUBBUB_RELAY", f"https://me:{SECRET}@relay.example/x"),
        ("HUBBUB_PROXY", f"https://me:{SECRET}@proxy.example:1"),
        ("HUBBUB_PROXY", f"http://me:{SECRET}@[proxy.example:1"),
        ("HUBBUB_TIMEOUT", f'{{"ticket": "{SECRET}"}}'),
        ("HUBBUB_LIMITS_EPSILON", f"-----BEGIN PRIVATE KEY-----{SECRET}"),
        ("HUBBUB_PROXY", f"eyJ{SECRET}"),
        ("HUBBUB_SHUFFLER", f"LS0tLS1{SECRET}"),
        ("HUBBUB_SHUFFLER", f"https://me:{SECRET}@shuffler.example:1"),
        ("HUBBUB_TICKTE", SECRET),
        ("HUBBUB_PASSWORD", SECRET),
    ],
)
def test_no_error_shows_a_secret(file: Path, name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(None if name == SETTINGS_FILE else file, {name: value})
    told = "".join(traceback.format_exception(caught.value))
    assert name in told
    assert SECRET not in told.replace("SECRET", "")


# Paths of Windows


def test_paths_of_windows_are_placed_as_windows_places_them() -> None:
    folder = PureWindowsPath(r"C:\Program Files\app")
    place = cast(Callable[[PureWindowsPath, PureWindowsPath], PureWindowsPath], placed)
    assert place(folder, PureWindowsPath(r"keys\operator.pem")) == folder / "keys" / "operator.pem"
    assert place(folder, PureWindowsPath("keys/operator.pem")) == folder / "keys" / "operator.pem"
    assert place(folder, PureWindowsPath(r"D:\state.db")) == PureWindowsPath(r"D:\state.db")
    assert place(folder, PureWindowsPath(r"\\server\share\state.db")) == PureWindowsPath(r"\\server\share\state.db")


def test_a_path_with_backslashes_is_taken_in_single_quotes_and_from_a_variable(file: Path) -> None:
    file.write_text(REQUIRED.replace('"state.db"', r"'D:\data\state.db'"))
    assert read_settings(file, {}).state.name.endswith(r"D:\data\state.db" if os.name != "nt" else "state.db")
    assert str(read_settings(file, {"HUBBUB_STATE": r"C:\new\table.db"}).state) == r"C:\new\table.db"


def test_a_file_as_an_editor_of_windows_writes_it_is_read(file: Path) -> None:
    plain = read_settings(file, {})
    file.write_bytes(b"\xef\xbb\xbf" + REQUIRED.replace("\n", "\r\n").encode())
    assert read_settings(file, {}) == plain


# Anything at all


@given(content=st.binary() | st.text().map(str.encode))
def test_a_file_of_any_content_is_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError):
        read_settings(path, {})


@given(st.sampled_from(sorted([*VARIABLES, SETTINGS_FILE])), st.text(st.characters(exclude_characters="\0")))
def test_a_variable_of_any_value_is_taken_or_refused(name: str, value: str) -> None:
    with pytest.raises((SettingsError, UsageError)):
        read_settings(None, {name: value})


@pytest.mark.parametrize("key", ["ticket", "key"])
@pytest.mark.parametrize(
    "content",
    ['  {"format": "x"}', "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1D", "eyJmb3JtYXQiOiJodWJidWItdGlja2V0", "ab" * 128],
    ids=["json", "pem in base64", "json in base64", "too long for a name"],
)
def test_a_secret_in_place_of_its_files_name_is_refused_and_not_shown(key: str, content: str) -> None:
    with pytest.raises(SettingsError, match="seems to be its content; name the file itself") as refused:
        read_settings(environment={f"HUBBUB_{key.upper()}": content})
    assert content[:8].strip() not in str(refused.value)


def test_a_name_of_a_file_that_is_there_is_no_content(tmp_path: Path) -> None:
    folder = initialize(tmp_path / "line\nbreak").of("client")
    assert read_settings(folder / "client.toml", {}).authority == folder / "tls" / "authority.pem"
