"""Writes the vectors of tests/vectors/kinds as this version of hubbub writes them, a folder for each kind of question.

    python tests/vectors/make_kinds.py

A folder holds a signed task, what devices reported in each round, and what the analyzer published of the last one: its
certificate and its results. Nothing is written over: who adds a kind adds it to `KINDS`, and commits its folder. The
folders that are there stay as they are, so that tests see that what was signed, reported and published is still read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random as Seeded

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.accountant.certificate.terms import RoundCounts  # noqa: E402
from hubbub.accountant.mechanisms import NoiseLaw, TreeNodes  # noqa: E402
from hubbub.accountant.mechanisms.longitudinal import Horizon, Sampled, Vector  # noqa: E402
from hubbub.analyzer.records import History, ReceivedBatch, counted_of  # noqa: E402
from hubbub.analyzer.results import results_of  # noqa: E402
from hubbub.protos.messages import Committed  # noqa: E402
from hubbub.protos.records.batch import BatchId, BatchRecord  # noqa: E402
from hubbub.protos.records.release_chain import position_after  # noqa: E402
from hubbub.protos.records.results import RoundId, RoundResults  # noqa: E402
from hubbub.protos.records.sums import sums_of  # noqa: E402
from hubbub.protos.rpc.results import write_results  # noqa: E402
from hubbub.protos.task.schedule import Schedule  # noqa: E402
from hubbub.protos.task.signed_task import SignedTask  # noqa: E402
from hubbub.protos.task.task import Privacy, Task  # noqa: E402
from hubbub.queries.longitudinal.direct import SendingStates  # noqa: E402
from hubbub.queries.longitudinal.over_rounds import Memory, RoundContext  # noqa: E402
from hubbub.queries.longitudinal.question import Longitudinal  # noqa: E402
from hubbub.queries.longitudinal.signs import SendingOneChange, SendingVector  # noqa: E402
from hubbub.queries.longitudinal.tree import SendingNodes  # noqa: E402
from hubbub.queries.query import Query  # noqa: E402
from hubbub.queries.questions.bit import bits_of  # noqa: E402
from hubbub.queries.questions.distribution import Distribution  # noqa: E402
from hubbub.queries.questions.grouped import Grouped  # noqa: E402
from hubbub.queries.questions.histogram import Histogram  # noqa: E402
from hubbub.queries.questions.number import Number  # noqa: E402
from hubbub.queries.questions.question import Question, Value, symbols_of  # noqa: E402
from hubbub.queries.questions.top import Top  # noqa: E402
from hubbub.queries.questions.variance import Variance  # noqa: E402
from hubbub.queries.randomizers.hashed import HashedResponse  # noqa: E402
from hubbub.queries.randomizers.krr import KRandomizedResponse  # noqa: E402
from hubbub.queries.randomizers.randomizer import Imitable, Randomizer  # noqa: E402
from hubbub.queries.texts.text import DIGESTS, Text  # noqa: E402
from support.certificates import content_of, counts, encode  # noqa: E402
from support.samples import START, sample_task, signed  # noqa: E402
from vectors.make_signed import PARTIES  # noqa: E402

FOLDER = Path(__file__).parent / "kinds"

DEVICES, MINIMUM = 120, 100
"""Few, so that files are small: what is published is mostly noise, and as good to compare."""

EIGHTH = 2**29
"""γ = 1/8."""

HORIZON = Horizon(4, 2)
ODDS, STEADY = 2**33, 3
"""Odds E of a sign, times 2³², and the people of a level who answer every round."""


@dataclass(frozen=True)
class Kind:
    """A question, exactly randomized, and what a device answers in a round."""

    query: Query
    answer: Callable[[int, int], Value]
    rounds: int = 1


def _krr(question: Question, answer: Callable[[int, int], Value]) -> Kind:
    return Kind(Query(question, KRandomizedResponse(symbols_of(question), EIGHTH)), answer)


def _over_time(strategy: str, sending: Randomizer) -> Kind:
    asked = Longitudinal("active", HORIZON.changes, steady_share=0.5, epsilon_local=30.0)
    return Kind(Query(asked.frozen(strategy, HORIZON.periods), sending), _state, HORIZON.periods)


def _state(device: int, number: int) -> bool:
    """A third changes to yes in round 1, half of them back in round 3."""
    return device % 3 == 0 and 1 <= number < (3 if device % 2 else 4)


WORDS = ("tea", "coffee", "café", "水", "maté")
SITES = tuple(f"site-{number}" for number in range(12))
REGION = Histogram("region", ("north", "south"))
THEME = Histogram("theme", ("light", "dark"))
NOISE = (NoiseLaw("geometric", 2**31, 8), NoiseLaw("gaussian", 3 * 2**31, 9))

KINDS: Mapping[str, Kind] = {
    "longitudinal-direct": _over_time("direct", SendingStates(2, EIGHTH, HORIZON)),
    "longitudinal-tree": _over_time("tree", SendingNodes(TreeNodes(HORIZON.periods, HORIZON.changes, EIGHTH, EIGHTH))),
    "longitudinal-vector": _over_time("vector", SendingVector(Vector(HORIZON, ODDS, 0), STEADY)),
    "longitudinal-sampled": _over_time("sampled", SendingOneChange(Sampled(HORIZON, ODDS), STEADY)),
    "hashed": Kind(
        Query(Histogram("site", SITES, randomizer="hashed"), HashedResponse(len(SITES), 16, 8, EIGHTH)),
        lambda device, _: SITES[device % 3],
    ),
    "text": Kind(
        Query(Text("drink", optional=True), HashedResponse(DIGESTS + 1, 64, 8, EIGHTH)),
        lambda device, _: None if device % 7 == 0 else WORDS[0 if device % 2 else device % len(WORDS)],
    ),
    "distribution": _krr(
        Distribution("session", (0.0, 5.0, 10.0, 30.0, 60.0), (0.5, 0.9), "minutes", optional=True),
        lambda device, _: None if device % 9 == 0 else float(device % 45),
    ),
    "grouped": _krr(
        Grouped("theme", (REGION,), THEME),
        lambda device, _: {"region": REGION.categories[device % 2], "theme": THEME.categories[device % 5 > 0]},
    ),
    "variance": _krr(Variance("delay", -30.0, 180.0, "minutes", levels=7), lambda device, _: float(device)),
    "noise": Kind(
        Query(THEME, KRandomizedResponse(2, EIGHTH), NOISE[0]),
        lambda device, _: THEME.categories[device % 5 > 0],
    ),
    "digits": Kind(
        Query(bits_of(Number("stairs", 0.0, 10.0, "floors", digits=1))[0], KRandomizedResponse(2, EIGHTH), NOISE[1]),
        lambda device, _: int(device % 3 == 0),
    ),
    "top": _krr(Top("site", SITES, false_discovery_rate=0.1), lambda device, _: SITES[device % 4 // 2]),
}


def task_of(name: str) -> Task:
    """The task that asks one of them. Its budget is wide, so that few reports are enough."""
    kind = KINDS[name]
    schedule = Schedule(START, length=3600, grace=60, rounds=kind.rounds)
    privacy = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0, epsilon_total=100.0)
    return sample_task(
        PARTIES, name=name, minimum_reports=MINIMUM, schedule=schedule, queries=(kind.query,), privacy=privacy
    )


def reports_of(name: str) -> list[bytes]:
    """What all devices send in each round and the shuffler adds, joined; the randomness is the same in every run."""
    kind, random = KINDS[name], Seeded(name).randbytes
    memories: list[Memory | None] = [None] * DEVICES
    rounds = []
    for number in range(kind.rounds):
        sent = b""
        for device in range(DEVICES):
            moment = RoundContext(number, memories[device])
            encoded = kind.query.encode_at(kind.answer(device, number), moment, random)
            memories[device] = encoded.memory
            sent += kind.query.randomize(encoded.symbol, random)
        if isinstance(kind.query.randomizer, Imitable) and kind.query.noise is not None:
            sent += kind.query.randomizer.reports_of(kind.query.draw_noise(random))
        rounds.append(sent)
    return rounds


def history_of(task: Task, rounds: list[bytes]) -> History:
    """The rounds' batches as an analyzer stores them once it counted what was reported."""
    return [(number, [_batch(task, number, reports)]) for number, reports in enumerate(rounds)]


def _batch(task: Task, number: int, reports: bytes) -> ReceivedBatch:
    tally = task.queries[0].randomizer.tally(reports)
    record = BatchRecord(
        *(BatchId(task.id, number, 0), DEVICES, bytes(32), bytes(32), "schedule"),
        dummies=tally.valid - DEVICES,
        admission=task.admission.mode.value,
        position=position_after(task.id, ()),
    )
    document, committed = record.signed_by(PARTIES.shuffler), Committed(DEVICES, {})
    counted = tally.counts.astype("<i8").tobytes()
    return ReceivedBatch(record.batch, document, DEVICES, record.dummies, bytes(32), tally.valid, committed, counted)


def published(task: Task, rounds: list[bytes], certificate: bytes) -> RoundResults:
    """What the analyzer publishes of the last round."""
    history = history_of(task, rounds)
    sums = sums_of(task, [counted_of(task, batch) for batch in history[-1][1]])
    return RoundResults(RoundId(task.id, task.name, len(rounds) - 1), results_of(task, history), certificate, sums)


def counts_of(task: Task, rounds: list[bytes]) -> list[RoundCounts]:
    """What certificates state of these rounds: how many devices reported, and what the shuffler added."""
    history = []
    for number, reports in enumerate(rounds):
        noise = task.queries[0].randomizer.tally(reports).valid - DEVICES
        stated = counts(task, number, DEVICES)
        history.append(replace(stated, queries=(replace(stated.queries[0], noise=noise),)))
    return history


def certificate_of(task: Task, rounds: list[bytes]) -> bytes:
    """The certificate of the last of these rounds."""
    return encode(content_of(task, PARTIES, counts_of(task, rounds)), PARTIES)


def keep(path: Path, content: bytes) -> None:
    """Write a file that is not there yet."""
    if path.exists():
        sys.stderr.write(f"{path.relative_to(FOLDER)} is there already and stays as it is\n")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main() -> None:
    for name in KINDS:
        task, rounds = task_of(name), reports_of(name)
        certificate = certificate_of(task, rounds)
        document = signed(task, PARTIES).encode()
        SignedTask.decode(document)  # what nobody would run is no vector
        keep(FOLDER / name / "task.json", document)
        for number, reports in enumerate(rounds):
            keep(FOLDER / name / f"reports-{number}.bin", reports)
        keep(FOLDER / name / "certificate.json", certificate)
        results = write_results(published(task, rounds, certificate))
        keep(FOLDER / name / "results.bin", results.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
