import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from hubbub.accountant.composition import compose
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic
from hubbub.accountant.pairs import Part
from hubbub.accountant.spending.entry import LedgerBroken, LedgerEntry
from hubbub.accountant.spending.ledger import BudgetExceeded, ChainedEntry, ChargeConflict, Ledger
from support.messages import FORMAT_THAT_IS_READ, SPENT_SO_FAR

pytestmark = pytest.mark.usefixtures("composed_once")

PART = Part(KRR(16, Fraction(1, 4)), 18000)

UNARY = Part(RAPPOR.from_numerators(5, 3 * 2**30, 2**30), 5000, dummies=7)

CHAIN = (
    (
        (
            '{"clients":null,"dummies":0,"format":"hubbub-charge/1","mechanism":{"categories":16,'
            '"gamma":[1073741824,4294967296],"mechanism":"krr"},"query":"carrier","reports":18000,"round":2,'
            '"task":"flights"}'
        ),
        "c17173d631e71e54e9de222048ade30a04c3fcac6f5cc01da6a98236c2e11a89",
    ),
    (
        (
            '{"clients":null,"dummies":7,"format":"hubbub-charge/1","mechanism":{"categories":5,'
            '"mechanism":"unary","other":[1073741824,4294967296],"truthful":[3221225472,4294967296]},'
            '"query":"größe","reports":5000,"round":2,"task":"flights"}'
        ),
        "e43cb31ed6fdd1ae32c7df91c4b9fac1712448a5dc63e35431ac96e51a5d548c",
    ),
)
"""A chain of two charges. Its digests were computed apart from this code: SHA-256 of label, 0x01, digest before and
text; before the first it is that of label, 0x00 and the task.
"""


def entry(number: int, query: str = "carrier", part: Part = PART) -> LedgerEntry:
    return LedgerEntry("flights", number, query, part)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger("flights", 1.0, 1e-6)


def test_an_empty_ledger_has_spent_nothing_and_holds(ledger: Ledger) -> None:
    ledger.verify()
    assert ledger.spent().epsilon_upper == 0.0


def test_spent_is_the_composition_of_all_rounds(ledger: Ledger) -> None:
    charged = ledger.charge([entry(1)]).charge([entry(2), entry(2, "delay")])
    assert charged.spent().epsilon_upper == compose([replace(PART, rounds=3)], 1e-6).epsilon_upper
    assert ledger.links == ()


def test_the_same_charge_twice_changes_nothing(ledger: Ledger) -> None:
    once = ledger.charge([entry(1), entry(1)])
    assert len(once.links) == 1
    assert once.charge([entry(1)]) == once


def test_another_charge_under_the_same_round_and_query_is_refused(ledger: Ledger) -> None:
    charged = ledger.charge([entry(1)])
    with pytest.raises(ChargeConflict, match="round 1, query 'carrier'"):
        charged.charge([entry(1, part=replace(PART, reports=20000))])


def test_another_task_is_refused(ledger: Ledger) -> None:
    with pytest.raises(AccountingError, match="'trains'"):
        ledger.charge([LedgerEntry("trains", 1, "carrier", PART)])


def test_an_entry_is_of_one_round() -> None:
    with pytest.raises(AccountingError, match="charge every round by itself"):
        entry(1, part=replace(PART, rounds=2))


def test_a_charge_over_the_budget_is_refused_whole_and_explained(ledger: Ledger) -> None:
    one = ledger.charge([entry(1)]).spent().epsilon_upper
    tight = replace(ledger, epsilon=one * 1.01).charge([entry(1)])
    with pytest.raises(BudgetExceeded, match=rf"round 2, 3 .*budget is .*{SPENT_SO_FAR}: .*round 1 0\."):
        tight.charge([entry(2), entry(3)])
    assert len(tight.links) == 1


def test_a_refusal_joins_like_rounds(ledger: Ledger) -> None:
    charged = ledger.charge([entry(number) for number in range(1, 4)])
    charged = charged.charge([entry(4, part=replace(PART, reports=30000))])
    full = replace(charged, epsilon=charged.spent().epsilon_upper)
    with pytest.raises(BudgetExceeded, match=r"rounds 1 to 3 \(3\) .*round 4 "):
        full.charge([entry(5)])


def test_records_come_back_as_they_were(ledger: Ledger) -> None:
    generic = Part(Generic(0.3), 5000, dummies=7)
    charged = ledger.charge([entry(1), entry(1, "other", generic), entry(2, part=replace(PART, clients=20000))])
    assert Ledger.from_records("flights", 1.0, 1e-6, charged.records()) == charged


def test_the_bytes_of_a_chain_are_these(ledger: Ledger) -> None:
    charged = ledger.charge([entry(2), entry(2, "größe", UNARY)])
    assert charged.records() == CHAIN
    assert Ledger.from_records("flights", 1.0, 1e-6, CHAIN) == charged


def test_a_round_that_was_charged_before_a_restart_is_not_charged_again(ledger: Ledger) -> None:
    known = Ledger.from_records("flights", 1.0, 1e-6, CHAIN[:1])
    assert known.charge([entry(2)]).records() == CHAIN[:1]
    with pytest.raises(ChargeConflict):
        known.charge([entry(2, part=replace(PART, reports=20000))])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_changed_removed_or_moved_charge_is_noticed(ledger: Ledger, place: int) -> None:
    charged = ledger.charge([entry(number) for number in (1, 2, 3)])
    links = list(charged.links)
    changed = ChainedEntry(entry(links[place].entry.round, part=replace(PART, reports=10**6)), links[place].digest)
    with pytest.raises(LedgerBroken, match=f"charge {place} "):
        replace(charged, links=(*links[:place], changed, *links[place + 1 :])).verify()
    with pytest.raises(LedgerBroken):
        replace(charged, links=tuple(links[place:] + links[:place] + links[:1])).verify()
    if place < 2:
        with pytest.raises(LedgerBroken):
            replace(charged, links=tuple(links[:place] + links[place + 1 :])).verify()


def test_the_head_fixes_how_much_was_charged(ledger: Ledger) -> None:
    heads = {ledger.head}
    for number in range(3):
        ledger = ledger.charge([entry(number)])
        heads.add(ledger.head)
    assert len(heads) == 4


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"task": 1}', "null"])
def test_unreadable_records_are_refused(text: str) -> None:
    with pytest.raises(LedgerBroken):
        Ledger.from_records("flights", 1.0, 1e-6, [(text, "00" * 32)])


def test_a_record_in_another_form_is_refused(ledger: Ledger) -> None:
    text, digest = ledger.charge([entry(1)]).records()[0]
    with pytest.raises(LedgerBroken, match="canonical"):
        Ledger.from_records("flights", 1.0, 1e-6, [(text.replace(",", ", "), digest)])


def test_one_entry_named_twice_in_a_charge_is_charged_once(ledger: Ledger) -> None:
    one = entry(1)
    charged = ledger.charge([one, one])
    assert len(charged.links) == 1
    charged.verify()


@pytest.mark.parametrize("budget", [math.nan, -1.0, "1", None])
def test_a_budget_that_is_no_number_from_zero_is_refused(budget: float) -> None:
    with pytest.raises(AccountingError, match="budget"):
        Ledger("flights", budget, 1e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"round":1', '"round":[1]'),
        ('"round":1', '"round":NaN'),
        ('"round":1', '"round":"1"'),
        ('"query":"carrier"', '"query":{}'),
        ('"query":"carrier"', '"query":"\ud800"'),
        ('"reports":18000', '"reports":18000.0'),
        ('"mechanism":{', '"mechanism":[],"x":{'),
        ('"mechanism":{', '"mechanism":{"note":1,'),
        ('"query"', "[" * 100_000),
        ('"gamma":[1073741824,4294967296]', '"gamma":[1,4]'),
        ('"gamma":[1073741824,4294967296]', '"gamma":"1/4"'),
        ('"mechanism":"krr"', '"mechanism":"hashed"'),
        ('"query":"carrier"', '"query":"\\ud800"'),
        ('"format":"hubbub-charge/1",', ""),
        ('"task":"flights"', '"task":"flights","version":1'),
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_a_malformed_record_is_broken_and_nothing_else(old: str, new: str) -> None:
    refused(old, new)


@pytest.mark.parametrize("other", ['"hubbub-charge/2"', "1", "true", "null"])
def test_a_charge_of_another_version_is_refused_by_its_name(other: str) -> None:
    with pytest.raises(LedgerBroken, match=f"{FORMAT_THAT_IS_READ} hubbub-charge/1"):
        LedgerEntry.from_canonical(entry(1).canonical().replace('"hubbub-charge/1"', other))


def refused(old: str, new: str) -> None:
    text = entry(1).canonical()
    assert LedgerEntry.from_canonical(text) == entry(1)
    assert old in text
    with pytest.raises(LedgerBroken):
        LedgerEntry.from_canonical(text.replace(old, new))


def test_only_the_head_shows_that_the_last_charges_were_left_off(ledger: Ledger) -> None:
    charged = ledger.charge([entry(1)]).charge([entry(2)])
    shortened = Ledger.from_records("flights", 1.0, 1e-6, charged.records()[:1])
    assert shortened.head != charged.head


def test_a_budget_that_is_met_exactly_is_not_exceeded(ledger: Ledger) -> None:
    spent = ledger.charge([entry(1)]).spent().epsilon_upper
    assert replace(ledger, epsilon=spent).charge([entry(1)]).links
    with pytest.raises(BudgetExceeded):
        replace(ledger, epsilon=math.nextafter(spent, 0)).charge([entry(1)])


@pytest.mark.parametrize("entries", [PART, [PART], entry(1), None])
def test_what_is_no_list_of_charges_is_refused_with_how_to_write_one(ledger: Ledger, entries: Any) -> None:
    with pytest.raises(AccountingError, match=r"^entries is .*; give a list of LedgerEntry\(task, round, query"):
        ledger.charge(entries)


def test_a_charge_of_what_is_no_part_is_refused() -> None:
    part: Any = KRR(16, Fraction(1, 4))
    with pytest.raises(AccountingError, match=r"part is KRR\(.*; give a Part\(mechanism, reports\)"):
        entry(1, part=part)
