"""Devices report any text, readers look up a list, and the certificate holds."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.operator.lookup import decoded, read_candidates
from hubbub.protos.errors import UsageError
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.texts.text import Text
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.estimate_rows import counts, number
from support.fleets import fleet_of
from support.patience import PATIENCE
from support.samples import FEW

DEVICES = 300
HELD = {"straße": 150, "chrome": 100, None: 50}
DRAFT = Draft(
    "searches",
    Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator"),
    DEVICES,
    Privacy(epsilon=20.0, delta=1e-2, epsilon_local=20.0, dummies=200, large_delta=FEW),
    (Text("word", optional=True), Histogram("theme", ("light", "dark"), randomizer="hashed")),
)


async def answered(pipeline: LocalPipeline) -> int:
    words = [word for word, people in HELD.items() for _ in range(people)]
    async with fleet_of(pipeline) as fleet:
        named = ((str(place), {"word": word, "theme": "dark"}) for place, word in enumerate(words))
        return (await fleet.submit_many(named, 0)).accepted


# tests/cli/test_demo.py has texts looked up in what services release, and their certificates verified.
@pytest.mark.exhaustive
async def test_texts_are_looked_up_in_what_real_services_release(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), LocalPipeline(DRAFT, tmp_path / "pipeline") as pipeline:
        assert await answered(pipeline) == DEVICES
        await pipeline.close_round(0)
        results = await pipeline.results(0)
        identities = pipeline.task.task.identities
    listed = tmp_path / "candidates.txt"
    others = "".join(f"word {number}\n" for number in range(2000))
    listed.write_text(f"straße\r\nchrome\n\nlynx\nchrome\n{others}", encoding="utf-8")
    word, theme = decoded(results, read_candidates(listed)).queries
    assert word.estimates is not None
    found = {row.category: row.estimate for row in word.estimates.rows if row.statistic == "count"}
    # A share of 5 % of the finds may be false. One is, in fewer than one of a thousand runs, and three are never.
    assert list(found)[:2] == ["straße", "chrome"]
    assert len(found) <= 4
    for text in ("straße", "chrome"):
        estimate = found[text]
        assert estimate is not None
        assert abs(estimate.value - HELD[text]) < 8 * estimate.standard_error
    silent = number(word.estimates, "answered")
    assert abs(silent.value - 250) < 8 * silent.standard_error
    _, dark = counts(theme.estimates)
    assert abs(dark.value - DEVICES) < 8 * dark.standard_error
    pins = Pins(identities.operator, identities.shuffler, identities.analyzer)
    verified = verify(results.certificate, pins)
    assert [query["mechanism"] for query in verified.content["queries"]] == ["hashed", "hashed"]
    body = json.loads(results.certificate)["body"]
    cells = f'"cells":{body["queries"][0]["cells"]}'.encode()
    assert cells in results.certificate
    with pytest.raises(VerificationError):
        verify(results.certificate.replace(cells, b'"cells":3'), pins)
    with pytest.raises(UsageError, match="no query of this round has texts"):
        decoded(type(results)(results.id, (theme,), results.certificate), ["straße"])
