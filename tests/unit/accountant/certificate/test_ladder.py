"""The ladder of a certificate: its sentences, word by word, and its numbers, which are those of the members."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from hubbub.accountant.certificate.batches import linked_part, round_part
from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.ladder import (
    ALONE,
    AT_MINIMUM,
    IF_MINIMUM_VALID,
    RUNGS,
    ladder,
    ladder_words,
    ladders,
    lower_of,
)
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.errors import CertificateError
from hubbub.accountant.mechanisms import KRR, Hashed, LocalMechanism, Sequence, TreeNodes, WithNoise
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from support.source_tree import ROOT

TERMS = Terms(3.0, 1e-3, 20.0, 1.0, 1000)
PLAIN = KRR.from_numerator(4, 2**31)
NOISY = WithNoise(PLAIN, NoiseLaw.of("geometric", Fraction(3, 5), 12))
EVERYONE = "if the shuffler, the analyzer and everyone who answers are honest"
MISCOUNT = (
    "if the shuffler and everyone who answers are honest, and at least 1,000 reports of each batch are valid; the "
    "analyzer may miscount"
)
LIARS = "if the shuffler is honest; everybody else may lie and work together, the analyzer too"
NOBODY = (
    "if only the person's own device is honest; everybody else may work together, the shuffler and the analyzer too"
)


def words(
    terms: Terms = TERMS, mechanisms: Mapping[str, LocalMechanism] | None = None, rounds: int = 1
) -> dict[str, str]:
    return ladder_words(terms, {"color": PLAIN} if mechanisms is None else mechanisms, rounds)


def certificate(
    terms: Terms, queries: Mapping[str, LocalMechanism], *valid: int
) -> tuple[list[tuple[str, LocalMechanism]], dict[str, Any]]:
    """The queries, and a statement over as many rounds of 1,200 reports as numbers of valid reports are given."""
    history = [
        RoundCounts(
            number,
            tuple(QueryCount(name, each, 1200, count, {"envelope": 1200 - count}) for name, each in queries.items()),
        )
        for number, count in enumerate(valid)
    ]
    return list(queries.items()), {
        **json.loads(json.dumps(statement(terms, history))),
        "round": len(valid) - 1,
    }


def test_each_rung_of_one_round_is_one_sentence() -> None:
    assert words() == {
        "epsilon_upper": EVERYONE,
        IF_MINIMUM_VALID: MISCOUNT,
        ALONE: LIARS,
        "epsilon_local": NOBODY,
    }


def test_over_several_rounds_it_matters_if_results_change_who_answers() -> None:
    found = words(rounds=3)
    assert tuple(found) == RUNGS
    assert found["epsilon_upper"] == f"{EVERYONE}; earlier results must not change how many people answer"
    assert found[AT_MINIMUM] == (
        f"{EVERYONE}; each batch counts as 1,000, so earlier results may change how many people answer"
    )
    # It counts the minimum, which was fixed beforehand; with a smaller share it depends on how many came.
    assert found[IF_MINIMUM_VALID] == MISCOUNT
    found = words(replace(TERMS, honest_share=0.9), rounds=3)
    assert found[IF_MINIMUM_VALID].endswith("; earlier results must not change how many people answer")


def test_a_share_is_stated_and_that_it_is_assumed_if_nobody_checked() -> None:
    people = "if the shuffler, the analyzer and the people behind 99.5 % of the reports are honest"
    share = replace(TERMS, honest_share=0.995)
    assert words(share)["epsilon_upper"] == people
    found = words(replace(share, assumed=True))
    assert found["epsilon_upper"] == f"{people}; nobody checked who submitted, so that is assumed"
    assert found[IF_MINIMUM_VALID].endswith("; nobody checked who submitted, so that is assumed")
    # Neither of these counts on anybody who submitted.
    assert (found[ALONE], found["epsilon_local"]) == (LIARS, NOBODY)


def test_what_the_shuffler_adds_is_named() -> None:
    assert words(replace(TERMS, dummies=5))[ALONE] == f"{LIARS}: the shuffler's dummies hide each person"
    assert words(mechanisms={"a": NOISY, "b": NOISY})[ALONE] == f"{LIARS}: the shuffler's noise hides each person"
    assert words(mechanisms={"a": NOISY, "b": PLAIN})[ALONE] == f"{LIARS}: the shuffler's noise hides the answers to a"


def test_dummies_that_hide_only_some_answers_are_not_said_to_hide_a_person() -> None:
    nodes, dummies = TreeNodes(8, 2, 2**29, 2**28), replace(TERMS, dummies=5)
    assert words(dummies, {"state": nodes})[ALONE] == LIARS
    assert words(dummies, {"state": nodes, "a": PLAIN})[ALONE] == (
        f"{LIARS}: the shuffler's dummies hide the answers to a"
    )


def test_dummies_beside_noise_are_never_counted() -> None:
    """Noise is drawn in place of them."""
    many = replace(TERMS, dummies=10_000)
    assert (round_part(many, NOISY, 1).dummies, linked_part(many, NOISY, 1).dummies) == (0, 0)
    assert (round_part(many, PLAIN, 1).dummies, linked_part(many, PLAIN, 1).dummies) == (10_000, 10_000)


def test_people_who_must_answer_every_round_are_named() -> None:
    found = words(mechanisms={"state": Sequence(5.0, 0.5, 100)})
    assert found["epsilon_upper"] == f"{EVERYONE}; as many people must answer every round as the task states"


def test_a_chain_names_the_shufflers_that_must_be_honest() -> None:
    chain = replace(TERMS, shufflers=3)
    found = words(chain)
    honest = "the shufflers before the honest one must pass on all reports, and the first must make none up"
    assert found["epsilon_upper"] == (
        f"if one of the 3 shufflers, the analyzer and everyone who answers are honest; {honest}"
    )
    assert found["epsilon_local"] == (
        "if only the person's own device is honest; everybody else may work together, all 3 shufflers and the analyzer "
        "too"
    )
    assert (
        found[ALONE]
        == "if one of the 3 shufflers is honest; everybody else may lie and work together, the analyzer too"
    )
    # The first shuffler knows which its dummies are, so no other shuffler is enough.
    added = words(replace(chain, dummies=5))
    assert added["epsilon_upper"] == "if the first shuffler, the analyzer and everyone who answers are honest"
    assert added[ALONE] == (
        "if the first shuffler is honest; everybody else may lie and work together, "
        "the analyzer too: the first shuffler's dummies hide "
        "each person"
    )


def test_the_noise_of_any_shuffler_of_a_chain_is_enough() -> None:
    """Each draws its own, so whichever is honest hides a person beside all others."""
    chain = replace(TERMS, shufflers=3)
    found, plain = words(chain, {"a": NOISY}), words(chain)
    liars = "if one of the 3 shufflers is honest; everybody else may lie and work together, the analyzer too"
    assert found[ALONE] == f"{liars}: the honest shuffler's noise hides each person"
    assert {**found, ALONE: plain[ALONE]} == plain
    assert (
        words(chain, {"a": NOISY, "b": PLAIN})[ALONE] == f"{liars}: the honest shuffler's noise hides the answers to a"
    )


def test_a_rung_that_needs_more_honest_parties_for_no_smaller_epsilon_is_left_out() -> None:
    attacks: dict[str, float | None] = {lower_of(member): None for member in RUNGS[:-1]}
    stated = {"epsilon_upper": 0.5, IF_MINIMUM_VALID: 0.7, ALONE: 8.0, "epsilon_local": 8.0, **attacks}
    assert [(rung.member, rung.epsilon) for rung in ladder(stated, words())] == [
        ("epsilon_upper", 0.5),
        (IF_MINIMUM_VALID, 0.7),
        ("epsilon_local", 8.0),
    ]
    noise = {"epsilon_upper": 1.0, IF_MINIMUM_VALID: 1.0, ALONE: 1.0, "epsilon_local": 8.0, **attacks}
    unknown = f"ε ≤ 1 {LIARS} (no attack on it is known)"
    assert [rung.sentence for rung in ladder(noise, words())] == [unknown, f"ε ≤ 8 {NOBODY}"]
    attacked, _ = ladder({**noise, lower_of(ALONE): 0.99}, words())
    assert attacked.sentence == f"ε ≤ 1 {LIARS} (an attack reaches 0.99)"
    assert attacked.marked("checked, not proven").startswith("ε ≤ 1 (checked, not proven) if the shuffler is honest;")
    # A batch of fewer valid reports than the minimum has no number for it.
    assert [rung.member for rung in ladder({**stated, IF_MINIMUM_VALID: None}, words())] == [
        "epsilon_upper",
        "epsilon_local",
    ]


def place_of(content: dict[str, Any], covers: str, query: str | None) -> dict[str, Any]:
    """The object of a certificate that a ladder is about."""
    found: dict[str, Any] = (
        content[covers] if query is None else next(each for each in content["queries"] if each["name"] == query)
    )
    return found


# In a usual run of noise alone, over one round and two: both kinds together take half a minute.
@pytest.mark.sampled("queries0", "queries1")
@pytest.mark.parametrize(
    ("queries", "valid"),
    [
        ({"a": NOISY}, (1100,)),
        ({"a": NOISY}, (1100, 1200)),
        ({"a": PLAIN, "b": NOISY}, (1100,)),
        ({"a": PLAIN, "b": NOISY}, (1100, 1200)),
    ],
)
def test_every_number_of_a_ladder_is_a_member_that_is_recomputed(
    queries: Mapping[str, LocalMechanism], valid: tuple[int, ...]
) -> None:
    terms = replace(TERMS, dummies=50)
    asked, content = certificate(terms, queries, *valid)
    check_statement(terms, asked, content)
    shown = ladders(content)
    assert [(each.covers, each.query) for each in shown] == [
        *(("query", name) for name in queries),
        ("round_total", None),
        ("all_rounds", None),
    ]
    for each in shown:
        stated = place_of(content, each.covers, each.query)
        numbers = [rung.epsilon for rung in each.rungs]
        assert numbers == sorted(set(numbers))
        assert (numbers[0], numbers[-1]) == (stated["epsilon_upper"], stated["epsilon_local"])
        for rung in each.rungs:
            assert stated[rung.member] == rung.epsilon
            lie = copy.deepcopy(content)
            place_of(lie, each.covers, each.query)[rung.member] = rung.epsilon * 0.99
            with pytest.raises(CertificateError):
                check_statement(terms, asked, lie)


# In a usual run of noise alone; both kinds together take half a minute.
@pytest.mark.sampled("queries0")
@pytest.mark.parametrize(
    ("queries", "valid"),
    [({"a": NOISY}, (1100, 1200)), ({"a": PLAIN}, (1100, 1200)), ({"a": PLAIN, "b": NOISY}, (1100,))],
)
def test_no_larger_attack_is_stated_than_is_known(
    queries: Mapping[str, LocalMechanism], valid: tuple[int, ...]
) -> None:
    asked, content = certificate(TERMS, queries, *valid)
    check_statement(TERMS, asked, content)
    tried = 0
    for each in ladders(content):
        stated = place_of(content, each.covers, each.query)
        for member in RUNGS[:-1]:
            if stated.get(member) is None:
                continue
            lower, upper = stated[lower_of(member)], stated[member]
            assert lower is None or 0 < lower <= upper
            for larger in (upper, upper / 2 if lower is None else lower * 1.001, 0.0):
                lie = copy.deepcopy(content)
                place_of(lie, each.covers, each.query)[lower_of(member)] = larger
                if lower is not None and 0 < larger <= lower:
                    continue
                with pytest.raises(CertificateError, match=r"no attack known here|epsilon_lower is"):
                    check_statement(TERMS, asked, lie)
                tried += 1
            # Who states no attack claims nothing.
            place_of(lie, each.covers, each.query)[lower_of(member)] = None
            check_statement(TERMS, asked, lie)
    assert tried > 10


TWO = WithNoise(KRR.from_numerator(2, 2**30), NoiseLaw.of("geometric", Fraction(1, 3), 8))


@pytest.mark.parametrize("rounds", [1, 2])
def test_of_two_symbols_everybody_else_known_both_ends_meet(rounds: int) -> None:
    """The attack is the pair itself: of a yes or no, and of the digits of a number together."""
    digits = {"bit 1": TWO, "bit 2": replace(TWO, noise=NoiseLaw.of("geometric", Fraction(1, 2), 12))}
    content = certificate(TERMS, digits, *[1100] * rounds)[1]
    for each in (*content["queries"], content["round_total"], content["all_rounds"]):
        assert each[ALONE] * (1 - 1e-3) < each[lower_of(ALONE)] <= each[ALONE] < each["epsilon_local"]


def test_of_more_symbols_the_ends_are_near_if_reports_are_nearly_plain() -> None:
    plain = WithNoise(KRR.from_numerator(16, 2**24), NoiseLaw.of("geometric", Fraction(3, 5), 27))
    content = certificate(replace(TERMS, delta=1e-6), {"a": plain}, 1100)[1]["queries"][0]
    assert 0.98 * content[ALONE] < content[lower_of(ALONE)] <= content[ALONE]
    # Honest people hide the victim as well, and the attack counts them.
    assert 0.9 * content[ALONE] < content["epsilon_lower"] <= content["epsilon_upper"]


def test_no_attack_is_stated_on_a_tree_or_hashes_beside_noise() -> None:
    nodes = replace(NOISY, randomizer=TreeNodes(8, 2, 2**29, 2**28))
    hashed = replace(NOISY, randomizer=Hashed.from_numerator(16, 4, 2**28))
    for mechanism in (nodes, hashed):
        (query,) = certificate(TERMS, {"a": mechanism}, 1100)[1]["queries"]
        assert query[ALONE] < query["epsilon_local"]
        assert query[lower_of(ALONE)] is None


def test_words_of_other_terms_are_refused() -> None:
    asked, content = certificate(TERMS, {"a": PLAIN}, 1100)
    for terms in (replace(TERMS, shufflers=2), replace(TERMS, assumed=True)):
        with pytest.raises(CertificateError, match="the certificate: ladder is"):
            check_statement(terms, asked, content)


@pytest.mark.parametrize("page", ["threat-model", "certificate-ladder"])
@pytest.mark.parametrize("member", RUNGS)
def test_each_rung_is_on_the_pages_that_list_them(page: str, member: str) -> None:
    text = (ROOT / "docs" / "explanation" / f"{page}.md").read_text()
    assert re.search(rf"`(\w+\.)?{member}`", text)


@pytest.mark.parametrize("page", ["README.md", "SECURITY.md"])
@pytest.mark.parametrize("member", [ALONE, IF_MINIMUM_VALID])
def test_the_first_pages_name_what_is_left_if_somebody_lies(page: str, member: str) -> None:
    assert f"`{member}`" in (ROOT / page).read_text()
