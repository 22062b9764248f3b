"""Results are waited for, and it is said what for; where there are none, the error says what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from hubbub.cli.tables.status import TASK_ID_DIGITS
from hubbub.deploy.operator import wait as waiting
from hubbub.deploy.operator.wait import RoundFilter, results_of
from hubbub.protos.errors import CannotCall, Distrusted, HubbubError, Unreachable, UsageError
from hubbub.protos.records.results import AnalysisStage, AnalyzerRoundStatus, RoundId, RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.results.selection import matches

SETTINGS: Any = SimpleNamespace(analyzer_results="analyzer.example:7402")
USAGE, OTHER = bytes([1]) * 32, bytes([2]) * 32


def status(number: int, progress: AnalysisStage, waits: str, task: bytes = USAGE) -> AnalyzerRoundStatus:
    return AnalyzerRoundStatus(RoundId(task, "usage" if task == USAGE else "other", number), progress, (), waits)


@dataclass
class Analyzer:
    """An analyzer whose rounds change each time that results are asked for in vain, as time passes."""

    certified: list[RoundId] = field(default_factory=list)
    statuses: list[list[AnalyzerRoundStatus]] = field(default_factory=list)
    now: float = 0.0
    asked: list[tuple[int, float]] = field(default_factory=list)
    failures: list[HubbubError] = field(default_factory=list)
    """What the next calls fail with."""

    async def list_results(self, _: Any) -> list[RoundId]:
        self.fail()
        return self.certified

    def fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    async def pause(self, seconds: float) -> None:
        self.now += seconds

    async def fetch_analyzer_statuses(self, _: Any) -> list[AnalyzerRoundStatus]:
        self.fail()
        return self.statuses[0] if len(self.statuses) == 1 else self.statuses.pop(0) if self.statuses else []

    async def fetch_results(self, _: Any, task: bytes, number: int, wait: float) -> RoundResults:
        self.fail()
        self.asked.append((number, wait))
        self.now += wait
        found = [each for each in self.certified if (each.task_id, each.round) == (task, number)]
        if not found:
            raise Refusal(Reason.NO_RESULTS, "none")
        return RoundResults(found[0], (), b"{}")

    async def ask(self, wanted: RoundFilter, wait: float) -> tuple[RoundResults, list[str]]:
        said: list[str] = []
        return await results_of(SETTINGS, wanted, wait, said.append, lambda: self.now, self.pause), said


@pytest.fixture
def analyzer(monkeypatch: pytest.MonkeyPatch) -> Analyzer:
    made = Analyzer()
    for name in ("list_results", "fetch_analyzer_statuses", "fetch_results"):
        monkeypatch.setattr(waiting, name, getattr(made, name))
    return made


async def test_the_latest_certified_round_is_returned_without_a_wait(analyzer: Analyzer) -> None:
    analyzer.certified = [RoundId(USAGE, "usage", 0), RoundId(USAGE, "usage", 1)]
    results, said = await analyzer.ask(RoundFilter("usage"), 60)
    assert (results.id.round, said, analyzer.asked) == (1, [], [(1, 0)])


async def test_what_a_round_waits_for_is_said_once_each(analyzer: Analyzer) -> None:
    delivering = status(0, AnalysisStage.DELIVERING, "theme: 3 of 80 reports arrived")
    analyzer.statuses = [[delivering], [delivering], [status(0, AnalysisStage.COUNTED, "its certificate")], []]
    with pytest.raises(HubbubError):
        await analyzer.ask(RoundFilter(), 12)
    said: list[str] = []
    analyzer.now, analyzer.statuses = 0.0, [[delivering], [delivering], [status(0, AnalysisStage.COUNTED, "it")]]
    with pytest.raises(HubbubError, match=r"no such round is certified yet after 12 s: usage round 0 is counted"):
        await results_of(SETTINGS, RoundFilter(), 12, said.append, lambda: analyzer.now)
    assert said == [
        "usage round 0 is delivering and waits for theme: 3 of 80 reports arrived",
        "usage round 0 is counted and waits for it",
    ]


async def test_an_error_without_a_wait_names_the_wait(analyzer: Analyzer) -> None:
    analyzer.statuses = [[status(0, AnalysisStage.AWAITED, "theme: the shuffler has delivered nothing")]]
    with pytest.raises(HubbubError, match=r"usage round 0 is awaited and waits for theme.* --wait SECONDS"):
        await analyzer.ask(RoundFilter(), 0)
    assert analyzer.asked == []


async def test_a_round_that_has_not_begun_is_waited_for_by_its_tasks_others(analyzer: Analyzer) -> None:
    analyzer.statuses = [[status(0, AnalysisStage.CERTIFIED, "nothing")]]
    with pytest.raises(HubbubError, match="has not begun such a round") as raised:
        await analyzer.ask(RoundFilter("usage", 4), 7)
    assert "--wait" not in str(raised.value)
    # Asked without a wait first, whether the task has such a round at all.
    assert analyzer.asked == [(4, 0), (4, 5.0), (4, 0), (4, 2.0), (4, 0)]


def test_a_task_is_named_by_its_name_or_by_the_digits_that_status_prints() -> None:
    which = RoundId(bytes(range(32)), "usage", 0)
    for word in ("usage", which.task_id.hex(), which.task_id.hex()[:TASK_ID_DIGITS], which.task_id.hex()[:8]):
        assert RoundFilter(word).matches(which), word
        assert matches(which, word), word
    for word in ("", "usag", which.task_id.hex()[:7], which.task_id.hex()[1:13]):
        assert not RoundFilter(word).matches(which), word
        assert not matches(which, word), word


@pytest.mark.parametrize("wait", [0.0, 60.0])
async def test_a_round_that_the_task_does_not_have_is_not_waited_for(
    analyzer: Analyzer, monkeypatch: pytest.MonkeyPatch, wait: float
) -> None:
    async def refuse(*_: Any) -> RoundResults:
        raise Refusal(Reason.UNKNOWN_ROUND, "task usage has rounds 0 to 2, not 5")

    monkeypatch.setattr(waiting, "fetch_results", refuse)
    analyzer.statuses = [[status(0, AnalysisStage.AWAITED, "theme: the shuffler has delivered nothing")]]
    with pytest.raises(Refusal, match="rounds 0 to 2, not 5"):
        await analyzer.ask(RoundFilter("usage", 5), wait)


@pytest.mark.parametrize(("task", "says"), [("nope", "no round of task nope; `hubbub status`"), (None, "no round;")])
async def test_no_wait_is_offered_for_a_task_that_the_analyzer_does_not_show(
    analyzer: Analyzer, task: str | None, says: str
) -> None:
    other = status(0, AnalysisStage.AWAITED, "theme: the shuffler has delivered nothing")
    analyzer.statuses = [[] if task is None else [other]]
    with pytest.raises(HubbubError, match=says) as raised:
        await analyzer.ask(RoundFilter(task), 60)
    assert "--wait" not in str(raised.value)
    assert analyzer.asked == []


async def test_a_round_that_is_over_is_not_waited_for(analyzer: Analyzer) -> None:
    analyzer.statuses = [[status(0, AnalysisStage.OVER, "nothing, its key was destroyed")]]
    with pytest.raises(HubbubError, match="its key was destroyed") as raised:
        await analyzer.ask(RoundFilter("usage", 0), 60)
    assert "--wait" not in str(raised.value)
    assert analyzer.asked == []


async def test_several_tasks_have_to_be_told_apart(analyzer: Analyzer) -> None:
    analyzer.certified = [RoundId(USAGE, "usage", 0), RoundId(OTHER, "other", 0)]
    with pytest.raises(UsageError, match="--task"):
        await analyzer.ask(RoundFilter(), 0)
    results, _ = await analyzer.ask(RoundFilter(OTHER.hex()), 0)
    assert results.id.task_name == "other"
    # A task without results yet may be the one that is meant.
    analyzer.certified = [RoundId(USAGE, "usage", 0)]
    analyzer.statuses = [[status(0, AnalysisStage.AWAITED, "waits", OTHER)]]
    with pytest.raises(UsageError, match="--task"):
        await analyzer.ask(RoundFilter(), 0)


@pytest.mark.parametrize("answered", range(3), ids=["nothing", "the list", "the rounds"])
async def test_an_analyzer_that_restarts_is_waited_for(
    analyzer: Analyzer, monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    """It goes away after so many calls were answered, and comes back with the results."""
    gone = Unreachable("the analyzer did not answer: no server listens there")
    passed: list[HubbubError] = [Refusal(Reason.NOT_READY, "the store takes nothing now")]
    calls = iter(range(100))

    def fail() -> None:
        match next(calls) - answered:
            case 0 | 1 | 2:
                raise gone
            case 3:
                analyzer.certified = [RoundId(USAGE, "usage", 0)]
                raise passed[0]

    monkeypatch.setattr(analyzer, "fail", fail)
    analyzer.statuses = [[status(0, AnalysisStage.COUNTED, "its certificate")]]
    results, said = await analyzer.ask(RoundFilter(), 60)
    assert results.id.round == 0
    assert said[-2:] == [
        f"the call is repeated: {gone}",
        "the call is repeated: the store takes nothing now",
    ]
    assert analyzer.now <= 4 * waiting.AGAIN_SECONDS


@pytest.mark.parametrize("wait", [0.0, 2.5])
async def test_an_analyzer_that_does_not_come_back_is_an_error_in_the_end(analyzer: Analyzer, wait: float) -> None:
    analyzer.failures = [Unreachable("the analyzer did not answer: away")] * 10
    with pytest.raises(Unreachable, match=r"the analyzer did not answer: away$"):
        await analyzer.ask(RoundFilter(), wait)
    assert (analyzer.now, len(analyzer.failures)) == (wait, 10 - 1 - round(wait + 0.5))


@pytest.mark.parametrize("kind", [CannotCall, Distrusted])
async def test_an_analyzer_that_no_wait_helps_to_reach_is_not_waited_for(
    analyzer: Analyzer, kind: type[Unreachable]
) -> None:
    analyzer.failures = [kind("the analyzer is not trusted: its TLS certificate has expired")]
    with pytest.raises(kind, match=r"has expired$"):
        await analyzer.ask(RoundFilter(), 60)
    assert analyzer.now == 0
