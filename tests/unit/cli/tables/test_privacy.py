"""The demo's table and its closing text say who must be honest for which ε."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from math import exp

import pytest
from rich.console import Console

from hubbub.accountant.certificate.ladder import ladder_words
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.mechanisms import KRR
from hubbub.cli.tables.privacy import meaning, plain_promise, print_privacy
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy
from support.certificates import counts
from support.samples import Parties, sample_task

TASK = sample_task(Parties.generate(), minimum_reports=100)


@pytest.mark.parametrize("admission", [OPEN, ENROLLED], ids=["open", "enrolled"])
def test_the_ladder_and_who_was_let_in_are_below_the_table(admission: AdmissionPolicy) -> None:
    out = io.StringIO()
    stated = statement(Terms.of(replace(TASK, admission=admission)), [counts(TASK, 0, 120)])
    said = admission.statement(noise=False)
    print_privacy(Console(file=out, width=400), {"admission": said, **stated})
    lines = out.getvalue().splitlines()
    heading = lines.index("privacy of each person whose device is honest, in this round, at δ = 0.01:")
    epsilon = f"{stated['round_total']['epsilon_upper']:.6g}"
    assert lines[heading + 1].startswith(f"  ε ≤ {epsilon} if the shuffler, the analyzer and ")
    assert ("nobody checked who submitted" in lines[heading + 1]) is (admission is OPEN)
    assert lines[heading - 1].startswith(
        "at δ = 0.01: if everybody is honest, ε ≤ is proven by the named bound, and ε ≥ "
    )
    assert "(unknown: no such attack is known)" in lines[heading - 1]
    assert lines[-1] == f"admission {admission.mode.value}: {said['words']}"


@pytest.mark.parametrize("epsilon", [1e-9, 0.375162, 1.0, 8.0, 40.0])
def test_a_promise_says_no_less_than_was_certified(epsilon: float) -> None:
    words = ladder_words(Terms.of(TASK), {"site": KRR.from_numerator(4, 2**28)}, 2)
    stated_twice = {
        "delta": 1e-6,
        "ladder": words,
        "round_total": {"epsilon_upper": epsilon / 2, "epsilon_local": epsilon},
        "all_rounds": {
            "epsilon_upper": epsilon,
            "epsilon_local": 2 * epsilon,
            "history": [{"round": 0}, {"round": 1}],
        },
    }
    means, whole = meaning(stated_twice), plain_promise(stated_twice)
    said = re.fullmatch(r"Everyone here, over 2 rounds, is \((\S+), (\S+)\)-differentially private (.*)\.", whole)
    assert said is not None
    assert epsilon <= float(said[1]) <= 1.001 * epsilon
    assert (float(said[2]), said[3]) == (1e-6, words["epsilon_upper"])
    stated = re.match(r"ε ≤ (\S+) means: ", means)
    factor = re.search(r"at most (\S+) times as likely \(plus δ\)\.$", means)
    assert stated is not None
    assert factor is not None
    assert stated[1] == f"{epsilon:.6g}"
    assert exp(epsilon) <= float(factor[1].replace(",", "")) <= exp(epsilon) * 1.0011
