"""What is made holds, and nothing false or unknown passes the check."""

import copy
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.ladder import ALONE, IF_MINIMUM_VALID
from hubbub.accountant.certificate.minimum import check_minimum
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.errors import AccountingError, CertificateError
from hubbub.accountant.mechanisms import KRR

pytestmark = pytest.mark.usefixtures("composed_once")

QUERIES = [("color", KRR.from_numerator(4, 2**30))]
TERMS = Terms(3.0, 1e-6, 20.0, 0.9, 1000)


def made(terms: Terms, queries: list[tuple[str, KRR]], counts: list[tuple[int, int]]) -> dict[str, Any]:
    """A statement over rounds 0, 1, … with the same (reports, valid) for every query, as it reads back from JSON."""
    history = [
        RoundCounts(
            number,
            tuple(
                QueryCount(name, mechanism, reports, valid, {"envelope": reports - valid})
                for name, mechanism in queries
            ),
        )
        for number, (reports, valid) in enumerate(counts)
    ]
    return {**json.loads(json.dumps(statement(terms, history))), "round": len(counts) - 1}


@pytest.fixture(scope="module")
def sound() -> dict[str, Any]:
    return made(TERMS, QUERIES, [(1200, 1100), (1300, 1300)])


@pytest.mark.parametrize(
    ("categories", "numerator", "delta", "share", "counts"),
    [
        (3, 386547056, 0.1, 1.0, (1000, 678)),
        (16, 2**31, 1e-3, 1.0, (1_000_000, 909_784)),
        (16, 2061584, 0.1, 1.0, (100_000, 100_000)),
        (1000, 2**31, 1e-6, 0.5, (250, 126)),
        (1000, 2**31, 1e-8, 1.0, (11_000, 7588)),
        (2, 2**32 - 1, 1e-6, 0.9, (6, 3)),
        (2, 2**32, 1e-6, 1.0, (10, 0)),
        (5, 1, 1e-12, 0.5, (2, 2)),
    ],
)
def test_what_is_stated_is_always_accepted(
    categories: int, numerator: int, delta: float, share: float, counts: tuple[int, int]
) -> None:
    """The first five were refused once: the search for epsilon_lower evaluates more finely than one bracket of δ."""
    terms = Terms(5.0, delta, 50.0, share, 2)
    queries = [("q", KRR.from_numerator(categories, numerator))]
    check_statement(terms, queries, made(terms, queries, [counts]))


@pytest.mark.parametrize(
    ("path", "lie"),
    [
        (("queries", 0, "epsilon_upper"), 0.5),
        (("queries", 0, "epsilon_upper"), "0.6"),
        (("queries", 0, "epsilon_upper"), math.nan),
        (("queries", 0, "epsilon_upper"), math.inf),
        (("queries", 0, "epsilon_upper"), True),
        (("queries", 0, "epsilon_upper"), 10**400),
        (("queries", 0, "epsilon_local"), 2.0),
        (("queries", 0, "epsilon_local"), True),
        (("queries", 0, "epsilon_lower"), 0.55),
        (("queries", 0, "epsilon_lower"), -0.5),
        (("queries", 0, "bound"), "2rr"),
        (("queries", 0, "source"), "a better theorem"),
        (("queries", 0, "numerical_slack"), 1e-5),
        (("queries", 0, "honest_reports"), 1171),
        (("queries", 0, "reports"), 1300.0),
        (("queries", 0, "valid"), True),
        (("queries", 0, "left_out"), {"envelope": 5, "symbol": -5}),
        (("queries", 0, "gamma"), [2.0**30, 2.0**32]),
        (("queries", 0, "state"), "withheld"),
        (("queries", 0, "epsilon_certified"), 1e-9),
        (("round_total", "epsilon_upper"), 0.5),
        (("round_total", "epsilon_upper"), True),
        (("round_total", "bound"), "magic"),
        (("round_total", "note"), "perfectly private"),
        (("queries", 0, "epsilon_upper_alone"), 2.5),
        (("queries", 0, "epsilon_upper_alone"), None),
        (("queries", 0, "epsilon_upper_if_minimum_valid"), 0.6),
        (("queries", 0, "epsilon_upper_if_minimum_valid"), None),
        (("round_total", "epsilon_upper_alone"), 2.5),
        (("round_total", "epsilon_upper_if_minimum_valid"), 0.6),
        (("all_rounds", "epsilon_upper_alone"), 5.0),
        (("all_rounds", "epsilon_upper_if_minimum_valid"), 0.8),
        (("all_rounds", "epsilon_upper_if_minimum_valid"), True),
        (("ladder", "epsilon_upper"), "if a notary is honest"),
        (("ladder", "epsilon_certified"), "in any case"),
        (("ladder",), {}),
        (("delta",), 1e-7),
        (("delta",), True),
        (("all_rounds", "epsilon_upper"), 0.6),
        (("all_rounds", "epsilon_upper_at_minimum"), 0.6),
        (("all_rounds", "bound"), "blanket"),
        (("all_rounds", "spent"), 0.0),
        (("all_rounds", "history", 0, "queries", 0, "reports"), 10**18),
        (("all_rounds", "history", 0, "queries", 0, "reports"), -1),
        (("all_rounds", "history", 0, "queries", 0, "valid"), 1200),
        (("all_rounds", "history", 0, "note"), 1),
        (("all_rounds", "history", 0, "round"), 1),
        (("honest_share"), 1.0),
        (("honest_share"), True),
        (("round"), True),
    ],
)
def test_a_lie_about_any_number_is_refused(sound: dict[str, Any], path: tuple[str | int, ...], lie: object) -> None:
    content = copy.deepcopy(sound)
    keys = (path,) if isinstance(path, str) else path
    place: Any = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = lie
    with pytest.raises(CertificateError):
        check_statement(TERMS, QUERIES, content)


def test_a_missing_member_is_refused(sound: dict[str, Any]) -> None:
    for name in ("all_rounds", "honest_share", "queries", "round_total", "round", "delta", "ladder"):
        with pytest.raises(CertificateError):
            check_statement(TERMS, QUERIES, {key: value for key, value in sound.items() if key != name})


def test_more_than_was_certified_may_be_stated(sound: dict[str, Any]) -> None:
    content = copy.deepcopy(sound)
    content["queries"][0]["epsilon_upper"] *= 1.01
    for name in ("epsilon_upper", IF_MINIMUM_VALID, ALONE):
        content["all_rounds"][name] *= 2
    check_statement(TERMS, QUERIES, content)


@pytest.mark.parametrize("where", ["round_total", "all_rounds", "queries"])
@pytest.mark.parametrize("member", ["epsilon_upper", IF_MINIMUM_VALID])
def test_what_is_left_where_less_is_believed_is_never_stated_to_be_less(
    sound: dict[str, Any], where: str, member: str
) -> None:
    content = copy.deepcopy(sound)
    stated = content[where][0] if where == "queries" else content[where]
    stated[member] = 50.0
    with pytest.raises(CertificateError, match=r"must be at least .*, which is 50\.0"):
        check_statement(TERMS, QUERIES, content)


UNCOUNTED = Terms(3.0, 0.01, 20.0, 0.9, 1000)
TERNARY = [("drink", KRR.from_numerator(3, 2**31))]


def test_the_dishonest_of_an_uncounted_round_are_a_share_of_all_it_was_released_with() -> None:
    """Of 9,990 reports 1,000 are valid, and 999 of those are dishonest: one report hides nobody, whoever is believed.

    Its δ at ε is exactly 2/3 − e^ε/6.
    """
    (name, mechanism), released = TERNARY[0], 9990
    least, counted = UNCOUNTED.minimum_reports, QueryCount(*TERNARY[0], 2000, 2000, {})
    never = QueryCount(name, mechanism, least, least, {}, released)

    def stated(query: QueryCount) -> dict[str, Any]:
        return {**statement(UNCOUNTED, [RoundCounts(0, (query,)), RoundCounts(1, (counted,))]), "round": 1}

    content, lie = stated(never), stated(replace(never, released=None))
    assert 2 / 3 - math.exp(lie["all_rounds"][IF_MINIMUM_VALID]) / 6 > UNCOUNTED.delta
    assert 2 / 3 - math.exp(content["all_rounds"][IF_MINIMUM_VALID]) / 6 <= UNCOUNTED.delta
    # It is the word of the analyzer that nobody counted it: where that is true it costs less than at the minimum.
    assert content["all_rounds"]["epsilon_upper"] == lie["all_rounds"]["epsilon_upper"]
    check_statement(UNCOUNTED, TERNARY, content, {0: released})
    with pytest.raises(CertificateError, match=f"all_rounds, {IF_MINIMUM_VALID}"):
        check_statement(UNCOUNTED, TERNARY, lie, {0: released})


def test_a_task_that_promises_no_number_supports_nothing() -> None:
    with pytest.raises(AccountingError, match="promised"):
        check_minimum(Terms(math.nan, 1e-6, 20.0, 1.0, 1000), [QUERIES[0][1]])
    with pytest.raises(AccountingError, match="the cap is"):
        check_minimum(Terms(3.0, 1e-6, math.nan, 1.0, 1000), [QUERIES[0][1]])


SHORT = Terms(3.0, 1e-6, 20.0, 1.0, 1000)


def test_nothing_is_stated_at_the_minimum_where_a_round_held_fewer_valid_reports() -> None:
    """One round had 300 good reports of 1000: the minimum never hid anybody in it, whatever the other round had."""
    content = made(SHORT, QUERIES, [(1000, 300), (5000, 5000)])
    assert content["all_rounds"]["epsilon_upper_at_minimum"] is None
    check_statement(SHORT, QUERIES, content)


def test_the_honest_share_may_make_a_round_short() -> None:
    terms = replace(SHORT, honest_share=0.9)
    assert made(terms, QUERIES, [(2000, 1100)])["all_rounds"]["epsilon_upper_at_minimum"] is not None
    assert made(terms, QUERIES, [(2000, 1000)])["all_rounds"]["epsilon_upper_at_minimum"] is None


def test_silence_at_the_minimum_is_refused_where_every_batch_held_it(sound: dict[str, Any]) -> None:
    content = copy.deepcopy(sound)
    content["all_rounds"]["epsilon_upper_at_minimum"] = None
    with pytest.raises(CertificateError, match="must be null if a batch was below"):
        check_statement(TERMS, QUERIES, content)


def test_a_number_at_the_minimum_is_refused_where_a_batch_was_short() -> None:
    """Nothing that was fixed beforehand covers it, so no number does, however large."""
    content = made(SHORT, QUERIES, [(1000, 300), (5000, 5000)])
    for number in (0.5, 50.0):
        content["all_rounds"]["epsilon_upper_at_minimum"] = number
        with pytest.raises(CertificateError, match="must be null if a batch was below"):
            check_statement(SHORT, QUERIES, content)
