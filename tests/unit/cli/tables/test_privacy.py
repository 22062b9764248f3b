"""The demo's table says what its central numbers rest on."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import Terms
from hubbub.cli.tables.privacy import print_privacy
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy
from support.certificates import counts
from support.samples import Parties, sample_task

TASK = sample_task(Parties.generate(), minimum_reports=100)


@pytest.mark.slow(only=["open"])
@pytest.mark.parametrize(("admission", "assumed"), [(OPEN, True), (ENROLLED, False)], ids=["open", "enrolled"])
def test_central_numbers_that_are_assumed_are_marked_in_the_table_and_below(
    admission: AdmissionPolicy, assumed: bool
) -> None:
    out = io.StringIO()
    stated = statement(Terms.of(TASK), [counts(TASK, 0, 120)])
    print_privacy(Console(file=out, width=200), {"admission": admission.statement(), **stated})
    text = out.getvalue()
    assert ("ε ≤ if assumed" in text) is assumed
    assert ("ASSUMED, not checked. Nobody checked who submitted" in text) is assumed
    assert f"admission {admission.mode.value}: " in text
    assert admission.statement()["words"] in text
