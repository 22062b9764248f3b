"""Pictures of who has, sees and can do what: the pipeline, and one picture for each of the parties."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from types import MappingProxyType

from pictures.canvas import WIDTH, Canvas

COLUMNS: Sequence[tuple[str, str]] = (
    ("device", "device"),
    ("shuffler", "shuffler"),
    ("analyzer", "analyzer"),
    ("anyone", "anyone"),
)
"""The parties of the pipeline from left to right: name and color."""

LEFT, STEP = 204, 184
"""Where the first column begins, and how far the next is."""

LINE = 20
"""The height of a line of text."""

LETTERS = 32
"""The most letters of a line in a box: with wide letters they fit too."""

STEPS: Sequence[Sequence[str]] = (
    ("encode, randomize,", "seal twice, submit"),
    ("open the outer layer,", "permute, release, erase"),
    ("open the inner layer,", "count, estimate, certify"),
    ("verify: check signatures,", "recompute every number"),
)
"""What each of them does with a report."""

SEEN: Sequence[tuple[str, Sequence[str]]] = (
    ("the answer", ("yes", "", "", "")),
    ("the randomized report", ("yes", "sealed", "yes, shuffled", "")),
    ("who sent it, and when", ("yes", "yes", "", "")),
    ("how many came", ("", "yes", "yes", "yes")),
    ("counts and estimates", ("if published", "if published", "yes", "if published")),
    ("the certificate", ("may fetch it", "if published", "signs it", "checks it")),
)
"""For each fact, what device, shuffler, analyzer and anyone see of it; an empty text is nothing."""


def pipeline() -> str:
    """Draw device, shuffler, analyzer and anyone, and what each of them sees of a report."""
    canvas = Canvas(
        424, "The pipeline", "Device, shuffler, analyzer and anyone: what each of them does, and sees of a report."
    )
    for index, ((name, color), step) in enumerate(zip(COLUMNS, STEPS, strict=True)):
        left = LEFT + index * STEP
        canvas.rectangle(left, 24, 168, 34, color)
        canvas.text(left + 84, 47, name, "head on", "middle")
        for line, words in enumerate(step):
            canvas.text(left + 84, 82 + line * 20, words, "small", "middle")
        if index:
            canvas.arrow(left - 18, 41, 16)
    canvas.text(20, 47, "a report's way", "head")
    canvas.text(20, 150, "what each sees", "head")
    for row, (fact, seen) in enumerate(SEEN):
        top = 166 + row * 41
        canvas.rule(20, top, WIDTH - 40)
        canvas.text(20, top + 26, fact)
        for index, words in enumerate(seen):
            left = LEFT + index * STEP
            if words in ("", "sealed"):
                canvas.text(left + 6, top + 26, words or "–", "small")
            else:
                canvas.dot(left + 10, top + 21, COLUMNS[index][1])
                canvas.text(left + 24, top + 26, words)
    return canvas.svg()


@dataclass(frozen=True)
class Party:
    """What a party has, sees, and can and cannot do: lines of its picture."""

    title: str
    color: str
    has: Sequence[str]
    sees: Sequence[str]
    can: Sequence[str]
    cannot: Sequence[str]


DEVICE = Party(
    "The device",
    "device",
    has=(
        "the answers, in memory",
        "a ticket, then a credential",
        "the pinned keys of operator and shuffler",
        "a state file: reports until they are sealed, sealed bytes until they are acknowledged",
    ),
    sees=(
        "the task, signed by operator and shuffler",
        "the signed keys of a round",
        "what became of its answers",
        "what it has spent so far",
        "the certificate, if it asks",
    ),
    can=(
        "randomize exactly, and once",
        "seal for the analyzer, then for the shuffler",
        "submit once in a round",
        "refuse a task that promises too little",
    ),
    cannot=("hide from the shuffler or the network that it takes part",),
)

SHUFFLER = Party(
    "The shuffler",
    "shuffler",
    has=(
        "its identity, which signs",
        "the round's outer key, until the round is mixed",
        "the master keys of credentials",
        "sealed reports, until they are released",
        "a ledger of what was spent",
    ),
    sees=(
        "which device submits, when, and from which address (it keeps no address)",
        "how many submissions came",
        "sealed inner envelopes, all of one length for each question",
    ),
    can=(
        "admit or refuse a submission",
        "permute each question's reports, and add dummies",
        "sign how many it let in",
        "erase a round under its minimum",
        "leave people out, or make reports up, unnoticed",
    ),
    cannot=("open a report, unless it gets the analyzer's key of the round",),
)

ANALYZER = Party(
    "The analyzer",
    "analyzer",
    has=(
        "its identity, which signs",
        "the round's inner key, until the certificate is stored",
        "the chain of all releases",
        "a ledger of what was spent",
    ),
    sees=(
        "each question's reports as a shuffled set, without senders",
        "the shuffler's record: how many came, how many dummies",
        "which reports are valid",
    ),
    can=(
        "open and count the reports",
        "remove the randomizers' bias",
        "publish estimates with intervals",
        "sign the certificate",
    ),
    cannot=(
        "tell whose a report is, beyond the certificate's (ε, δ)",
        "certify a smaller ε than follows from its counts (but how many are valid is its claim)",
    ),
)

VERIFIER = Party(
    "Anyone who verifies",
    "anyone",
    has=(
        "the certificate, one file",
        "public keys of operator, shuffler and analyzer, from a place they trust",
        "the results, to check them too",
    ),
    sees=(
        "the signed task",
        "how many reports came, were left out, and counted",
        "every ε, and what it rests on",
        "all rounds released before",
    ),
    can=(
        "check every signature",
        "compute every ε again",
        "prove each question's ε, with --rigorous",
        "make the estimates again from the counts",
        "check a whole history",
    ),
    cannot=("see a report", "know that everybody was let in, or how many reports really are valid"),
)


def _bullets(canvas: Canvas, left: float, top: float, items: Sequence[str], color: str) -> None:
    for item in items:
        canvas.rectangle(left, top - 9, 8, 8, color, 2)
        lines = wrap(item, LETTERS)
        canvas.lines(left + 18, top, lines, step=LINE)
        top += LINE * len(lines) + 4


def _height(items: Sequence[str]) -> int:
    return sum(LINE * len(wrap(item, LETTERS)) + 4 for item in items)


def _draw(party: Party) -> str:
    body = 46 + max(_height(items) for items in (party.has, party.sees, party.can))
    canvas = Canvas(
        74 + body + 24 + 24 * len(party.cannot), party.title, f"{party.title}: what it has, sees and can do."
    )
    canvas.rectangle(20, 20, WIDTH - 40, 40, party.color)
    canvas.text(WIDTH / 2, 46, party.title, "title on", "middle")
    for index, (head, items) in enumerate((("has", party.has), ("sees", party.sees), ("can", party.can))):
        left = 20 + index * 310
        canvas.rectangle(left, 74, 300, body)
        canvas.text(left + 14, 98, head, "head")
        _bullets(canvas, left + 14, 124, items, party.color)
    canvas.text(20, 74 + body + 28, "cannot", "head")
    canvas.lines(92, 74 + body + 28, party.cannot, step=24)
    return canvas.svg()


PARTIES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "pipeline": pipeline,
        "device": lambda: _draw(DEVICE),
        "shuffler": lambda: _draw(SHUFFLER),
        "analyzer": lambda: _draw(ANALYZER),
        "verifier": lambda: _draw(VERIFIER),
    }
)
"""Every picture of parties, by the name of its file."""
