"""A task whose noise by itself does not keep its promise: who signs it, or runs it, reads who else must be honest."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import structlog

from hubbub.accountant.certificate.alone import keeps_alone, weak_noise
from hubbub.accountant.certificate.minimum import check_minimum
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import UnmetTarget
from hubbub.accountant.mechanisms import KRR, NoiseLaw, WithNoise
from hubbub.pages.dictionary.entry import Entry
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy, Task
from hubbub.queries.questions.histogram import Histogram
from hubbub.shuffler.tasks import load_signed
from support.cli import hubbub_here
from support.krr_queries import krr_query
from support.samples import Parties, sample_task, signed

PARTIES = Parties.generate()
PLAIN = krr_query(Histogram("carrier", ("AA", "B6", "UA")), 2**24)
ENOUGH, WEAK = (NoiseLaw.of("geometric", Fraction(share), reach) for share, reach in (("0.6", 40), ("0.3", 40)))
"""Each hides a person at δ = 1e-6; the first gives ε ≤ 1.03, the second 2.4."""


def task(*laws: NoiseLaw | None, epsilon: float = 1.1) -> Task:
    """A task of as many queries as laws, whose crowd of 100,000 keeps its ε."""
    queries = [replace(PLAIN, noise=law, question=Histogram(f"q{at}", ("a", "b", "c"))) for at, law in enumerate(laws)]
    privacy = Privacy(epsilon, 1e-6, 40.0)
    return sample_task(PARTIES, minimum_reports=100_000, queries=tuple(queries), privacy=privacy)


def signing(folder: Path, of: Task, *more: str) -> str:
    """What is printed when the shuffler signs it."""
    key, path = folder / "key.pem", folder / "task.json"
    PARTIES.shuffler.save(key)
    path.write_bytes(SignedTask(of).signed_by(PARTIES.operator).encode())
    ran = hubbub_here("sign", path, "--key", key, *more)
    assert ran.status == 0, ran.err
    return ran.out


PEOPLE = "if the shuffler and everyone who answers are honest, and at least 100,000 reports of each batch are valid"
LIARS = "if the shuffler is honest; everybody else may lie and work together, the analyzer too"


def test_noise_that_keeps_the_promise_asks_for_nobody_else(tmp_path: Path) -> None:
    first, second, *_ = signing(tmp_path, task(ENOUGH)).splitlines()
    assert first.endswith(LIARS)
    assert second.startswith("  budget")
    assert (
        hubbub_here("sign", tmp_path / "task.json", "--key", tmp_path / "key.pem", "--json").json["weak_noise"] is None
    )


@pytest.mark.parametrize("laws", [(WEAK,), (ENOUGH, ENOUGH), (ENOUGH, None)], ids=["weak", "together", "one without"])
def test_noise_that_does_not_is_told_with_who_must_be_honest(tmp_path: Path, laws: tuple[NoiseLaw | None, ...]) -> None:
    """Also if each query's law would be enough by itself: a person answers all."""
    found = task(*laws)
    first, second, *_ = signing(tmp_path, found).splitlines()
    assert PEOPLE in first
    assert LIARS not in first
    said = weak_noise(Terms.of(found), {each.name: each.mechanism for each in found.queries})
    assert second == said
    assert second.startswith("the shuffler's noise by itself keeps only ε ≤ ")
    assert f"in a round: ε ≤ 1.1 holds {PEOPLE}" in second


def test_one_sentence_says_whose_noise_it_is_in_a_chain() -> None:
    terms = replace(Terms.of(task(WEAK)), shufflers=3)
    said = weak_noise(terms, {"q0": task(WEAK).queries[0].mechanism}) or ""
    assert said.startswith("the noise of one shuffler by itself keeps only ε ≤ ")
    assert "if one of the 3 shufflers and everyone who answers are honest" in said


def test_nothing_is_claimed_for_noise_where_nothing_computes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command's own extra brings no numbers: it signs all the same, and promises what holds in any case."""
    monkeypatch.setattr("hubbub.planning.task_words.NUMERICS", ("no_such_module",))
    first, second, *_ = signing(tmp_path, task(ENOUGH)).splitlines()
    assert PEOPLE in first
    assert second.startswith("to say what the shuffler's noise keeps by itself, this command needs the accountant")
    assert "pip install 'hubbub[accountant]'" in second
    # A task without noise needs none of it.
    (plain := tmp_path / "plain").mkdir()
    assert signing(plain, task(None)).splitlines()[1].startswith("  budget")


def test_the_page_for_people_promises_no_more_than_noise_keeps() -> None:
    weak, enough = (Entry.of(signed(task(law), PARTIES)).promise for law in (WEAK, ENOUGH))
    assert PEOPLE in weak
    assert enough.endswith(LIARS)


def test_a_shuffler_that_runs_such_a_task_logs_it(tmp_path: Path) -> None:
    for name, law in (("weak", WEAK), ("enough", ENOUGH)):
        (tmp_path / f"{name}.json").write_bytes(signed(replace(task(law), name=name), PARTIES).encode())
    with structlog.testing.capture_logs() as logs:
        load_signed([tmp_path], PARTIES.operator.public, PARTIES.shuffler.public)
    (line,) = logs
    assert (line["event"], line["task"]) == ("noise alone does not keep a task's promise", "weak")
    assert line["why"].startswith("the shuffler's noise by itself keeps only ε ≤ ")


@pytest.mark.parametrize("epsilon", [1.0, 5.0, 7.9])
def test_a_law_that_delta_cannot_pay_is_refused_by_name(epsilon: float) -> None:
    """At δ = 1e-6 an end that is drawn once in thousands shows the report."""
    short = WithNoise(KRR.from_local_epsilon(3, 8.0), NoiseLaw.of("geometric", Fraction(3, 5), 12))
    terms = Terms(epsilon, 1e-6, 40.0, 1.0, 10**6)
    with pytest.raises(UnmetTarget, match="noise of a geometric law of reach 12 takes less than 1 % off") as told:
        check_minimum(terms, [short])
    assert "at delta 1e-06: it draws each end of the law with probability 0.000545" in str(told.value)
    assert "give the law a longer reach, or leave the noise out" in str(told.value)
    assert not keeps_alone(terms, [short])


def test_a_law_that_need_not_hide_anybody_is_not_refused() -> None:
    """Where the randomizer alone keeps the promise, planning takes the least noise that there is."""
    least = WithNoise(KRR.from_local_epsilon(3, 0.5), NoiseLaw.of("geometric", Fraction(1, 2**18), 1))
    check_minimum(Terms(1.0, 1e-6, 1.0, 1.0, 1000), [least])
    assert keeps_alone(Terms(1.0, 1e-6, 1.0, 1.0, 1000), [least])
