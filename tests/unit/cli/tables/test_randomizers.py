"""What a randomizer's numbers mean is said once for each kind, and nothing is said of a kind without words."""

from __future__ import annotations

from hubbub.cli.tables.randomizers import meanings
from hubbub.queries.registry import RANDOMIZERS


def test_each_kind_is_explained_once_in_order() -> None:
    assert [each.partition(":")[0] for each in meanings(["unary", "krr", "unary"])] == ["unary", "krr"]


def test_every_randomizer_has_words_and_others_have_none() -> None:
    assert len(meanings({"krr", "unary", "hashed"} & set(RANDOMIZERS))) == 3
    assert meanings(["a-kind-of-your-own"]) == []
