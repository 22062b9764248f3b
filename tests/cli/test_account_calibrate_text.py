"""`hubbub account calibrate --query text`: kinds of randomizer compared by their exact errors."""

from __future__ import annotations

from typing import Any

import pytest

from support.cli import hubbub

ASKED = (*("account", "calibrate", "--query", "text"), *("--epsilon", "1", "--delta", "1e-6", "--json"))


def asked(*more: str) -> dict[str, Any]:
    found: dict[str, Any] = hubbub(*ASKED, *more).json
    return found


def reaches(found: dict[str, Any], at_none: float, at_many: float) -> bool:
    errors = [each["standard_error_at"] for each in found["candidates"] if each["randomizer"] == "hashed"]
    return any(each["0"] <= at_none and each["100000"] <= at_many for each in errors)


def test_a_million_texts_of_a_million_people_have_the_errors_that_are_promised() -> None:
    found = asked("--categories", "1000000", "--reports", "1000000")
    assert reaches(found, 8.1, 330)
    assert reaches(found, 18, 125)
    krr, unary = found["candidates"][:2]
    assert krr["standard_error_at"] == pytest.approx({"0": 5.19, "1000": 68.87, "100000": 686.7}, rel=1e-3)
    assert (unary["applies"], unary["epsilon_upper"]) == (False, None)
    assert "4096" in unary["why_not"]
    assert all(each["epsilon_upper"] <= 1 for each in found["candidates"] if each["applies"])
    largest = [each["standard_error_largest"] for each in found["candidates"] if each["applies"]]
    assert found["chosen"]["randomizer"] == "hashed"
    assert [found["chosen"] | {"chosen": True}] == [each for each in found["candidates"] if each["chosen"]]
    assert found["chosen"]["standard_error_largest"] == min(largest)


def test_a_cap_on_the_local_epsilon_is_kept() -> None:
    found = asked("--reports", "1000000", "--local-epsilon", "8")
    applying = [each for each in found["candidates"] if each["applies"]]
    assert all(each["epsilon_local"] <= 8 for each in applying)
    assert min(each["standard_error_at"]["0"] for each in applying) <= 36.7
    assert {each["randomizer"] for each in applying} == {"hashed"}


# tests/unit/planning/test_alternatives.py compares dummies, statistical/test_hashed.py has counts beside them.
@pytest.mark.exhaustive
def test_dummies_stand_beside_none() -> None:
    found = asked("--reports", "1000000", "--dummies", "2800000")
    assert {each["dummies"] for each in found["candidates"]} == {0, 2_800_000}
    assert found["chosen"]["dummies"] == 2_800_000
    assert max(found["chosen"]["standard_error_at"].values()) <= 7.7


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--query", "text", "--share", "0"), "share"),
        (("--query", "text", "--categories", "1000001"), "at most 1000000"),
        (("--query", "histogram", "--randomizer", "auto"), "--categories"),
        (("--query", "sum", "--randomizer", "auto"), "a sum"),
    ],
)
def test_what_cannot_be_compared_is_bad_use(arguments: tuple[str, ...], says: str) -> None:
    options = ("--epsilon", "1", "--delta", "1e-6", "--reports", "1000")
    done = hubbub("account", "calibrate", *arguments, *options)
    assert done.status == 2
    assert says in done.err
