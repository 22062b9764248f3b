"""What is planned here was composed once; `tests/unit/accountant/test_composition.py` holds how it is composed."""

import pytest


@pytest.fixture(autouse=True)
def _composed_once(composed_once: None) -> None:
    """Compute no composition twice."""
