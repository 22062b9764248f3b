import math
from dataclasses import replace
from fractions import Fraction

import pytest

from hubbub.accountant.composition import compose
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic
from hubbub.accountant.pairs import Part
from hubbub.accountant.spending.entry import Entry, LedgerBroken
from hubbub.accountant.spending.ledger import BudgetExceeded, ChargeConflict, Ledger, Link

pytestmark = pytest.mark.usefixtures("composed_once")

PART = Part(KRR(16, Fraction(1, 4)), 18000)

KRR_AS_FIRST = '{"categories":16,"gamma":"1/4","kind":"krr"}'

UNARY = Part(RAPPOR.from_numerators(5, 3 * 2**30, 2**30), 5000, dummies=7)

CHAIN = (
    (
        (
            '{"clients":null,"dummies":0,"mechanism":{"categories":16,"gamma":"1/4","kind":"krr"},"query":"carrier",'
            '"reports":18000,"round":1,"task":"flights"}'
        ),
        "b5c1cf461ed093ec6c3f6fd8480eb847bdb185ff5d95ff7ef1cf18cd4c474ae4",
    ),
    (
        (
            '{"clients":null,"dummies":7,"mechanism":{"epsilon_local":"0x1.3333333333333p-2","kind":"generic",'
            '"mixed":true},"query":"b","reports":5000,"round":1,"task":"flights"}'
        ),
        "d1850741cad812cc6a517d8c26f5ee2f0b239b4cb1573e78e8489b947cd56c13",
    ),
    (
        (
            '{"clients":null,"dummies":0,"mechanism":{"categories":16,"gamma":[1073741824,4294967296],'
            '"mechanism":"krr"},"query":"carrier","reports":18000,"round":2,"task":"flights","version":2}'
        ),
        "12042cb6564fb4c58effa35ae54adc1e6084f7b506fa62be51659554afd5e847",
    ),
    (
        (
            '{"clients":null,"dummies":7,"mechanism":{"categories":5,"mechanism":"unary",'
            '"other":[1073741824,4294967296],"truthful":[3221225472,4294967296]},"query":"größe",'
            '"reports":5000,"round":2,"task":"flights","version":2}'
        ),
        "fa18a4c162e8669f8e8e1a1faef8ab211a36076165a6732c6a71d490cf34f757",
    ),
)
"""One chain with two charges of each version. The first two were written by the release that knew version 1 alone; the
digests of the others were computed apart from this code: SHA-256 of label, 0x01, digest before and text.
"""


def entry(number: int, query: str = "carrier", part: Part = PART) -> Entry:
    return Entry("flights", number, query, part)


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
    assert not once.would_exceed([entry(1)])


def test_another_charge_under_the_same_round_and_query_is_refused(ledger: Ledger) -> None:
    charged = ledger.charge([entry(1)])
    with pytest.raises(ChargeConflict, match="round 1, query 'carrier'"):
        charged.charge([entry(1, part=replace(PART, reports=20000))])


def test_another_task_is_refused(ledger: Ledger) -> None:
    with pytest.raises(AccountingError, match="'trains'"):
        ledger.charge([Entry("trains", 1, "carrier", PART)])


def test_an_entry_is_of_one_round() -> None:
    with pytest.raises(AccountingError, match="must be 1"):
        entry(1, part=replace(PART, rounds=2))


def test_a_charge_over_the_budget_is_refused_whole_and_explained(ledger: Ledger) -> None:
    one = ledger.charge([entry(1)]).spent().epsilon_upper
    tight = replace(ledger, epsilon=one * 1.01).charge([entry(1)])
    assert tight.would_exceed([entry(2)])
    with pytest.raises(BudgetExceeded, match=r"round 2, 3 .*budget is .*spent so far: .*round 1 0\."):
        tight.charge([entry(2), entry(3)])
    assert len(tight.links) == 1


@pytest.mark.slow
def test_a_refusal_joins_like_rounds(ledger: Ledger) -> None:
    charged = ledger.charge([entry(number) for number in range(1, 4)])
    charged = charged.charge([entry(4, part=replace(PART, reports=30000))])
    full = replace(charged, epsilon=charged.spent().epsilon_upper)
    with pytest.raises(BudgetExceeded, match=r"rounds 1 to 3 \(3\) .*round 4 "):
        full.charge([entry(5)])


@pytest.mark.slow
def test_records_come_back_as_they_were(ledger: Ledger) -> None:
    generic = Part(Generic(0.3, mixed=True), 5000, dummies=7)
    charged = ledger.charge([entry(1), entry(1, "other", generic), entry(2, part=replace(PART, clients=20000))])
    assert Ledger.from_records("flights", 1.0, 1e-6, charged.records()) == charged


@pytest.mark.slow
def test_the_bytes_of_both_versions_are_these(ledger: Ledger) -> None:
    first = [entry(1), entry(1, "b", Part(Generic(0.3, mixed=True), 5000, dummies=7))]
    charged = ledger.charge(replace(each, version=1) for each in first)
    charged = charged.charge([entry(2), entry(2, "größe", UNARY)])
    assert charged.records() == CHAIN


def test_what_was_written_as_version_1_is_read_verified_and_kept_as_it_was(ledger: Ledger) -> None:
    known = Ledger.from_records("flights", 1.0, 1e-6, CHAIN[:2])
    assert known.head == CHAIN[1][1]
    grown = known.charge([entry(2), entry(2, "größe", UNARY)])
    assert grown.records() == CHAIN
    read = Ledger.from_records("flights", 1.0, 1e-6, CHAIN)
    assert [each.version for each in read.entries] == [1, 1, 2, 2]


def test_a_round_charged_under_version_1_is_not_charged_again(ledger: Ledger) -> None:
    """The next start after an upgrade makes the same charge anew, in the new version."""
    known = Ledger.from_records("flights", 1.0, 1e-6, CHAIN[:1])
    assert known.charge([entry(1)]).records() == CHAIN[:1]
    assert not known.would_exceed([entry(1)])
    with pytest.raises(ChargeConflict):
        known.charge([entry(1, part=replace(PART, reports=20000))])


def test_the_digest_fixes_the_version_of_a_charge(ledger: Ledger) -> None:
    link = ledger.charge([entry(1)]).links[0]
    rewritten = replace(ledger, links=(replace(link, entry=replace(link.entry, version=1)),))
    with pytest.raises(LedgerBroken):
        rewritten.verify()


@pytest.mark.parametrize("version", [0, 3, True, 2.0, "2", None])
def test_a_charge_of_an_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(AccountingError, match="must be 1 or 2"):
        replace(entry(1), version=version)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_changed_removed_or_moved_charge_is_noticed(ledger: Ledger, place: int) -> None:
    charged = ledger.charge([entry(number) for number in (1, 2, 3)])
    links = list(charged.links)
    changed = Link(entry(links[place].entry.round, part=replace(PART, reports=10**6)), links[place].digest)
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


@pytest.mark.parametrize("version", [1, 2])
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
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_a_malformed_record_is_broken_and_nothing_else(ledger: Ledger, version: int, old: str, new: str) -> None:
    refused(replace(entry(1), version=version), old, new)


@pytest.mark.parametrize(
    ("version", "old", "new"),
    [
        (1, '"gamma":"1/4"', '"gamma":"1e-999999999"'),
        (1, '"gamma":"1/4"', '"gamma":"2/8"'),
        (1, '"gamma":"1/4"', '"gamma":[1073741824,4294967296]'),
        (1, KRR_AS_FIRST, '{"epsilon_local":"0x1p99999","kind":"generic","mixed":true}'),
        (1, KRR_AS_FIRST, '{"epsilon_local":"0x1.0p+0","kind":"generic","mixed":null}'),
        (1, KRR_AS_FIRST, '{"categories":16,"gamma":[1073741824,4294967296],"mechanism":"krr"}'),
        (1, '"kind":"krr"', '"kind":"unary"'),
        (1, '"task":"flights"', '"task":"flights","version":1'),
        (2, '"gamma":[1073741824,4294967296]', '"gamma":[1,4]'),
        (2, '"gamma":[1073741824,4294967296]', '"gamma":"1/4"'),
        (2, '"mechanism":"krr"', '"mechanism":"hashed"'),
        (2, '"query":"carrier"', '"query":"\\ud800"'),
        (2, '"version":2', '"version":2.0'),
        (2, '"version":2', '"version":3'),
        (2, '"version":2', '"version":true'),
        (2, '"version":2', '"version":null'),
        (2, ',"version":2', ""),
    ],
)
def test_a_record_in_the_form_of_another_version_is_broken(version: int, old: str, new: str) -> None:
    refused(replace(entry(1), version=version), old, new)


def refused(charge: Entry, old: str, new: str) -> None:
    text = charge.canonical()
    assert Entry.from_canonical(text) == charge
    assert old in text
    with pytest.raises(LedgerBroken):
        Entry.from_canonical(text.replace(old, new))


def test_only_the_head_shows_that_the_last_charges_were_left_off(ledger: Ledger) -> None:
    charged = ledger.charge([entry(1)]).charge([entry(2)])
    shortened = Ledger.from_records("flights", 1.0, 1e-6, charged.records()[:1])
    assert shortened.head != charged.head


def test_a_budget_that_is_met_exactly_is_not_exceeded(ledger: Ledger) -> None:
    spent = ledger.charge([entry(1)]).spent().epsilon_upper
    assert not replace(ledger, epsilon=spent).would_exceed([entry(1)])
    assert replace(ledger, epsilon=math.nextafter(spent, 0)).would_exceed([entry(1)])
