"""The demo's table says what its central numbers rest on."""

from __future__ import annotations

import io
import re
from math import exp

import pytest
from rich.console import Console

from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import Terms
from hubbub.cli.tables.privacy import print_privacy, promise
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


@pytest.mark.parametrize("assumed", [False, True])
@pytest.mark.parametrize("epsilon", [1e-9, 0.375162, 1.0, 8.0, 40.0])
def test_a_promise_is_one_sentence_that_says_no_less_than_was_certified(epsilon: float, assumed: bool) -> None:
    history = [{"round": 0}, {"round": 1}]
    numbers = {"epsilon_upper": epsilon, "delta": 1e-6}
    said = promise(
        {
            "admission": {"rests_on": "assumption" if assumed else "tickets"},
            "honest_share": 0.5,
            "round_total": {"epsilon_upper": epsilon / 2, "delta": 1e-6},
            "all_rounds": {**numbers, "history": history},
        }
    )
    stated = re.match(r"Everyone in the batch keeps ε ≤ (\S+) at δ = 1e-06 over 2 rounds, ", said)
    factor = re.search(r"at most (\S+) times as likely \(plus δ\)\.$", said)
    assert stated is not None
    assert factor is not None
    assert epsilon <= float(stated[1]) <= epsilon * 1.001
    assert exp(epsilon) <= float(factor[1].replace(",", "")) <= exp(epsilon) * 1.0011
    assert ("if 0.5 of the reports are people's (ASSUMED, not checked)" in said) is assumed
    assert ("proven" in said) is not assumed
