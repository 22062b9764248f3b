"""A program in Node that ships no task follows a real shuffler's feed, answers what it publishes, and counts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from simulation.test_live_feed import Published, draft

from support.patience import PATIENCE
from support.web_client import DIST, keys_of, node

PROGRAM = """
import { readFile } from "node:fs/promises";
import { openDevice, openFeed } from %r;

const { ticket, answers, feedState, deviceState, authority, ...common } = JSON.parse(process.argv[2]);
const options = { ...common, authority: await readFile(authority) };
const feed = openFeed({ ...options, allow: ["second"], state: feedState });
const counts = [await feed.fetch(), await feed.fetch()];
const tasks = await feed.tasks();
const found = tasks.get("second");
let receipt = null;
if (found !== undefined && ticket !== undefined) {
  const device = await openDevice({ ...options, ...found, ticket, state: deviceState });
  receipt = await device.submit(answers);
}
console.log(JSON.stringify({ counts, names: [...tasks.keys()], receipt }));
process.exit(0);
"""


async def run(folder: Path, pipeline: Published, ticket: str | None) -> dict[str, Any]:
    program = folder / "follow.mjs"
    program.write_text(PROGRAM % str(DIST / "node.js"))
    words = {
        **keys_of(pipeline.operator_key, pipeline.shuffler_key),
        "shuffler": pipeline.shuffler,
        "authority": str(pipeline.authority),
        "answers": {"theme": "dark"},
        "feedState": str(folder / "feed"),
        "deviceState": str(folder / "device"),
        **({} if ticket is None else {"ticket": ticket}),
    }
    process = await asyncio.create_subprocess_exec(
        str(node()), str(program), json.dumps(words), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    found: dict[str, Any] = json.loads(said)
    return found


async def test_a_program_answers_what_the_feed_publishes_and_learns_of_its_end(built: None, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), Published(draft(), tmp_path / "pipeline", https=True) as pipeline:
        assert await run(tmp_path, pipeline, None) == {"counts": [0, 0], "names": [], "receipt": None}
        second = pipeline.publish("second")
        await pipeline.known("second")
        found = await run(tmp_path, pipeline, pipeline.ticket("node").decode())
        assert (found["counts"], found["names"]) == ([1, 0], ["second"])
        assert (found["receipt"]["used"], found["receipt"]["sent"]) == (True, True)
        pipeline.task = second
        assert [each.submissions for each in await pipeline.status()] == [1, 0]
        pipeline.add(pipeline.feed.ending(second.task.id, -1))
        pipeline.publish("third")
        await pipeline.known("third")
        # The third one is none that the program allows.
        assert await run(tmp_path, pipeline, None) == {"counts": [2, 0], "names": [], "receipt": None}
