"""What is left where valid reports are the analyzer's lie: properties over mechanisms, counts, shares and dummies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.certificate.alone import ALONE, IF_MINIMUM_VALID
from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.errors import CertificateError
from hubbub.accountant.mechanisms import KRR, RAPPOR, Hashed
from support.thoroughness import usually

mechanisms = st.one_of(
    st.builds(KRR.from_numerator, st.sampled_from([3, 16]), st.sampled_from([2**28, 2**30, 2**31])),
    st.builds(Hashed.from_numerator, st.sampled_from([3, 64]), st.just(8), st.just(2**30)),
    st.builds(RAPPOR.from_numerators, st.just(3), st.just(2**31), st.just(2**29)),
)
shares = st.sampled_from([1.0, 0.9, 0.5])


@st.composite
def certified(draw: st.DrawFn) -> tuple[Terms, list[QueryCount]]:
    minimum = draw(st.integers(2, 60))
    terms = Terms(50.0, 1e-4, 50.0, draw(shares), minimum, dummies=draw(st.sampled_from([0, 40])))
    reports = draw(st.integers(minimum, 2 * minimum))
    valid = draw(st.integers(0, reports))
    # One query: several are composed, which takes seconds at few reports, and is asked in tests/oracle.
    return terms, [QueryCount("q", draw(mechanisms), reports, valid, {"unopenable": reports - valid})]


def made(terms: Terms, queries: list[QueryCount]) -> dict[str, object]:
    return {**statement(terms, [RoundCounts(0, tuple(queries))]), "round": 0}


def check(terms: Terms, queries: list[QueryCount], content: dict[str, object]) -> None:
    check_statement(terms, [(query.name, query.mechanism) for query in queries], content)


@settings(deadline=None, max_examples=usually(4, 8), derandomize=True)
@given(certified())
def test_fewer_valid_reports_never_cost_less_and_what_is_attested_hangs_on_none(
    found: tuple[Terms, list[QueryCount]],
) -> None:
    terms, queries = found
    content = made(terms, queries)
    check(terms, queries, content)
    liar = [replace(query, valid=query.reports, left_out={}) for query in queries]
    lie = made(terms, liar)
    check(terms, liar, lie)
    places = [("round_total", None), ("all_rounds", None), *(("queries", number) for number in range(len(queries)))]
    for name, number in places:
        stated, told = ((each[name] if number is None else each[name][number]) for each in (content, lie))  # type: ignore[index]
        upper, minimum, attested = stated["epsilon_upper"], stated[IF_MINIMUM_VALID], stated[ALONE]
        assert upper <= attested
        # As it never falls below the other numbers, it may be larger by their slack where more is certified.
        assert told[ALONE] == pytest.approx(attested, rel=1e-3)
        assert told["epsilon_upper"] <= told[IF_MINIMUM_VALID] <= told[ALONE]
        of = queries if number is None else [queries[number]]
        assert (minimum is None) == any(query.valid < terms.minimum_reports for query in of)
        if minimum is not None:
            assert upper <= minimum <= attested
            assert told[IF_MINIMUM_VALID] == pytest.approx(minimum, rel=1e-3)


@settings(deadline=None, max_examples=4, derandomize=True)
@given(certified(), st.sampled_from([ALONE, IF_MINIMUM_VALID]), st.sampled_from(["round_total", "all_rounds"]))
def test_a_smaller_number_is_refused(found: tuple[Terms, list[QueryCount]], member: str, where: str) -> None:
    terms, queries = found
    queries = [replace(query, valid=query.reports, left_out={}) for query in queries]
    content = made(terms, queries)
    stated = content[where]
    assert isinstance(stated, dict)
    for wrong in (stated[member] * 0.98, None):
        changed = {**content, where: {**stated, member: wrong}}
        with pytest.raises(CertificateError):
            check(terms, queries, changed)
