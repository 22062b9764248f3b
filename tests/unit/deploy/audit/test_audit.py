"""Which task an audit plays, what it refuses before it plays anything, and how it says what it found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from rich.console import Console

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.cli.plots.draw import drawn
from hubbub.cli.tables.audit import audit_document, audit_plot, print_audit
from hubbub.deploy.audit.audit import Audit, AuditedAttack, AuditOptions, _error, audited_task, check_options
from hubbub.deploy.audit.inference import AttackResult, Event
from hubbub.deploy.audit.noise import NoiseResult
from hubbub.deploy.audit.scores import Scores
from hubbub.protos.errors import UsageError
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy, Mode
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy
from hubbub.queries.questions.histogram import Histogram
from support.krr_queries import krr_query
from support.logged_tasks import demanding
from support.samples import Parties, changed, sample_task

QUERY = krr_query(Histogram("theme", ("light", "dark", "system")), 2**30)
TASK = sample_task(
    Parties.generate(),
    minimum_reports=100,
    queries=(QUERY,),
    privacy=Privacy(1.0, 1e-6, epsilon_local=5.0, honest_share=0.5, epsilon_total=20.0),
)


def test_the_task_that_is_played_promises_what_so_many_honest_people_give() -> None:
    played = audited_task(TASK, AuditOptions(participants=30, delta=0.05))
    given = epsilon_bracket(QUERY.mechanism, 30, 0.05).epsilon_upper
    assert given <= played.privacy.epsilon <= given * (1 + 1e-5)
    assert (played.minimum_reports, played.privacy.delta, played.queries) == (30, 0.05, TASK.queries)
    assert (played.privacy.honest_share, played.privacy.epsilon_total) == (1.0, None)


def test_the_admission_that_is_played_is_the_task_s_own_without_a_second_authority() -> None:
    stated = AdmissionPolicy(Mode.ENROLLED, b"s" * 32)
    for given, wanted in ((stated, ENROLLED), (AdmissionPolicy(Mode.MTLS), ENROLLED), (OPEN, OPEN)):
        assert audited_task(changed(TASK, admission=given), AuditOptions()).admission == wanted


def test_the_task_that_is_played_demands_no_log_as_it_is_in_none() -> None:
    assert audited_task(demanding(TASK), AuditOptions()) == audited_task(TASK, AuditOptions())


def test_people_and_delta_are_the_tasks_own_where_none_are_given() -> None:
    played = audited_task(TASK, AuditOptions())
    assert (played.minimum_reports, played.privacy.delta) == (100, 1e-6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (AuditOptions(confidence=1.0), "--confidence is 1.0; give a number above 0 and below 1"),
        (AuditOptions(confidence=0.0), "--confidence is 0.0"),
        (AuditOptions(delta=1.0), "--delta is 1.0; it must be at least 1e-15 and below 1"),
        (AuditOptions(delta=0.0), "--delta is 0.0"),
    ],
)
def test_options_out_of_their_limits_are_named(options: AuditOptions, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        audited_task(TASK, options)


def test_an_audit_that_could_not_fail_is_refused_with_the_rounds_that_would_do() -> None:
    options = AuditOptions(20, participants=30, delta=0.05)
    played = audited_task(TASK, options)
    with pytest.raises(UsageError, match=r"so no fault could contradict .* ask for [0-9]+ rounds") as refused:
        check_options(played, options)
    enough = int(str(refused.value).partition("ask for ")[2].partition(" ")[0])
    check_options(played, replace(options, rounds=enough))


def test_rounds_with_all_their_people_are_needed() -> None:
    played = audited_task(TASK, AuditOptions())
    with pytest.raises(UsageError, match="--rounds 100 with --under-minimum 95 leaves 5 rounds"):
        check_options(played, AuditOptions(100, under_minimum=95))


def found(attained: float, released: int = 0) -> Audit:
    played = audited_task(TASK, AuditOptions(participants=30, delta=0.05))
    scores = Scores(("counts",), np.array([[0.5], [-0.5], [1.0], [-1.0]]), np.array([True, False, True, False]))
    kinds = ((False, attained, 200), (True, 0.0, released))
    attacks = tuple(
        AuditedAttack(under_minimum, AttackResult(Event("counts", 0.0), (48, 50), (2, 50), epsilon), scores, opened)
        for under_minimum, epsilon, opened in kinds
    )
    return Audit("kiosks", SignedTask(played), AuditOptions(208, under_minimum=8), 0.9, b"", 2.0, attacks)


def said(audit: Audit) -> str:
    console = Console(width=200, highlight=False)
    with console.capture() as captured:
        print_audit(console, audit_document(audit, 1.0))
    return captured.get()


def test_a_certificate_that_is_not_beaten_is_consistent() -> None:
    document = audit_document(found(0.7), 1.0)
    asked = {"epsilon_attained": 0.7, "confidence": 0.999, "epsilon_certified": 0.9, "rounds": 208, "consistent": True}
    assert asked.items() <= document.items()
    assert "consistent: the attacker shows ε ≥ 0.7 at δ = 0.05, with confidence 0.999" in said(found(0.7))


def test_a_certificate_that_is_beaten_is_not() -> None:
    assert not found(1.1).consistent
    assert "NOT CONSISTENT: the attacker learns ε ≥ 1.1" in said(found(1.1))
    assert "the certificate states ε ≤ 0.9" in said(found(1.1))


def test_a_round_under_the_minimum_that_was_opened_is_enough() -> None:
    assert not found(0.0, released=1).consistent
    assert "1 round under the minimum was released" in said(found(0.0, released=1))


NOISY = replace(QUERY, noise=NoiseLaw.of("geometric", Fraction(3, 5), 6))


def noisy(far: int) -> Audit:
    """The audit of a query with noise, of whose counts so many are far from their center."""
    played = audited_task(changed(TASK, queries=(NOISY,)), AuditOptions(participants=30, delta=0.05))
    return replace(found(0.7), task=SignedTask(played), noise=(NoiseResult("theme", 600, 2, far, 150.0, 100),))


def test_noise_that_is_as_its_law_is_shown_with_what_would_contradict_it() -> None:
    assert noisy(140).consistent
    (row,) = audit_document(noisy(140), 1.0)["noise"]
    assert row["law"] == NOISY.noise.content()  # type: ignore[union-attr]
    assert (row["draws"], row["far"], row["far_least"], row["consistent"]) == (600, 140, 100, True)
    shown = said(noisy(140))
    assert "noise of theme: 140 of 600 counts are more than 2 from their center" in shown
    assert "150 are expected by the law, and fewer than 100 contradict it" in shown
    assert "NOT CONSISTENT" not in shown


def test_noise_that_is_less_than_its_law_is_enough() -> None:
    assert not noisy(99).consistent
    assert "NOT CONSISTENT: the noise of theme is less than its law, with confidence 0.999" in said(noisy(99))


def test_a_list_that_differs_at_its_second_delivery_is_enough() -> None:
    twice = replace(found(0.7), second_deliveries=(True, False))
    assert not twice.consistent
    assert audit_document(twice, 1.0)["second_deliveries_that_differ"] == 1
    assert "NOT CONSISTENT: a batch that was delivered again was another list" in said(twice)
    assert "delivered twice: 2 batches; the second list differed in 1" in said(twice)
    same = replace(found(0.7), second_deliveries=(True, True))
    assert same.consistent
    assert "delivered twice: 2 batches; each was the same list" in said(same)


def test_noise_has_its_share_of_the_error() -> None:
    plain, beside = (changed(TASK, queries=(query,)) for query in (QUERY, NOISY))
    options = AuditOptions(100, confidence=0.94, under_minimum=10)
    assert _error(plain, options) == pytest.approx(0.03)
    assert _error(beside, options) == pytest.approx(0.02)


def test_the_picture_has_the_certificate_and_the_attacker() -> None:
    picture = audit_plot(found(0.7))
    assert [panel.title for panel in picture.panels] == ["rounds of the certificate", "rounds under the minimum"]
    promised, seen = picture.panels[0].series
    assert promised.y[0] == pytest.approx(0.05)
    assert (seen.x[0], seen.y[0], seen.x[-1], seen.y[-1]) == (0.0, 0.0, 1.0, 1.0)
    svg = drawn(picture, "svg").decode()
    assert "certificate: ε ≤ 0.9, δ = 0.05" in svg
    assert "attacker: counts" in svg
