"""What a δ means for the people of a round, in words: why a plan's is allowed, and what a large one leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.numbers import checked_delta
from hubbub.cli.output import progress_console
from hubbub.protos.task.task import Privacy, is_large, largest_delta


def delta_text(privacy: Privacy, reports: int) -> str:
    """Say what the δ of a plan for at least that many `reports` is held against, and why."""
    limit = f"{largest_delta(reports):g} = 0.1 / minimum_reports"
    why = "with probability δ a person is not promised ε, and 1 / minimum_reports would allow publishing one of them"
    if is_large(privacy.delta, reports):
        return f"δ = {privacy.delta:g} is above {limit}: {why}; the task says it wants more: {privacy.large_delta}"
    return f"δ = {privacy.delta:g} is at most {limit}: {why}"


def full_warning(privacy: Privacy, most: int, too_weak: Sequence[str]) -> str | None:
    """Return a warning of the queries whose ε is 0 in a round of the `most` reports; None where there are none."""
    if not too_weak:
        return None
    return (
        f"warning: in a round of maximum_reports = {most:,} the certificate would state epsilon <= 0 for "
        f"{', '.join(too_weak)}: δ = {privacy.delta:g} alone allows whatever is told there, so it promises nothing; "
        f"choose a δ of at most {largest_delta(most):g} = 0.1 / maximum_reports, or a smaller maximum_reports"
    )


def epsilon_warning(content: Mapping[str, Any]) -> str | None:
    """Return a warning of a certificate's ε that is worth nothing, held against its batches; None where there is none.

    That is an ε of 0, or a δ above 1 / reports, which allows publishing one person's answers.
    """
    found = []
    for query in content["queries"]:
        name, delta, valid = query["name"], query["delta"], query["valid"]
        if query["epsilon_upper"] <= 0:
            found.append(f"{name} of {valid} reports states epsilon <= 0, as δ = {delta:g} alone allows what is told")
        elif delta * valid > 1:
            found.append(f"{name} has {valid} reports, and δ = {delta:g} is above 1 / {valid}")
    if not found:
        return None
    return f"warning: round {content['round']} promises nothing that its δ does not take back: {'; '.join(found)}"


def check_delta(delta: float, reports: int, epsilon_upper: float | None = None) -> None:
    """Say on stderr that a δ is large for so many reports, where it is.

    Raises:
        AccountingError: where δ is not in (0, 1), or so large that ε is 0.
    """
    if reports < 1 or not is_large(checked_delta(delta), reports):
        return
    limit = f"{largest_delta(reports):g} = 0.1 / {reports} reports"
    if epsilon_upper is not None and epsilon_upper <= 0:
        raise AccountingError(
            f"delta = {delta:g} alone allows whatever is told here, so epsilon is 0 and promises nothing; choose a "
            f"delta of at most {limit}"
        )
    progress_console().print(
        f"δ = {delta:g} is above {limit}: such an ε promises little, and a task states it only with large_delta, the "
        "words why",
        markup=False,
        soft_wrap=True,
    )
