"""A task is ended at once on running services by the commands of docs/howto/run-more-than-one-task.md."""

from __future__ import annotations

import asyncio
import shlex
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.planning.plan import plan
from hubbub.protos.identity.keys import Role
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Identities, Privacy, Task
from hubbub.queries.questions.histogram import Histogram
from support.cli import hubbub
from support.howto_pages import HOWTO
from support.markdown_blocks import fenced
from support.patience import PATIENCE
from support.samples import FEW

PROGRAM = ["runuser", "--user", "hubbub-shuffler", "--", "/opt/hubbub/bin/hubbub"]


def commands() -> list[list[str]]:
    """The commands of the section, up to the one that ends with the services running again."""
    section = (HOWTO / "run-more-than-one-task.md").read_text().partition("\n## End a task at once\n")[2]
    block = next(each for each in fenced(section) if each.language == "sh")
    return [shlex.split(line) for line in block.text.splitlines()]


def tasks(identities: Identities) -> tuple[Task, ...]:
    schedule = Schedule(int(time.time()) - 5, length=3600, grace=60, rounds=1, close="operator")
    privacy = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW)
    draft = Draft("usage", schedule, 20, privacy, (Histogram("theme", ("dark", "light")),))
    return tuple(plan(each).task(identities) for each in (draft, replace(draft, name="colors")))


class Host:
    """The shuffler's host, on which the page's commands are typed; its folders are the pipeline's."""

    def __init__(self, pipeline: LocalPipeline) -> None:
        self._pipeline = pipeline
        self._folder = pipeline.folder.of(Role.SHUFFLER)
        (self._folder / "tasks" / "task-1.json").rename(self._folder / "tasks" / "colors.json")
        self._round = f"{pipeline.tasks[1].task.id.hex()[:12]}:0"

    def _here(self, word: str) -> str:
        return word.replace("/etc/hubbub/shuffler", str(self._folder)).replace("1a2b3c4d5e6f:3", self._round)

    async def type(self, words: list[str]) -> None:
        """Do what a command does there."""
        match [self._here(word) for word in words]:
            case ["systemctl", "stop", "hubbub-shuffler"]:
                await self._pipeline.stop(Role.SHUFFLER)
            case ["systemctl", "start", "hubbub-shuffler"]:
                await self._pipeline.start(Role.SHUFFLER)
            case ["rm", file]:
                await asyncio.to_thread(Path(file).unlink)
            case [*before, "shuffler", settings, give_up, round_, flag] if before == PROGRAM:
                ran = await asyncio.to_thread(hubbub, "shuffler", settings, give_up, round_, flag)
                assert (ran.status, ran.err) == (0, "")
            case other:
                raise AssertionError(f"nobody knows how to play {other}")


async def test_the_page_ends_one_task_and_leaves_the_other(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), LocalPipeline(tasks, tmp_path / "pipeline") as pipeline:
        ended = pipeline.tasks[1]
        host = Host(pipeline)
        for words in commands():
            await host.type(words)
        async with pipeline.device("stays") as device:
            assert (await device.submit({"theme": "dark"}, 0)).sent
        pipeline.task = ended
        with pytest.raises(Refusal) as refused:
            async with pipeline.device("late") as device:
                await device.submit({"theme": "dark"}, 0)
        assert refused.value.reason is Reason.UNKNOWN_TASK
