import math
import sys

import pytest

from hubbub.accountant.composition import PAIR_ERROR
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.library.dp_accounting import regridded, to_dp_accounting
from hubbub.accountant.mechanisms import Generic
from hubbub.accountant.pairs import Part, dominating_grid


def test_a_missing_library_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(AccountingError, match=r"pip install 'hubbub\[dp-accounting\]'"):
        to_dp_accounting(Part(Generic(1.0), 100))


@pytest.mark.parametrize("interval", [0.0, -1.0, math.nan, math.inf, 1e-15])
def test_an_interval_must_give_a_grid(interval: float) -> None:
    with pytest.raises(AccountingError, match="interval"):
        to_dp_accounting(Part(Generic(1.0), 100), interval)


def test_regridding_keeps_both_masses() -> None:
    grid = dominating_grid(Part(Generic(1.0), 100), 40.0)
    coarse = regridded(grid, 3e-3)
    assert math.fsum(coarse.values()) == pytest.approx(float(grid.masses.sum()) * (1 + PAIR_ERROR), rel=1e-12)
    q = math.fsum(mass * math.exp(-3e-3 * place) for place, mass in coarse.items())
    assert q == pytest.approx(math.fsum(grid.masses * [math.exp(-loss) for loss in grid.losses]), rel=1e-8)
