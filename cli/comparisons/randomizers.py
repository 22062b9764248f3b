"""Runs `hubbub simulate --compare` on questions of a file: several randomizers at several numbers of reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub.cli.options.data_files import print_notes
from hubbub.cli.terminal.output import console, print_json
from hubbub.cli.terminal.progress import progress_bars
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.planning.simulate.dataset import Dataset
    from hubbub.protos.task.task import Privacy
    from hubbub.queries.questions.question import Question

SIZES = (1000, 10_000, 100_000)
"""Numbers of reports to compare at by default, as far as the data has rows."""


def kinds_of(compare: str) -> list[str]:
    """Return the kinds of randomizers in a list of them, each once."""
    from hubbub.queries.registry import RANDOMIZERS

    named = list(RANDOMIZERS) if compare == "all" else [word.strip() for word in compare.split(",")]
    for kind in named:
        if kind not in RANDOMIZERS:
            raise UsageError(f"--compare {kind!r}: the randomizers are {', '.join(RANDOMIZERS)}, or all")
    return list(dict.fromkeys(named))


def sizes_of(text: str | None, devices: int) -> list[int]:
    """Return the numbers of reports to compare at, in order."""
    from hubbub.accountant.written_numbers import several, whole

    if text is None:
        return [size for size in SIZES if size < devices] + ([devices] if devices <= SIZES[-1] else [])
    try:
        sizes = sorted(set(several(text, whole)))
    except ValueError as error:
        raise UsageError(f"--reports {text!r} is not N,N, such as 1000,10000 or 1e3,1e4") from error
    if sizes[0] < 2 or sizes[-1] > devices:
        raise UsageError(f"--reports {text!r}: give numbers from 2 to {devices}, the number of rows in the data")
    return sizes


def compare_randomizers(
    dataset: Dataset, privacy: Privacy, kinds: Sequence[str], sizes: Sequence[int], repeat: int, as_json: bool
) -> list[dict[str, Any]]:
    """Return the comparison of the randomizers as JSON, for each question of the data."""
    print_notes(dataset)
    return [
        _compared(dataset, place, privacy, kinds, sizes, repeat, as_json) for place in range(len(dataset.questions))
    ]


def _compared(
    dataset: Dataset,
    place: int,
    privacy: Privacy,
    kinds: Sequence[str],
    sizes: Sequence[int],
    repeat: int,
    as_json: bool,
) -> dict[str, Any]:
    from hubbub.cli.tables.comparison import comparison_document
    from hubbub.planning.simulate.compare import contenders, run

    # Randomizers are compared by one message of each person, which digits are not: these are among the alternatives.
    stated = dataset.questions[place]
    question = _in_one_message(stated)
    values = dataset.answers[question.name].to_pylist()
    with progress_bars(as_json) as bars:
        planning = bars.add_task(f"{question.name}: planning", total=None)
        planned = contenders(question, kinds, sizes, privacy)
        bars.update(planning, total=1, completed=1)
        asked = sum(each.reports for each in planned if each.query is not None) * repeat
        bar = bars.add_task(f"{question.name}: devices encode and randomize", total=asked)
        found = [
            run(each, values, repeat, privacy.dummies, lambda devices: bars.advance(bar, devices)) for each in planned
        ]
    return comparison_document(question.name, question.kind, privacy, repeat, found) | _alternatives(
        stated, privacy, sizes[-1], kinds
    )


def _in_one_message(question: Question) -> Question:
    from hubbub.queries.questions.number import Number

    return replace(question, digits=None) if isinstance(question, Number) else question


def _alternatives(question: Question, privacy: Privacy, reports: int, kinds: Sequence[str]) -> dict[str, Any]:
    """Return what else might be added to the first of the randomizers, for the largest number of reports."""
    from hubbub.planning.alternatives import compare
    from hubbub.planning.comparison import PrivacyTarget

    asked: Any = question
    aim = PrivacyTarget(privacy.epsilon, privacy.delta, reports, privacy.epsilon_local, privacy.honest_share)
    (rows,) = compare([replace(asked, randomizer=kinds[0])], aim, by_digits=True)
    return {"alternatives": {"randomizer": kinds[0], "reports": reports, "rows": [each.as_json() for each in rows]}}


def give(documents: Sequence[dict[str, Any]], plot: Path | None, as_json: bool) -> None:
    """Write the plot, and print the comparisons."""
    from hubbub.cli.tables.comparison import comparison_plot, print_comparison

    if plot is not None:
        from hubbub.cli.plots.draw import check_drawable, drawn
        from hubbub.deploy.files import save

        if len(documents) != 1:
            raise UsageError(f"--plot draws one question, and {len(documents)} are compared; name one column")
        save(plot, drawn(comparison_plot(documents[0]), check_drawable(plot, "--plot")))
    if as_json:
        print_json({"questions": list(documents)})
        return
    for document in documents:
        print_comparison(console(), document)
        _print_alternatives(document)
    if plot is not None:
        console().print(f"wrote {plot}", markup=False, soft_wrap=True)


def _print_alternatives(document: dict[str, Any]) -> None:
    """Print what else might be added; strategies over time have no alternatives."""
    from hubbub.cli.tables.planned_errors import print_alternatives
    from hubbub.planning.alternatives import Alternative

    if "alternatives" not in document:
        return
    found = document["alternatives"]
    title = f"{document['name']}, {found['randomizer']}, {found['reports']:,} reports"
    print_alternatives(console(), {title: [Alternative.read(row) for row in found["rows"]]}, None)
