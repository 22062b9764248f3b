"""What role a certificate's name has, and which names a reader may have."""

from __future__ import annotations

import pytest

from hubbub.protos.errors import UsageError
from hubbub.protos.transport.roles import OPERATORS, READERS, reader_called, role_of

NAMES = ["ana", "a", "0", "ana.b-c_d", "x" * 32]
STRANGE = ["Ana", "-a", "a-", "x" * 33, "a b", "a:b", "é", "a\n", "."]


@pytest.mark.parametrize("name", ["", *NAMES])
def test_a_reader_of_any_name_has_the_role_of_readers(name: str) -> None:
    assert role_of(reader_called(name)) == "reader"
    assert role_of(reader_called(name)) in READERS - OPERATORS


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_name_is_refused_and_is_no_readers(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be called"):
        reader_called(name)
    assert role_of(f"reader:{name}") not in READERS


@pytest.mark.parametrize("name", ["operator:ana", "operator", "shuffler", "reader:", ":reader", "", "Reader:ana"])
def test_no_other_role_has_names(name: str) -> None:
    assert role_of(name) == name
