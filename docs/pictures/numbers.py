"""Pictures of the demo's numbers: the randomizer, the crowd, ε by the crowd's size, and the ladder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import exp, sqrt
from types import MappingProxyType

from pictures.canvas import WIDTH, Canvas

GAMMA = Fraction(987375049, 2**32)
"""The demo's probability that a carrier's report is drawn uniformly, as its certificate states it."""

CARRIERS: Mapping[str, int] = MappingProxyType(
    {
        "UA": 3517,
        "B6": 3299,
        "EV": 3139,
        "DL": 2859,
        "AA": 1967,
        "MQ": 1557,
        "US": 1271,
        "9E": 1064,
        "WN": 712,
        "VX": 325,
        "FL": 159,
        "AS": 43,
        "F9": 40,
        "YV": 26,
        "HA": 20,
        "OO": 2,
    }
)
"""The demo's flights of each carrier: the truth, which only the demo knows."""

DEVICES = sum(CARRIERS.values())

CROWDS: Mapping[int, float] = MappingProxyType(
    {1: 4.0, 100: 3.11983, 1_000: 1.37919, 5_000: 0.529358, 20_000: 0.248451, 100_000: 0.104708, 1_000_000: 0.0303675}
)
"""ε of the demo's carrier question at δ = 10⁻⁶, by the number of reports; a test computes them again."""

RUNGS: Sequence[tuple[str, str, str]] = (
    ("epsilon_upper", "0.375214", "the shuffler, the analyzer and everyone who answers"),
    ("epsilon_upper_if_minimum_valid", "0.397112", "the same, but the analyzer may miscount, down to 18,000"),
    ("epsilon_upper_alone", "0.998789", "the shuffler; everybody else may lie and work together, the analyzer too"),
    ("epsilon_local", "8", "only the person's own device"),
)
"""Rungs of the certificate's ladder in the demo: the member, its number, and who must be honest."""


def randomizer() -> str:
    """Draw what a device of the demo does with its carrier."""
    others = float(GAMMA) / len(CARRIERS)
    own = 1 - float(GAMMA) + others
    canvas = Canvas(300, "A randomizer", "A device reports its carrier, or one drawn by chance.")
    canvas.text(20, 40, "What a device does with its answer", "title")
    canvas.rectangle(20, 120, 130, 60)
    canvas.text(85, 145, "the answer", "small", "middle")
    canvas.text(85, 168, "UA", "head", "middle")
    canvas.arrow(150, 138, 60)
    canvas.arrow(150, 164, 60)
    canvas.rectangle(214, 84, 274, 60, "box")
    canvas.text(230, 109, f"{100 * (1 - float(GAMMA)):.1f} %", "head")
    canvas.text(230, 131, "report the truth")
    canvas.rectangle(214, 158, 274, 60, "box")
    canvas.text(230, 183, f"{100 * float(GAMMA):.1f} %", "head")
    canvas.text(230, 205, f"report any of the {len(CARRIERS)}, by chance")
    canvas.arrow(490, 151, 30)
    canvas.text(524, 84, "the report is", "head")
    for index, name in enumerate(CARRIERS):
        chance = own if name == "UA" else others
        left = 524 + index * 26
        canvas.rectangle(left, 230 - 140 * chance, 20, 140 * chance, "device" if name == "UA" else "chance", 0)
        canvas.text(left + 10, 247, name, "small", "middle")
    canvas.text(560, 132, f"UA: {100 * own:.1f} %")
    canvas.text(600, 214, f"each other carrier: {100 * others:.2f} %")
    canvas.text(
        20,
        280,
        f"A report is at most {own / others:.1f} times as likely from one answer as from another: "
        f"that is e^ε with ε = 4.  e⁴ = {exp(4):.1f}.",
        "small",
    )
    return canvas.svg()


def crowd() -> str:
    """Draw the reports of the demo's crowd: the true ones, and those that are drawn by chance."""
    each = DEVICES * float(GAMMA) / len(CARRIERS)
    spread = sqrt(DEVICES * float(GAMMA) / len(CARRIERS) * (1 - float(GAMMA) / len(CARRIERS)))
    canvas = Canvas(
        392, "A crowd", "Reports of 20,000 devices by carrier: below, those drawn by chance; above, the true ones."
    )
    canvas.text(20, 40, f"{DEVICES:,} reports, as the analyzer may expect them", "title")
    for index, (name, people) in enumerate(CARRIERS.items()):
        left = 40 + index * 56
        low = each / 13.5
        high = people * (1 - float(GAMMA)) / 13.5
        canvas.rectangle(left, 300 - low, 36, low, "chance", 0)
        canvas.rectangle(left, 300 - low - high, 36, high, "analyzer", 0)
        canvas.text(left + 18, 320, name, "", "middle")
        canvas.text(left + 18, 338, f"{people * (1 - float(GAMMA)) + each:,.0f}", "small", "middle")
    canvas.rectangle(560, 92, 14, 14, "analyzer", 0)
    canvas.text(584, 104, "reports that are true")
    canvas.rectangle(560, 118, 14, 14, "chance", 0)
    canvas.text(584, 130, f"reports by chance: {each:.0f} ± {spread:.0f} of every carrier")
    canvas.text(584, 156, "one person moves one report", "head")
    canvas.text(
        20,
        372,
        f"Chance moves the gray part of every bar by about {spread:.0f}. One person moves two bars by at most 1.",
        "small",
    )
    return canvas.svg()


def amplification() -> str:
    """Draw how ε falls with the number of reports."""
    canvas = Canvas(84 + 36 * len(CROWDS) + 26, "Amplification", "ε of one report, and among crowds of growing size.")
    canvas.text(20, 40, "ε of the carrier question, at δ = 10⁻⁶", "title")
    for index, (people, epsilon) in enumerate(CROWDS.items()):
        top = 64 + index * 36
        demo = people == DEVICES
        canvas.text(170, top + 19, f"among {people:,}" if people > 1 else "alone", "head" if demo else "", "end")
        canvas.rectangle(186, top, max(2.0, 560 * epsilon / 4), 26, "analyzer" if demo else "chance", 2)
        words = f"{epsilon:.3g}" + (" (the demo)" if demo else "")
        canvas.text(196 + 560 * epsilon / 4, top + 19, words, "head" if demo else "")
    canvas.text(
        20, 84 + 36 * len(CROWDS) + 6, "The randomizer is the same in every row. Only the crowd grows.", "small"
    )
    return canvas.svg()


def ladder() -> str:
    """Draw the numbers of the demo's certificate, and what each of them rests on."""
    canvas = Canvas(66 + 70 * len(RUNGS) + 46, "The ladder", "Four numbers of a certificate, and who must be honest.")
    canvas.text(20, 40, "The demo's certificate, all questions of the round, δ = 10⁻⁶", "title")
    for index, (member, number, trust) in enumerate(RUNGS):
        top = 62 + 70 * index
        left = 20 + 36 * index
        canvas.rectangle(left, top, WIDTH - 40 - 36 * index, 58)
        canvas.rectangle(left, top, 128, 58, ("analyzer", "analyzer", "shuffler", "device")[index])
        canvas.text(left + 64, top + 36, f"ε ≤ {number}", "head on", "middle")
        canvas.text(left + 144, top + 24, member, "head")
        canvas.text(left + 144, top + 46, f"honest: {trust}")
    canvas.text(
        20,
        62 + 70 * len(RUNGS) + 24,
        "Each rung believes fewer parties than the one above it, and its ε is larger.",
        "small",
    )
    return canvas.svg()


NUMBERS: Mapping[str, Callable[[], str]] = MappingProxyType(
    {"randomizer": randomizer, "crowd": crowd, "amplification": amplification, "ladder": ladder}
)
"""Every picture of numbers, by the name of its file."""
