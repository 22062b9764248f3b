"""Task files that cannot be read are an error that names them, never no task."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.protos.errors import TaskError
from hubbub.service.runtime.task_files import read_tasks
from support.messages import NO_TASK_TO_RUN
from support.samples import Parties, sample_task, signed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder, parties = tmp_path / "tasks", Parties.generate()
    folder.mkdir()
    (folder / "task.json").write_bytes(signed(sample_task(parties), parties).encode())
    (folder / "notes.txt").write_text("not a task")
    return folder


def test_a_folder_s_tasks_and_single_files_are_read(folder: Path) -> None:
    assert len(read_tasks([folder], lambda _: None)) == 1
    assert len(read_tasks([folder / "task.json"], lambda _: None)) == 1


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", denied)
    with pytest.raises(TaskError, match=r"cannot read .*tasks: Permission denied"):
        read_tasks([folder], lambda _: None)


def test_a_missing_folder_and_an_empty_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"cannot read .*none: No such file or directory"):
        read_tasks([tmp_path / "none"], lambda _: None)
    (tmp_path / "more").mkdir()
    with pytest.raises(TaskError) as raised:
        read_tasks([tmp_path, tmp_path / "more"], lambda _: None)
    assert f"there is {NO_TASK_TO_RUN}, no *.json in {tmp_path} or {tmp_path / 'more'}; sign one" in str(raised.value)
    assert "restore one of their files: a service needs at least one task" in str(raised.value)
    with pytest.raises(TaskError, match="`tasks` names no file and no folder"):
        read_tasks([], lambda _: None)


@pytest.mark.parametrize(("kept", "says"), [(0, "an empty file, not a signed task"), (900, "cut short, not a whole")])
def test_a_task_that_was_not_copied_whole_is_named(folder: Path, kept: int, says: str) -> None:
    task = (folder / "task.json").read_bytes()
    (folder / "more.json").write_bytes(task[:kept])
    with pytest.raises(TaskError, match=rf"tasks/more\.json: {says}"):
        read_tasks([folder], lambda _: None)


@pytest.mark.parametrize("name", ["other.json", "link"])
def test_a_link_that_leads_nowhere_is_named(folder: Path, name: str) -> None:
    (folder / name).symlink_to(folder / "gone.json")
    path = folder if name.endswith(".json") else folder / name
    with pytest.raises(TaskError, match=f"{name} is a link to .*gone.json, which does not exist"):
        read_tasks([path], lambda _: None)


def test_a_folder_in_the_place_of_a_task_is_named(folder: Path) -> None:
    (folder / "more.json").mkdir()
    with pytest.raises(TaskError, match=r"cannot read .*more\.json: Is a directory"):
        read_tasks([folder], lambda _: None)
