"""Writes the example of docs/howto/verify-as-an-outsider.md: docs/examples/commute, made afresh and the same each time.

    python tests/vectors/make_example.py

Run it after a change of what a certificate or results contain, and show what the page's commands then print. The keys
are those of the vectors; they protect nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random as Seeded

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.analyzer.records import ReceivedBatch  # noqa: E402
from hubbub.analyzer.results import results_of  # noqa: E402
from hubbub.protos.identity.keys import save_public  # noqa: E402
from hubbub.protos.messages import Committed  # noqa: E402
from hubbub.protos.records.batch import BatchRecord  # noqa: E402
from hubbub.protos.records.counts import DIGEST, Counted, counts_digest  # noqa: E402
from hubbub.protos.records.results import RoundId, RoundResults  # noqa: E402
from hubbub.protos.records.results_document import results_document  # noqa: E402
from hubbub.protos.task.admission import ENROLLED  # noqa: E402
from hubbub.protos.task.schedule import Schedule  # noqa: E402
from hubbub.protos.task.task import Privacy, Task  # noqa: E402
from hubbub.queries.query import Query  # noqa: E402
from hubbub.queries.questions.histogram import Histogram  # noqa: E402
from hubbub.queries.questions.number import Number  # noqa: E402
from hubbub.queries.questions.question import Value  # noqa: E402
from support.certificates import batch_records, content_of, counts, encode  # noqa: E402
from support.krr_queries import krr_query  # noqa: E402
from support.samples import START, sample_task  # noqa: E402
from vectors.make_signed import PARTIES  # noqa: E402

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "commute"

DEVICES, MINIMUM = 2000, 1000
HISTORY = (1200, 1300, 1400)
"""Devices of each round of the history."""

MEANS = ("car", "bus", "bicycle", "foot", "other")
SHARES = (11, 5, 3, 1, 0)
"""Of 20 people, how many go by each means."""

# γ in units of 2⁻³², as `hubbub plan` chooses it for (1, 1e-6) at the minimum.
TRANSPORT = krr_query(Histogram("transport", MEANS), 961641040)
DURATION = krr_query(Number("duration", 0.0, 60.0, "minutes"), 834145326, levels=3)
CARRIER = krr_query(Histogram("carrier", ("AA", "B6", "UA")), 2**31)
"""The query of the history."""


def task_of(queries: Sequence[Query], rounds: int) -> Task:
    """The task of the example."""
    return sample_task(
        PARTIES,
        name="commute",
        minimum_reports=MINIMUM,
        schedule=Schedule(START, length=86400, grace=600, rounds=rounds),
        queries=tuple(queries),
        admission=ENROLLED,
        privacy=Privacy(epsilon=1.0, delta=1e-6, epsilon_local=8.0),
    )


def answers(device: int) -> tuple[Value, Value]:
    """What a device answers: its means of transport, and its minutes."""
    of_twenty = [means for means, share in zip(MEANS, SHARES, strict=True) for _ in range(share)]
    return of_twenty[device % 20], float(device * 7 % 61)


def results_in(task: Task) -> tuple[bytes, RoundResults]:
    """The certificate of a round of the task, and the results."""
    random = Seeded("commute").randbytes
    round_ = counts(task, 0, DEVICES)
    tallies = []
    for query, of_query in zip(task.queries, zip(*map(answers, range(DEVICES)), strict=True), strict=True):
        tallies.append(
            query.randomizer.tally(
                b"".join(query.randomize(query.encode(answer, random), random) for answer in of_query)
            )
        )
    content = content_of(task, PARTIES, [round_])
    content[DIGEST] = counts_digest(task, 0, [Counted(DEVICES, DEVICES, {}, tally) for tally in tallies]).hex()
    certificate = encode(content, PARTIES)
    batches = []
    for document, tally in zip(batch_records(task, PARTIES, round_), tallies, strict=True):
        batch = BatchRecord.read(document, PARTIES.shuffler.public).batch
        counted = tally.counts.astype("<i8").tobytes()
        committed = Committed(DEVICES, {})
        batches.append(ReceivedBatch(batch, document, DEVICES, 0, bytes(32), DEVICES, committed, counted))
    return certificate, RoundResults(RoundId(task.id, task.name, 0), results_of(task, [(0, batches)]), certificate)


def main() -> None:
    for role in ("operator", "shuffler", "analyzer"):
        save_public(FOLDER / f"{role}.pub.pem", getattr(PARTIES, role).public)
    certificate, results = results_in(task_of((TRANSPORT, DURATION), 1))
    (FOLDER / "certificate.json").write_bytes(certificate)
    (FOLDER / "results.json").write_text(json.dumps(results_document(results), indent=2, ensure_ascii=False) + "\n")
    task = task_of((CARRIER,), len(HISTORY))
    rounds = [counts(task, number, devices) for number, devices in enumerate(HISTORY)]
    for number in range(len(rounds)):
        made = encode(content_of(task, PARTIES, rounds[: number + 1]), PARTIES)
        (FOLDER / "history" / f"certificate-{number}.json").write_bytes(made)


if __name__ == "__main__":
    main()
