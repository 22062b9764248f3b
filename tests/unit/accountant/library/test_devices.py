import math
from fractions import Fraction

import pytest

from hubbub.accountant.composition import compose
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.library.devices import group_epsilon
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import Part

MECHANISM = KRR.from_local_epsilon(4, 1.0)


def test_one_device_is_one_person() -> None:
    assert group_epsilon(MECHANISM, 1000, 1, 1e-6) == compose([Part(MECHANISM, 1000)], 1e-6)


def test_more_devices_never_cost_less_and_at_most_all_local() -> None:
    found = [group_epsilon(MECHANISM, 1000, devices, 1e-6).epsilon_upper for devices in (1, 2, 5, 20, 1000)]
    assert found == sorted(found)
    assert all(
        upper <= devices * MECHANISM.epsilon_local * 1.0001
        for upper, devices in zip(found, (1, 2, 5, 20, 1000), strict=True)
    )


def test_upper_covers_two_devices_of_binary_response_exactly() -> None:
    """Everyone else holds 0; both devices change from 0 to 1: the counts of ones, by binomial sums."""
    mechanism, reports, delta = KRR(2, Fraction(1, 2)), 40, 1e-4

    def mass(ones: int) -> list[float]:
        law = [1.0]
        for person in range(reports):
            chance = 0.75 if person < ones else 0.25
            law = [
                (law[i] if i < len(law) else 0.0) * (1 - chance) + (law[i - 1] * chance if i else 0.0)
                for i in range(len(law) + 1)
            ]
        return law

    p, q = mass(2), mass(0)
    upper = group_epsilon(mechanism, reports, 2, delta).epsilon_upper
    for first, second in ((p, q), (q, p)):
        assert math.fsum(max(a - math.exp(upper) * b, 0.0) for a, b in zip(first, second, strict=True)) <= delta


def test_dummies_are_shared_among_the_devices() -> None:
    without, with_dummies = (group_epsilon(MECHANISM, 60, 3, 1e-6, dummies=count) for count in (0, 300))
    assert with_dummies.epsilon_upper < without.epsilon_upper


def test_a_group_of_everyone_keeps_what_is_local() -> None:
    assert 4.99 < group_epsilon(Generic(0.5), 10, 10, 1e-6).epsilon_upper <= 5.0


@pytest.mark.parametrize("devices", [0, 11, -1, math.nan, math.inf, "2", True])
def test_impossible_numbers_of_devices_are_refused(devices: int) -> None:
    with pytest.raises(AccountingError, match="devices"):
        group_epsilon(MECHANISM, 10, devices, 1e-6)
