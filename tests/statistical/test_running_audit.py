"""`hubbub audit`: right services are consistent with their certificates, and each broken part is caught.

A right system is accused with probability `FALSE_ALARM` at most, which is what the confidence leaves. How likely a
broken part is caught is computed for each from the exact law of the event that gives it away, judged on half of the
rounds: see `power`. Randomness is the operating system's, so these numbers are those of every run.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.client.device import DeviceReceipt
from hubbub.deploy.audit.audit import Audit, AuditOptions, AuditParts, audited_task, run
from hubbub.deploy.audit.inference import epsilon_shown
from hubbub.deploy.audit.noise import _least, _share, beyond, distances
from hubbub.deploy.audit.participants import REPEATED_SUBMISSIONS, Participants, Victim
from hubbub.protos.identity.keys import Role
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities, Privacy, Task
from hubbub.protos.transport.channels import TLS
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.sampling import Random
from support import faulty_services
from support.flooding import flood
from support.krr_queries import krr_query
from support.samples import MOST, changed
from support.thoroughness import EXHAUSTIVE, usually

FALSE_ALARM = 1e-6
"""Largest probability that the right system is accused here."""

CONFIDENCE = 0.99
"""With which broken parts are caught."""

LONG = pytest.mark.exhaustive
"""More than a hundred rounds of running services. A usual run has fewer rounds for right noise, noise that is drawn
anew and batches that are too small; what rounds show is judged in tests/unit/deploy/audit."""

FEW = 0.5
"""The confidence of few rounds, for what is found whatever it is."""

ROUNDS = 128
DELTA = 0.05
FIRST, SECOND = "yes", "no"


def task(gamma: Fraction, dummies: int) -> Task:
    """One question with two answers, for two people: what hides the victim is γ, or the dummies."""
    query = krr_query(Histogram("seen", (FIRST, SECOND)), int(gamma * 2**32))
    privacy = Privacy(1.0, DELTA, epsilon_local=8.0, dummies=dummies)
    identities = Identities(b"operator", b"shuffler", b"analyzer")
    return Task("small", Schedule(0, 3600, 0, 1), 2, privacy, (query,), identities, OPEN, MOST)


HIDDEN_BY_DUMMIES = task(Fraction(1, 50), 32)
HIDDEN_BY_CHANCE = task(Fraction(4, 5), 0)


def audited(asked: Task, folder: Path, options: AuditOptions, parts: AuditParts | None = None) -> Audit:
    return asyncio.run(run(audited_task(asked, options), options, folder, parts=parts))


def shuffler(fault: str) -> AuditParts:
    return AuditParts({Role.SHUFFLER: faulty_services.program(fault, "shuffler")})


def both(fault: str) -> AuditParts:
    return AuditParts({role: faulty_services.program(fault, role.value) for role in (Role.SHUFFLER, Role.ANALYZER)})


def power(right: float, wrong: float, certified: float, judged: int = ROUNDS // 4) -> float:
    """The probability that an event of these rates is shown to beat the certificate."""
    seen = np.arange(judged + 1)
    masses = stats.binom.pmf(seen, judged, right), stats.binom.pmf(seen, judged, wrong)
    shown = [epsilon_shown((np.full(judged + 1, hits), judged), (seen, judged), DELTA, 1 - CONFIDENCE) for hits in seen]
    return float(masses[0] @ (np.array(shown) > certified) @ masses[1])


@LONG
def test_the_right_system_is_consistent(tmp_path: Path) -> None:
    found = audited(HIDDEN_BY_DUMMIES, tmp_path, AuditOptions(128, confidence=1 - FALSE_ALARM, under_minimum=4))
    assert found.consistent
    assert found.attained <= found.certified < found.visible
    assert [each.opened for each in found.attacks] == [124, 0]
    assert found.released_under_minimum == 0


@LONG
def test_an_order_that_is_kept_is_caught(tmp_path: Path) -> None:
    """The victim's report is the first, so its place gives it away. Missed with probability 10⁻⁸."""
    options = AuditOptions(ROUNDS, confidence=CONFIDENCE, under_minimum=0)
    found = audited(HIDDEN_BY_DUMMIES, tmp_path, options, shuffler("keep_order"))
    assert power(0.99, 0.01, found.certified) > 1 - 1e-8
    assert not found.consistent
    assert found.attained > found.certified
    assert found.attacks[0].shown.event.score == "place 0"


@LONG
def test_dummies_that_the_shuffler_knows_are_caught(tmp_path: Path) -> None:
    """Only the other person's γ = 0.02 is left to hide the victim: 0.99 against 0.02. Missed with probability 10⁻⁸."""
    options = AuditOptions(ROUNDS, confidence=CONFIDENCE, under_minimum=0)
    found = audited(HIDDEN_BY_DUMMIES, tmp_path, options, shuffler("know_dummies"))
    assert power(0.99, 0.02, found.certified) > 1 - 1e-8
    assert not found.consistent


# tests/unit/verification/test_certificate.py refuses a batch that has fewer dummies than its task.
@pytest.mark.exhaustive
def test_dummies_that_are_left_out_are_in_no_certificate_that_verifies(tmp_path: Path) -> None:
    """Whatever the analyzer overlooks as it takes a batch: what it counts beside dummies is bound to the task's."""
    options = AuditOptions(10, confidence=FEW, under_minimum=0)
    with pytest.raises(Refusal, match=r"the batch has 0 dummies, but task .* has 32"):
        audited(HIDDEN_BY_DUMMIES, tmp_path, options, both("leave_dummies_out"))


@LONG
def test_a_biased_randomizer_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices draw with a fortieth of γ, that is 0.02: 0.99 against 0.02. Missed with probability 10⁻⁸."""
    right = KRandomizedResponse.randomize

    def biased(self: KRandomizedResponse, symbol: int, random: Random) -> bytes:
        return right(KRandomizedResponse(self.symbols, self.gamma // 40), symbol, random)

    monkeypatch.setattr(KRandomizedResponse, "randomize", biased)
    found = audited(HIDDEN_BY_CHANCE, tmp_path, AuditOptions(ROUNDS, confidence=CONFIDENCE, under_minimum=0))
    assert power(0.99, 0.02, found.certified) > 1 - 1e-8
    assert not found.consistent


class Forgetful(Victim):
    """Broken: a device that does not know itself again, and draws anew whenever it is asked."""

    async def submit(self, answers: Mapping[str, Any], *args: Any, **options: Any) -> DeviceReceipt:
        self._work.name = secrets.token_hex(8)
        return await super().submit(answers, *args, **options)


@LONG
def test_retries_that_are_randomized_anew_are_caught(tmp_path: Path) -> None:
    """Twelve reports of the victim's, all of its answer, are seen among 32 dummies. Missed with probability 10⁻⁸.

    More rounds than elsewhere, as the event that is chosen on half of them need not be the best: of 96, two in 8,000
    simulated audits missed it, of 128 none in 8,000. The miss falls by a factor of 70 or more with each 32 rounds.
    """
    options = AuditOptions(rounds := 192, confidence=CONFIDENCE, under_minimum=0)
    found = audited(HIDDEN_BY_DUMMIES, tmp_path, options, AuditParts(victim=Forgetful))
    # The mean number of "yes" is 28 or 16, and half of them lies between.
    rates = _more_say_yes(22, 0.99), _more_say_yes(22, 0.01)
    assert power(*rates, found.certified, rounds // 4) > 1 - 1e-8
    assert not found.consistent


def _more_say_yes(threshold: int, chance: float) -> float:
    """P[more than `threshold` reports say "yes"], where each of the victim's does with this chance."""
    victim = stats.binom.pmf(np.arange(REPEATED_SUBMISSIONS + 1), REPEATED_SUBMISSIONS, chance)
    other, dummies = np.array([0.99, 0.01]), stats.binom.pmf(np.arange(33), 32, 0.5)
    return float(np.convolve(np.convolve(victim, other), dummies)[threshold + 1 :].sum())


def noisy(gamma: Fraction, law: NoiseLaw) -> Task:
    """One question with three answers, for two people: what hides the victim is the noise."""
    query = replace(krr_query(Histogram("seen", ("yes", "no", "unsure")), int(gamma * 2**32)), noise=law)
    return replace(task(gamma, 0), queries=(query,))


LAW = NoiseLaw.of("geometric", Fraction(4, 5), 14)
HIDDEN_BY_NOISE = noisy(Fraction(1, 50), LAW)
"""Two people's reports are their answers nearly always, so that counts are far from their middle by the noise alone."""


NOISY = AuditOptions(128, confidence=CONFIDENCE, under_minimum=0)


def missed(law: NoiseLaw) -> float:
    """The probability that noise of this law, around the right middle, is not caught: that at the best distance.

    Exact: both people's reports are enumerated, and given these the draws are independent.
    """
    query = HIDDEN_BY_NOISE.queries[0]
    share, draws = _share(HIDDEN_BY_NOISE, query, (1 - CONFIDENCE) / 2), 3 * NOISY.rounds
    needed = {distance: _least(draws, beyond(LAW, distance), share) for distance in distances(LAW)}
    return min(_often(law, distance, least) for distance, least in needed.items())


def _often(law: NoiseLaw, distance: int, least: int) -> float:
    """The probability that so many counts at least are far from the right middle."""
    query = HIDDEN_BY_NOISE.queries[0]
    own = [[float(p) for p in query.randomizer.mechanism.law(symbol)] for symbol in (0, 2)]
    masses, one = np.ones(1), np.zeros(4)
    for reports in product(range(3), repeat=2):
        shifts = [reports.count(symbol) - (symbol in (0, 2)) for symbol in range(3)]
        hits = np.ones(1)
        for shift in shifts:
            chance = _far(law, distance, shift)
            hits = np.convolve(hits, (1 - chance, chance))
        one += own[0][reports[0]] * own[1][reports[1]] * hits
    for _ in range(NOISY.rounds):
        masses = np.convolve(masses, one)
    return float(masses[least:].sum())


def _far(law: NoiseLaw, distance: int, shift: int) -> float:
    masses = [weight / 2**128 for weight in law.weights]
    return sum(mass for z, mass in enumerate(masses) if abs(z + shift - law.reach) > distance)


def test_right_noise_is_consistent_and_a_batch_that_is_asked_for_again_is_the_same(tmp_path: Path) -> None:
    """So few rounds as a usual run has may accuse the right system by chance, so what they show is not judged."""
    rounds, confidence = usually(28, 132), 1 - FALSE_ALARM if EXHAUSTIVE else FEW
    found = audited(HIDDEN_BY_NOISE, tmp_path, AuditOptions(rounds, confidence=confidence, under_minimum=4))
    (noise,) = found.noise
    assert noise.draws == 3 * (rounds - 4)
    assert found.second_deliveries == (True,) * ((rounds - 4) // 8)
    assert [each.opened for each in found.attacks] == [rounds - 4, 0]
    assert found.certified < found.visible
    if EXHAUSTIVE:
        assert found.consistent
        assert found.attained <= found.certified
        assert 0 < noise.least <= noise.far


@LONG
@pytest.mark.parametrize("fault", ["draw_no_noise", "draw_the_middle"])
def test_noise_that_is_not_drawn_is_caught_by_the_victim_and_by_the_counts(tmp_path: Path, fault: str) -> None:
    """Only γ = 0.02 is left to hide the victim: 0.98 against 0.02. Missed with probability 10⁻⁶."""
    found = audited(HIDDEN_BY_NOISE, tmp_path, NOISY, shuffler(fault))
    assert power(0.98, 0.02, found.certified, NOISY.rounds // 4) > 1 - 1e-6
    assert not found.noise[0].consistent
    assert found.attained > found.certified
    assert not found.consistent


@LONG
@pytest.mark.parametrize(
    ("fault", "drawn"),
    [
        ("draw_half_the_reach", NoiseLaw.of("geometric", Fraction(4, 5), 7)),
        ("draw_a_narrower_law", NoiseLaw("geometric", LAW.parameter**2 >> 32, 14)),
    ],
)
def test_too_little_noise_is_caught(tmp_path: Path, fault: str, drawn: NoiseLaw) -> None:
    """Counts that are far from the middle are too few. Missed with probability 10⁻⁶."""
    found = audited(HIDDEN_BY_NOISE, tmp_path, NOISY, shuffler(fault))
    (noise,) = found.noise
    assert missed(drawn) < 1e-6
    assert not noise.consistent
    assert not found.consistent


def test_noise_that_is_drawn_anew_for_a_second_delivery_is_caught(tmp_path: Path) -> None:
    """Two lists of sealed reports are never the same by chance."""
    options = AuditOptions(24, confidence=FEW, under_minimum=0)
    found = audited(HIDDEN_BY_NOISE, tmp_path, options, shuffler("draw_anew"))
    assert found.second_deliveries == (False,) * 3
    assert not found.consistent


class Flood(Participants):
    """Broken: everyone but the victim is made up by the attacker, and reports what it chose."""

    async def others_answer(self, task: SignedTask, _others: Mapping[str, Any], count: int) -> None:
        answers = await flood(self.pipeline.shuffler, TLS(self.pipeline.authority), task.task, count)
        refused = [answer for answer in answers if isinstance(answer, Refusal)]
        if refused:
            raise refused[0]


FLOODED = AuditOptions(224, confidence=CONFIDENCE, under_minimum=0)


def crowded(admission: AdmissionPolicy) -> Task:
    """The same question for a hundred people, who hide the victim well if they are people."""
    return changed(task(Fraction(1, 8), 0), admission=admission, minimum_reports=100)


@LONG
def test_a_flood_in_an_open_task_is_caught(tmp_path: Path) -> None:
    """The victim's own γ is all that is left to hide it: 15/16 against 1/16. Missed with probability 10⁻⁷."""
    found = audited(crowded(OPEN), tmp_path, FLOODED, AuditParts(participants=Flood))
    assert power(15 / 16, 1 / 16, found.certified, FLOODED.rounds // 4) > 1 - 1e-7
    assert not found.consistent


def test_a_flood_in_an_enrolled_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as caught:
        audited(crowded(ENROLLED), tmp_path, FLOODED, AuditParts(participants=Flood))
    assert caught.value.reason is Reason.NOT_ENROLLED


# tests/unit/deploy/audit/test_audit.py judges what was released under the minimum.
@pytest.mark.exhaustive
def test_a_batch_under_the_minimum_is_caught(tmp_path: Path) -> None:
    """One that is released is enough, whatever its numbers are."""
    options = AuditOptions(20, confidence=FEW, under_minimum=4)
    found = audited(HIDDEN_BY_CHANCE, tmp_path, options, both("release_few"))
    assert found.released_under_minimum == 4
    assert not found.consistent
