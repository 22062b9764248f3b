"""What messages show of values: lists in words or as JSON, never as Python writes them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hubbub.accountant.certificate.members import _check
from hubbub.accountant.errors import AccountingError, CertificateError, listed, shown
from hubbub.accountant.mechanisms import KRR


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(1, 3), "1/3"),
        (Fraction(10**40, 3 * 10**40 + 1), "about 0.333333"),
        (Fraction(10**400 + 1, 3), "a value too long to show"),
        ("x", "'x'"),
        ([None, True, "ü"], '[null, true, "ü"]'),
        ({"a": (1, Fraction(1, 2))}, '{"a": [1, "1/2"]}'),
        (["x" * 100], '["' + "x" * 58),
    ],
)
def test_a_value_is_shown_short_and_a_container_as_json(value: object, text: str) -> None:
    assert shown(value) == text


def test_names_are_listed_and_many_are_counted() -> None:
    assert listed([]) == "none"
    assert listed(["a", 2]) == "a, 2"
    assert listed(range(33)).endswith("29, and 3 more")


def test_refusals_of_documents_name_members_in_words() -> None:
    with pytest.raises(CertificateError, match=r"^a query: the members are a, b; they must be b, c$"):
        _check("a query", {"c": bool, "b": bool}, {"b": 1, "a": 2})
    with pytest.raises(AccountingError, match=r"are categories, mechanism; give exactly categories, gamma, mechanism$"):
        KRR.read({"mechanism": "krr", "categories": 4})
