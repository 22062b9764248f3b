"""A count is the sum of its nodes, and its error the formula's."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hubbub.accountant.mechanisms import NoiseLaw, TreeNodes
from hubbub.accountant.mechanisms.noise_law import ChainNoise
from hubbub.queries.longitudinal.over_rounds import Batch
from hubbub.queries.longitudinal.tree import SendingNodes
from hubbub.queries.randomizers.randomizer import Tally, beside_noise

SIGNED = SendingNodes(TreeNodes(8, 2, 2**30, 2**29))
RISING = SendingNodes(TreeNodes(8, 1, 2**30, 2**29))


def mean_batch(sending: SendingNodes, plus: int, minus: int, people: int, dummies: int = 0) -> Batch:
    """The counts that are expected where so many people's values are +1 and −1, and dummies come besides."""
    law, values = sending.mechanism.node.law, sending.mechanism.node.values
    held = {1: plus, 0: people - plus - minus, -1: minus}
    counts = [
        sum(held[value] * law[row][column] for row, value in enumerate(values)) + dummies // len(values)
        for column in range(len(values))
    ]
    assert all(count == int(count) for count in counts)
    return Batch(Tally(np.array([int(count) for count in counts]), people + dummies), dummies)


@pytest.mark.parametrize("dummies", [0, 6 * 1024])
def test_a_count_is_the_sum_of_its_nodes_with_the_formulas_error(dummies: int) -> None:
    for sending, minus in ((SIGNED, 4 * 1024), (RISING, 0)):
        whole, last = (mean_batch(sending, plus, minus, 64 * 1024, dummies) for plus in (16 * 1024, 8 * 1024))
        # [1, 6] is the node that ends with period 4 and the one that ends with period 6.
        count, answered, *_ = sending.rows(5, {3: whole, 5: last, 4: last})
        assert count.estimate is not None
        assert answered.estimate is not None
        assert count.estimate.value == pytest.approx(24 * 1024 - 2 * minus)
        assert answered.estimate.value == 64 * 1024
        node = sending.mechanism.node
        variance = sum(float(node.variance(64 * 1024, plus * 1024 + minus)) for plus in (16, 8))
        each = np.var(node.values) / float(1 - node.blanket) ** 2
        assert count.estimate.standard_error == pytest.approx(math.sqrt(variance + 2 * dummies * each), rel=1e-3)


LAW = NoiseLaw("geometric", 2**31, 3)


@pytest.mark.parametrize("shufflers", [1, 2])
@pytest.mark.parametrize("sending", [SIGNED, RISING])
def test_noise_changes_no_count_on_average_and_adds_the_stated_variance(sending: SendingNodes, shufflers: int) -> None:
    """All draws of one node, weighted by their chances: the mean is that without noise, and the variance as stated."""
    noise = ChainNoise(LAW, shufflers)
    people, sides = 64 * 1024, sending.symbols - 1
    plain = mean_batch(sending, 8 * 1024, 0, people)
    truth, law = sending.rows(0, {0: plain})[0].estimate, beside_noise(sending, LAW)
    assert truth is not None
    mean, square, stated = 0.0, 0.0, 0.0
    each = [LAW.weights[z] / 2**128 for z in range(LAW.largest + 1)]
    summed = each if shufflers == 1 else np.convolve(each, each).tolist()
    for drawn in itertools.product(range(len(summed)), repeat=sides):
        chance = math.prod(summed[z] for z in drawn)
        # Symbol by symbol the sum of the shufflers' draws; the value 0 has the rest of the fixed total.
        total = shufflers * law.dummies_range[0]
        added = dict(zip([value for value in sending.mechanism.node.values if value], drawn, strict=True))
        added[0] = total - sum(drawn)
        counts = plain.tally + sending.tally(sending.reports_of([added[v] for v in sending.mechanism.node.values]))
        batch = Batch(counts, total)
        count, answered, *_ = sending.rows(0, {0: batch}, noise)
        assert count.estimate is not None
        assert answered.estimate is not None
        assert answered.estimate.value == people
        off = count.estimate.value - truth.value
        mean, square = mean + chance * off, square + chance * off**2
        stated += chance * ((count.estimate.standard_error or 0.0) ** 2 - (truth.standard_error or 0.0) ** 2)
    assert mean == pytest.approx(0, abs=1e-9)
    assert square == pytest.approx(sending.noise_variance(1, noise))
    # The number of people who changed is estimated too, and the variance is linear in it.
    assert stated == pytest.approx(square, rel=1e-6)
    assert sending.noise_variance(7, noise) == pytest.approx(3 * square)
    mean_draw = sending.tally(sending.reports_of([shufflers * z for z in law.by_symbol([3] * sides)]))
    counts_of_values = sending.debias(plain.tally + mean_draw, shufflers * law.dummies_range[0], noise)[0]
    assert counts_of_values.tolist() == plain.tally.counts.tolist()


def test_a_number_of_dummies_that_noise_does_not_have_is_refused() -> None:
    batch = mean_batch(SIGNED, 1024, 1024, 64 * 1024, 6)
    with pytest.raises(ValueError, match="6 dummies are no sum of this noise; give 12"):
        SIGNED.rows(0, {0: batch}, ChainNoise(LAW))
    with pytest.raises(ValueError, match="6 dummies are no sum of this noise; give 36"):
        SIGNED.rows(0, {0: batch}, ChainNoise(LAW, 3))


def test_a_round_that_was_not_published_leaves_only_the_counts_that_need_it_without_a_value() -> None:
    batch = mean_batch(SIGNED, 1024, 1024, 64 * 1024)
    for number, known in ((4, False), (5, False), (7, True)):
        count, answered = SIGNED.rows(number, {place: batch for place in range(number + 1) if place != 3})
        assert (count.estimate is not None) == known
        assert answered.estimate is not None


def test_counts_that_cannot_fall_have_a_series_that_does_not_and_others_have_none() -> None:
    up, none = (mean_batch(RISING, plus, 0, 64 * 1024) for plus in (1024, 0))
    _, _, *series = RISING.rows(4, {0: up, 1: none, 3: up, 4: none})
    # Round 2 was not published: its count needs it, and no other does. The plain counts are 1024, 0, –, 1024, 1024.
    found = {row.category: row.estimate for row in series}
    assert [row.statistic for row in series] == ["smoothed_count"] * 4
    assert [found[f"round {place}"].value for place in (0, 1, 3, 4)] == pytest.approx([512, 512, 1024, 1024])  # type: ignore[union-attr]
    for row in series:
        assert row.estimate is not None
        assert row.estimate.standard_error is None
        assert row.estimate.lower <= row.estimate.value <= row.estimate.upper
    assert len(SIGNED.rows(0, {0: mean_batch(SIGNED, 1024, 1024, 64 * 1024)})) == 2
