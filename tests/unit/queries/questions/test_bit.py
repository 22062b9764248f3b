"""The digits of a number: read and checked, drawn by one rounding, and combined into its sum."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.queries.errors import AnswerError, FieldError, TaskError
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.digits import combined
from hubbub.queries.fields import Fields
from hubbub.queries.query import Query, read_question
from hubbub.queries.questions.bit import Bit, bits_of, digits_in, names_made, queries_made, stepped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from support.messages import UNKNOWN_KEY

DELAY = Number("delay", -30.0, 90.0, "minutes", digits=3)
LAW = NoiseLaw("geometric", 2**31, 4)


def query(bit: Bit, gamma: int = 2**30) -> Query:
    return Query(bit, KRandomizedResponse(2, gamma), LAW)


def test_a_number_has_a_bit_for_each_digit() -> None:
    bits = bits_of(DELAY)
    assert [bit.name for bit in bits] == ["delay-bit-1", "delay-bit-2", "delay-bit-3"]
    assert {bit.number for bit in bits} == {replace(DELAY, levels=7)} == {stepped(DELAY)}
    assert queries_made(DELAY) == 3
    assert queries_made(Histogram("theme", ("a", "b"))) == 1
    assert names_made((DELAY, Histogram("theme", ("a", "b")))) == ["delay", "theme", *(bit.name for bit in bits)]
    with pytest.raises(TaskError, match="delay is not asked by digits; give digits, such as 8"):
        bits_of(replace(DELAY, digits=None))


def test_a_bit_is_read_as_it_was_written() -> None:
    for bit in bits_of(DELAY):
        asked = query(bit)
        assert Query.read("query[0]", asked.content()) == asked
        assert (bit.answers, bit.optional, bit.parts, list(bit.sizes)) == (2, False, (bit,), [2])
        assert bit.sized(2) is bit
    with pytest.raises(TaskError, match="delay-bit-1 has 2 answers, not 3"):
        bits_of(DELAY)[0].sized(3)


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("digit", 0, "digit is 0; it must be a whole number from 1 to 3"),
        ("digit", 4, "name is 'delay-bit-1'; the query of this digit is named 'delay-bit-4'"),
        ("digits", 17, "digits is 17; it must be a whole number from 1 to 16"),
        ("digits", True, "digits is True; it must be a whole number"),
        ("name", "delay", "name is 'delay'; the query of this digit is named 'delay-bit-1'"),
        ("lower", 90.0, "lower is 90, which is not below upper = 90"),
        ("weight", 0.0, "weight is 0.0; it must be a number from"),
        ("mechanism", "unary", "randomizer is 'unary' beside digits, which are sent by krr"),
        ("of", "d" * 60, "name is 'delay-bit-1'; the query of this digit is named"),
    ],
)
def test_a_bit_that_is_none_is_refused(member: str, value: Any, message: str) -> None:
    content = query(bits_of(DELAY)[0]).content() | {member: value}
    if member == "digit" and value == 0:
        content["name"] = "delay-bit-0"
    if member == "mechanism":
        content |= {"truthful": [2**31, 2**32], "other": [1, 2**32]}
    with pytest.raises(FieldError, match=rf"query\[0\]\.{message}"):
        Query.read("query[0]", content)


DRAFT = {"name": "delay", "kind": "sum", "lower": 0, "upper": 1, "digits": 8}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"digits": 0}, "digits is 0; it must be a whole number from 1 to 16"),
        ({"digits": 17}, "digits is 17; it must be a whole number from 1 to 16"),
        ({"digits": 8.0}, "digits is 8.0; it must be a whole number"),
        ({"optional": True}, "optional is true beside digits: a digit would have a third symbol"),
        ({"randomizer": "unary"}, "randomizer is 'unary' beside digits, which are sent by krr"),
        ({"name": "d" * 57}, "name has 57 characters; with digits it may have 56"),
    ],
)
def test_digits_that_cannot_be_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError, match=rf"query\[0\]\.{message}"):
        read_question("query[0]", DRAFT | changes).check("query[0]")


def test_digits_are_of_sums_alone() -> None:
    with pytest.raises(FieldError, match=f"digits {UNKNOWN_KEY}"):
        read_question("query[0]", DRAFT | {"kind": "variance"})
    with pytest.raises(FieldError, match="kind is 'bit'; it must be 'histogram' or"):
        read_question("query[0]", DRAFT | {"kind": "bit"})
    by = [{"name": "region", "categories": ["n", "s"]}]
    grouped = {"name": "g", "kind": "grouped", "by": by, "of": {key: DRAFT[key] for key in DRAFT if key != "name"}}
    with pytest.raises(FieldError, match=r"query\[0\]\.of\.digits are given, but the sum of a group has none"):
        read_question("query[0]", grouped).check("query[0]")
    assert Number.read(Fields("query[0]", DRAFT)).digits == 8


@pytest.mark.parametrize("answer", [-40, -30.0, 0.1, 29, 90, 91.5])
def test_the_mean_of_the_drawn_digits_is_the_clipped_number(answer: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly, by one draw: the number of steps is that below, and one more with the chance that is asked for."""
    chances: list[Fraction] = []

    def asked(part: int, whole: int, _: Any) -> bool:
        chances.append(Fraction(part, whole))
        return False

    monkeypatch.setattr("hubbub.queries.questions.number.happens_in", asked)
    below = stepped(Number("x", -30.0, 90.0, digits=2)).encode(answer, lambda _: b"")
    clipped = min(max(Fraction(answer), Fraction(-30)), Fraction(90))
    assert Fraction(below) + sum(chances) == (clipped + 30) / 40
    assert len(chances) == (-30 < answer < 90)


def test_digits_of_a_number_have_its_weights() -> None:
    assert [digits_in(number, 3) for number in range(8)] == list(product((0, 1), repeat=3))
    bit = bits_of(DELAY)[1]
    assert [bit.encode(answer, lambda _: b"") for answer in bit.distinct_answers()] == [0, 1]
    for wrong in (2, True, 0.5, "1", None):
        with pytest.raises(AnswerError, match="the answer to delay-bit-2 must be 0 or 1"):
            bit.encode(wrong, lambda _: b"")
    assert bit.parse("1") == 1.0
    assert bit.truth([0, 1, 1]) == {("ones", None): 2.0}


def batch(bit: Bit, counts: tuple[int, int], dummies: int = 8, gamma: int = 2**30) -> Debiased:
    return query(bit, gamma).debiased(Tally(np.array(counts), sum(counts)), dummies)


def test_the_sum_is_the_weighted_number_of_ones() -> None:
    bits = bits_of(DELAY)
    # γ is nearly 0, and each batch has 4 dummies of a 1 in the mean: 60, 20 and 40 of 100 people have a 1.
    counts = [(44, 64), (84, 24), (64, 44)]
    found = combined(DELAY, [batch(bit, each, gamma=1) for bit, each in zip(bits, counts, strict=True)])
    answered, total, mean = (row.estimate for row in found.rows)
    assert answered is not None
    assert total is not None
    assert mean is not None
    share = (4 * 60 + 2 * 20 + 40) / 7
    assert (answered.value, answered.standard_error) == (100, 0.0)
    assert total.value == pytest.approx(-30 * 100 + 120 * share)
    assert mean.value == pytest.approx(total.value / 100)
    # The exact variances of the noise, and that of rounding at most.
    variance = 120**2 * ((16 + 4 + 1) / 49 * float(LAW.variance) + 100 / (4 * 49))
    assert total.standard_error == pytest.approx(variance**0.5, rel=1e-6)
    assert total.simultaneous is not None
    assert total.simultaneous[0] <= total.lower < total.value < total.upper <= total.simultaneous[1]
    assert (found.kind, found.unit, found.clipped_to, found.notes) == ("sum", "minutes", (-30.0, 90.0), ())


def test_a_digit_that_was_left_out_counts_as_zero_and_is_told() -> None:
    """The largest number of reports is that of the people: one of them moves the sum by no more than the range."""
    bits = bits_of(DELAY)
    whole = combined(DELAY, [batch(bit, (54, 54), gamma=1) for bit in bits])
    missing = combined(DELAY, [batch(bits[0], (54, 53), gamma=1), *(batch(bit, (54, 54), gamma=1) for bit in bits[1:])])
    before, after = whole.rows[1].estimate, missing.rows[1].estimate
    assert before is not None
    assert after is not None
    assert missing.rows[0].estimate == whole.rows[0].estimate
    assert before.value - after.value == pytest.approx(120 * 4 / 7)
    assert missing.notes == ("the digits have from 99 to 100 reports; a report that was left out counts as a digit 0",)
    with pytest.raises(ValueError, match="delay has 3 digits, but 2 batches are given; give one each"):
        combined(DELAY, [batch(bit, (54, 54)) for bit in bits[1:]])


def test_an_interval_has_possible_sums_only() -> None:
    found = combined(DELAY, [batch(bit, (108, 0)) for bit in bits_of(DELAY)]).rows
    total, mean = found[1].estimate, found[2].estimate
    assert total is not None
    assert mean is not None
    assert (total.lower, mean.lower) == (-3000, -30)
    assert total.value < total.lower


def test_every_outcome_of_reports_and_noise_has_the_true_mean_and_variance() -> None:
    """Two people, two digits, every report and every draw: unbiased, and the stated variance is the true one."""
    number = Number("x", 0.0, 3.0, digits=2)
    bits, gamma, law = bits_of(number), 2**31, NoiseLaw("geometric", 2**31, 1)
    people = (2, 3)  # whole steps, so there is no rounding
    truthful, moments, stated = 1 - gamma / 2**33, [0.0, 0.0], 0.0
    queries = [Query(bit, KRandomizedResponse(2, gamma), law) for bit in bits]
    outcomes: list[list[tuple[float, Tally]]] = []
    for place, _ in enumerate(bits):
        held = [digits_in(each, 2)[place] for each in people]
        found: Counter[int] = Counter()
        for reports in product((0, 1), repeat=2):
            chance = float(np.prod([truthful if a == b else 1 - truthful for a, b in zip(reports, held, strict=True)]))
            for drawn, weight in enumerate(law.weights):
                found[sum(reports) + drawn] += chance * weight / 2**128
        outcomes.append([(chance, Tally(np.array([4 - ones, ones]), 4)) for ones, chance in found.items()])
    for (first, one), (second, other) in product(*outcomes):
        pairs = zip(queries, (one, other), strict=True)
        total = combined(number, [each.debiased(tally, 2) for each, tally in pairs]).rows[1].estimate
        assert total is not None
        assert total.standard_error is not None
        moments[0] += first * second * total.value
        moments[1] += first * second * total.value**2
        stated += first * second * total.standard_error**2
    assert moments[0] == pytest.approx(5.0)
    # Rounding is stated at its largest, n/4 steps, and there is none here.
    assert stated - 2 / 4 == pytest.approx(moments[1] - 25, rel=1e-9)
