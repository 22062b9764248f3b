"""Explains in words what a δ means for the people of a round, and warns of a large one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.numbers import checked_delta
from hubbub.cli.terminal.output import progress_console
from hubbub.protos.task.task import Privacy, is_large, largest_delta


def delta_text(privacy: Privacy, reports: int) -> str:
    """Return a sentence that compares a plan's δ with the limit for that many `reports`, and gives the reason."""
    limit = f"0.1 / minimum_reports = {largest_delta(reports):g}"
    why = (
        "the promise of ε fails with a probability of at most δ, and a δ of 1 / minimum_reports would allow publishing "
        "one person's answers"
    )
    if is_large(privacy.delta, reports):
        return f"δ = {privacy.delta:g} is above the limit of {limit}: {why}; the reason given: {privacy.large_delta}"
    return f"δ = {privacy.delta:g} is within the limit of {limit}: {why}"


def full_warning(privacy: Privacy, most: int, too_weak: Sequence[str]) -> str | None:
    """Return a warning of the queries whose ε is 0 in a round of the `most` reports; None if there are none."""
    if not too_weak:
        return None
    return (
        f"warning: in a round of maximum_reports = {most:,} the certificate would state epsilon <= 0 for "
        f"{', '.join(too_weak)}: δ = {privacy.delta:g} alone allows all that is published, so it promises nothing; "
        f"choose a δ of at most {largest_delta(most):g} = 0.1 / maximum_reports, or a smaller maximum_reports"
    )


def epsilon_warning(content: Mapping[str, Any]) -> str | None:
    """Return a warning of each worthless ε in a certificate, given the sizes of its batches; None if there is none.

    An ε is worthless if it is 0, or if δ is above 1 / reports, which allows publishing one person's answers.
    """
    found = []
    delta = content["delta"]
    for query in content["queries"]:
        name, valid = query["name"], query["valid"]
        if query["epsilon_upper"] <= 0:
            found.append(f"{name} with {valid} reports states epsilon <= 0: δ = {delta:g} alone allows all of it")
        elif delta * valid > 1:
            found.append(f"{name} has {valid} reports, and δ = {delta:g} is above 1 / {valid}")
    if not found:
        return None
    return (
        f"warning: rely on no ε of round {content['round']} but that of the device alone, as this δ allows publishing "
        f"somebody's answers: {'; '.join(found)}"
    )


def check_delta(delta: float, reports: int, epsilon_upper: float | None = None) -> None:
    """Warn on stderr if a δ is large for this number of reports.

    Raises:
        AccountingError: if δ is not in (0, 1), or so large that ε is 0.
    """
    if reports < 1 or not is_large(checked_delta(delta), reports):
        return
    limit = f"{largest_delta(reports):g} = 0.1 / {reports} reports"
    if epsilon_upper is not None and epsilon_upper <= 0:
        raise AccountingError(
            f"delta = {delta:g} alone allows all that is published, so epsilon is 0 and promises nothing; choose a "
            f"delta of at most {limit}"
        )
    progress_console().print(
        f"δ = {delta:g} is above {limit}, so this ε promises little; a task with this δ must give its reason as "
        "large_delta",
        markup=False,
        soft_wrap=True,
    )
