"""The pages of docs/reference that are made from the code are those that the code gives, and leave nothing out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from hubbub.cli import registry
from hubbub.cli.main import COMMANDS
from hubbub.deploy.settings import OperatorSettings
from hubbub.protos.records.batch import LeftOut
from hubbub.protos.refusals import EXPLANATIONS, Reason
from hubbub.protos.task.draft import read_draft
from hubbub.queries.registry import QUESTIONS
from hubbub.service.settings import setting_names
from reference import generate
from reference.making import alerts, certificate, events, pages, refusals, source, task_keys
from reference.making.page import MARK, MOST_LINES, Page, divided, section, table, wrapped
from reference.making.settings import PARTIES
from support.source_tree import MODULES, ROOT

FOLDER = ROOT / "docs" / "reference"


def page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text()


def test_the_pages_on_disk_are_what_the_code_gives() -> None:
    assert pages.stale() == [], "run make reference"


def test_no_page_is_too_long_and_each_is_marked() -> None:
    made = pages.texts()
    assert {name: text.count("\n") for name, text in made.items() if text.count("\n") > MOST_LINES} == {}
    assert all(text.startswith(f"{MARK}\n\n# ") for text in made.values())
    assert all(len(re.findall(r"(?m)^# ", re.sub(r"(?ms)^```.*?^```$", "", text))) == 1 for text in made.values())


def test_a_changed_description_makes_a_page_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.EXIT_STATUSES, 1, "Another meaning.")
    assert pages.stale() == ["commands.md"]
    with pytest.raises(SystemExit, match="run make reference"):
        generate.main(["--check"])


def test_a_page_that_is_missing_or_left_over_is_stale_until_all_are_written(tmp_path: Path) -> None:
    pages.write(tmp_path)
    assert pages.stale(tmp_path) == []
    (tmp_path / "index.md").unlink()
    (tmp_path / "gone.md").write_text(f"{MARK}\n\n# Gone\n")
    (tmp_path / "formats.md").write_text("# Written by hand\n")
    assert pages.stale(tmp_path) == ["gone.md", "index.md"]
    pages.write(tmp_path)
    assert pages.stale(tmp_path) == []
    assert not (tmp_path / "gone.md").exists()
    assert (tmp_path / "formats.md").exists()


def test_every_page_of_the_folder_is_in_the_list() -> None:
    named = set(re.findall(r"\]\(([^)#]+)\)", page("index")))
    first_of_each = {path.name for path in FOLDER.glob("*.md") if not re.search(r"-\d+\.md$", path.name)}
    assert first_of_each - {"index.md"} <= named
    assert [name for name in named if not (FOLDER / name).is_file()] == []


def test_links_between_the_pages_lead_somewhere() -> None:
    for name, text in pages.texts().items():
        for target, anchor in re.findall(r"\]\(([\w-]+\.md)(?:#([^)]+))?\)", text):
            aimed = (FOLDER / target).read_text()
            titles = [re.sub(r"[^\w -]", "", each.lower()) for each in re.findall(r"(?m)^#+ (.+)$", aimed)]
            assert not anchor or anchor in {each.replace(" ", "-") for each in titles}, (name, target, anchor)


def test_incidents_that_are_pointed_to_are_headings_of_their_page() -> None:
    headings = re.findall(r"(?m)^## (.+)$", (FOLDER / refusals.INCIDENTS).read_text())
    named = {each.incident for each in (*EXPLANATIONS.values(), *alerts.rules())} - {""}
    named |= set(events.SECTIONS.values())
    assert len(named) > 8
    assert named <= set(headings)


def test_no_cell_that_describes_something_is_empty() -> None:
    for name, text in pages.texts().items():
        for line in text.splitlines():
            assert not line.startswith("|") or not line.endswith("| |"), f"{name}: {line}"


# Commands


def test_every_command_is_on_a_page() -> None:
    named = set(re.findall(r"(?m)^## hubbub ([a-z]+)", "\n".join(pages.texts().values())))
    assert named == set(COMMANDS)


def test_every_variable_of_the_environment_that_is_read_is_named() -> None:
    read = re.compile(r"os\.environ(?:\.get|\.setdefault)?[(\[]\"([A-Z_]+)\"")
    named = {found for path in MODULES for found in read.findall(path.read_text()) if found}
    assert named
    assert named <= registry.ENVIRONMENT.keys()
    assert all(f"`{name}`" in page("commands") for name in registry.ENVIRONMENT)


# Settings


@pytest.mark.parametrize("party", PARTIES)
def test_every_setting_is_on_the_page_with_its_default(party: str) -> None:
    kind, _ = PARTIES[party]
    text = page("settings").partition(f"## Settings of the {party}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert sorted(row[0].strip("`") for row in rows) == sorted(setting_names(kind))
    defaults = {row[0].strip("`"): row[2] for row in rows}
    for name, field in kind.model_fields.items():
        if field.is_required() and name in defaults:
            assert defaults[name] == "required"


def test_a_changed_description_of_a_setting_makes_its_page_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OperatorSettings.model_fields["analyzer_results"], "description", "another")
    assert pages.stale() == ["settings.md"]
    monkeypatch.setattr(OperatorSettings.model_fields["analyzer_results"], "description", "")
    with pytest.raises(ValueError, match=r"OperatorSettings\.analyzer_results has no description"):
        pages.texts()


# Refusals


def test_every_reason_is_on_the_page_with_what_to_do() -> None:
    assert re.findall(r"(?m)^## ([a-z_]+)$", page("refusals")) == [reason.value for reason in Reason]
    assert all(each.who and each.meaning and each.remedy for each in EXPLANATIONS.values())
    assert all(f"| `{reason.value}` |" in page("refusals") for reason in LeftOut)


def test_a_reason_without_an_explanation_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "EXPLANATIONS", {})
    with pytest.raises(ValueError, match="EXPLANATIONS lacks malformed, wrong_size"):
        refusals.pages()


# Events


def test_every_event_that_is_logged_is_on_the_page() -> None:
    names = {event.name for event in events.logged()}
    assert names == set(events.EVENTS)
    assert set(events.SECTIONS) <= names
    assert all(f"| `{name}` |" in page("events") for name in names)


def test_an_event_without_a_meaning_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVENTS", {"serving": "All ports answer.", "gone": "It is logged no more."})
    with pytest.raises(ValueError, match=r"differ: .*, gone, .*round certified"):
        events.pages()


# Messages


def test_every_module_that_raises_an_error_is_on_a_page() -> None:
    text = "\n".join(text for name, text in pages.texts().items() if name.startswith("errors"))
    raising = [
        path
        for path in source.modules(*source.FOLDERS)
        if re.search(r"raise (Usage|Task|Signature|Settings|Store)Error\(\s*f?\"", path.read_text())
    ]
    assert len(raising) > 50
    assert [path for path in raising if f"## {path.relative_to(ROOT)}\n" not in text] == []


def messages_of(text: str) -> list[str]:
    """The texts in the errors that a module raises."""
    found = source.calls(ast.parse(text))
    return [source.text_of(node.args[0], names) for node, names in found if ast.unparse(node.func) == "HubbubError"]


def test_a_message_is_shown_with_words_for_its_values() -> None:
    assert messages_of('HubbubError(f"cannot read {path}: {error.strerror}")') == [
        "cannot read {path}: {error strerror}"
    ]
    assert messages_of("HubbubError(f\"{len(names)} names, at most {self._most_names}: {', '.join(names)}\")") == [
        "{number of names} names, at most {most names}: {names}"
    ]


def test_a_message_is_put_together_from_what_was_assigned_before() -> None:
    function = """
LIMIT = "at most 3"
def check(a):
    if a:
        text = f"is {a}"
        raise HubbubError(f"{text}; {LIMIT}")
    text = "is not there"
    raise HubbubError(text if a else said(a))
def said(a):
    return "is gone" if a else f"is {a} too"
"""
    assert messages_of(function) == ["is {a}; at most 3", "is not there | is gone | is {a} too"]


def test_a_number_that_is_counted_up_has_no_value_in_a_message() -> None:
    function = """
def check(a):
    found, seen = 0, ""
    for each in a:
        found += each
        if seen != (seen := each):
            raise HubbubError(f"{found} of {a}: {seen}")
"""
    assert messages_of(function) == ["{found} of {a}: {seen}"]


def test_of_two_wordings_a_message_shows_the_one_with_a_value() -> None:
    assert messages_of("""HubbubError(f"{'one was' if a == 1 else f'{a} were'} refused")""") == ["{a} were refused"]


# Tasks


def test_the_example_of_a_draft_is_read() -> None:
    example = re.search(r"(?ms)^```toml\n(.*?)^```", page("task-keys"))
    assert example is not None
    assert read_draft(example[1]).name == "usage"


def test_every_kind_of_query_and_every_key_is_on_the_page() -> None:
    titles = re.findall(r"(?m)^## ([a-z]+)$", page("task-keys"))
    assert titles == list(QUESTIONS)
    assert all(f"| `{key}` |" in page("task-keys") for kind in QUESTIONS for key in task_keys.kind_keys(kind))
    assert task_keys.read_keys("admission") == {"mode": True, "second_authority": False}


def test_a_key_that_nobody_describes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_keys, "KINDS", {**task_keys.KINDS, "sum": {}})
    with pytest.raises(ValueError, match="sum differs from what is read: digits, lower, unit, upper"):
        task_keys.pages()


# Certificates


def test_every_member_of_a_certificate_is_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {*certificate.BODY, *certificate.NUMBERS, *certificate.MECHANISMS}
    assert all(f"| `{name}` |" in page("certificate") for name in named)
    monkeypatch.setattr(certificate, "BODY", {**certificate.BODY, "another": ("text", "Another.")})
    with pytest.raises(ValueError, match=r"BODY differs from what is checked: .'another'"):
        certificate.pages()


# How pages are made


def test_a_code_span_is_never_broken() -> None:
    lines = wrapped("word " * 18 + "`a span of several words` and more")
    assert any("`a span of several words`" in line for line in lines)
    assert all(len(line) <= 100 for line in lines)


def test_a_long_page_is_divided_between_its_sections() -> None:
    sections = tuple(section(f"Part {number}", ["- line"] * 150) for number in range(5))
    made = divided(Page("long", "Long", "What is long?", "long", sections))
    assert [each.name for each in made] == ["long", "long-2", "long-3"]
    assert [each.title for part in made for each in part.sections] == [f"Part {number}" for number in range(5)]
    assert "[2](long-2.md)" in made[0].text
    with pytest.raises(ValueError, match="too long"):
        divided(Page("long", "Long", "What is long?", "long", (*sections, section("All", ["- line"] * 500))))


def test_a_table_leaves_out_columns_without_a_word() -> None:
    assert table(("a", "b"), [["1 | 2", ""]]) == ["| a |", "| --- |", r"| 1 \| 2 |"]
    with pytest.raises(ValueError, match="cells"):
        table(("a", "b"), [["1"]])
