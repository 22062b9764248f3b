"""A mechanism has one form as JSON values, and nothing else is read as it."""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import (
    KRR,
    RAPPOR,
    Finite,
    Gaussian,
    Generic,
    Hashed,
    Laplace,
    LocalMechanism,
    Sequence,
    mechanism_kind,
    mechanism_members,
    read_mechanism,
)

QUARTER, HALF = Fraction(1, 4), Fraction(1, 2)

KRR_FORM = {"mechanism": "krr", "categories": 16, "gamma": [2**30, 2**32]}
UNARY_FORM = {"mechanism": "unary", "categories": 3, "truthful": [3 * 2**30, 2**32], "other": [2**30, 2**32]}
HASHED_FORM = {"mechanism": "hashed", "cells": 4096, "gamma": [2**30, 2**32], "rows": 256}

FINITE_FORM = {
    "mechanism": "finite",
    "law": [["1/2", "1/4", "1/4"], ["1/4", "1/4", "1/2"]],
    "blanket": ["1/4", "1/8", "1/4"],
    "neighbors": None,
    "dummy": ["1/2", "1/4", "1/4"],
}

NUMERATOR = st.integers(1, 2**32 - 1)
LOCAL = st.floats(1e-20, 40.0)
MECHANISMS: st.SearchStrategy[LocalMechanism] = st.one_of(
    st.builds(KRR.from_numerator, st.integers(2, 2**31), st.integers(1, 2**32)),
    st.builds(
        lambda k, pair: RAPPOR.from_numerators(k, max(pair), min(pair)),
        st.integers(2, 9),
        st.tuples(NUMERATOR, NUMERATOR),
    ),
    st.builds(Generic, LOCAL),
    st.builds(Laplace, LOCAL),
    st.builds(Hashed.from_numerator, st.integers(3, 2**20), st.integers(1, 2**12), st.integers(1, 2**32)),
    st.builds(
        lambda two, steady: Sequence(max(two), min(two), steady), st.tuples(LOCAL, LOCAL), st.integers(1, 10**12)
    ),
    st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=2, max_size=4).map(
        lambda rows: Finite(tuple(tuple(Fraction(each, sum(row)) for each in row) for row in rows), None, ((1, 0),))
    ),
)


@pytest.mark.parametrize(
    ("mechanism", "content"),
    [
        (KRR(16, Fraction(1, 4)), KRR_FORM),
        (RAPPOR.from_numerators(3, 3 * 2**30, 2**30), UNARY_FORM),
        (Hashed.from_numerator(4096, 256, 2**30), HASHED_FORM),
        (Generic(0.5), {"mechanism": "generic", "epsilon_local_hex": "0x1.0000000000000p-1"}),
        (
            Finite(
                ((HALF, QUARTER, QUARTER), (QUARTER, QUARTER, HALF)),
                (QUARTER, Fraction(1, 8), QUARTER),
                dummy=(HALF, QUARTER, QUARTER),
            ),
            FINITE_FORM,
        ),
        (Laplace(1.0), {"mechanism": "laplace", "epsilon_local_hex": "0x1.0000000000000p+0"}),
    ],
)
def test_the_forms_are_these(mechanism: LocalMechanism, content: dict[str, Any]) -> None:
    assert mechanism.content() == content
    assert read_mechanism(content) == mechanism


@given(MECHANISMS)
def test_what_is_written_is_read_back_also_through_json(mechanism: LocalMechanism) -> None:
    assert read_mechanism(json.loads(json.dumps(mechanism.content()))) == mechanism


@given(MECHANISMS)
def test_the_members_are_those_the_registry_names_and_no_floats(mechanism: LocalMechanism) -> None:
    content = mechanism.content()
    assert mechanism_kind(content["mechanism"]) is type(mechanism)
    assert set(content) == {"mechanism", *mechanism_members(content["mechanism"])}
    assert not any(type(value) is float for value in content.values())


@pytest.mark.parametrize(
    "mechanism",
    [KRR(3, Fraction(1, 3)), RAPPOR(3, Fraction(2, 3), Fraction(1, 4)), RAPPOR(3, Fraction(3, 4), Fraction(1, 3))],
)
def test_a_probability_that_is_no_numerator_cannot_be_written(mechanism: LocalMechanism) -> None:
    with pytest.raises(AccountingError, match="not a multiple of 1/4294967296"):
        mechanism.content()


@pytest.mark.parametrize("kind", ["hash", "KRR", "", None, 1, ["krr"], {}])
def test_an_unknown_kind_is_an_error_and_never_another(kind: object) -> None:
    with pytest.raises(AccountingError, match="give one of krr, unary"):
        read_mechanism({**KRR_FORM, "mechanism": kind})
    with pytest.raises(AccountingError, match="give one of"):
        mechanism_members(kind)


def test_gaussian_noise_has_no_form() -> None:
    assert not hasattr(Gaussian(1.0), "content")


@pytest.mark.parametrize(
    ("content", "changed"),
    [
        (KRR_FORM, {"categories": 1}),
        (KRR_FORM, {"categories": 16.0}),
        (KRR_FORM, {"categories": True}),
        (KRR_FORM, {"categories": "16"}),
        (KRR_FORM, {"gamma": [0, 2**32]}),
        (KRR_FORM, {"gamma": [2**32 + 1, 2**32]}),
        (KRR_FORM, {"gamma": [1, 4]}),
        (KRR_FORM, {"gamma": 0.25}),
        (KRR_FORM, {"gamma": [2.0**30, 2**32]}),
        (KRR_FORM, {"gamma": (2**30, 2**32)}),
        (KRR_FORM, {"note": 1}),
        (KRR_FORM, {"mechanism": "unary"}),
        (UNARY_FORM, {"truthful": [2**29, 2**32]}),
        (UNARY_FORM, {"truthful": [2**32, 2**32]}),
        (UNARY_FORM, {"other": [0, 2**32]}),
        (UNARY_FORM, {"mechanism": "krr"}),
        (Generic(0.5).content(), {"mixed": True}),
        (Generic(0.5).content(), {"epsilon_local_hex": "0x1p-1"}),
        (Generic(0.5).content(), {"epsilon_local_hex": "0x1p99999"}),
        (Generic(0.5).content(), {"epsilon_local_hex": "half"}),
        (FINITE_FORM, {"law": [["2/4", "1/4", "1/4"], ["1/4", "1/4", "1/2"]]}),
        (FINITE_FORM, {"law": [["0.5", "1/4", "1/4"], ["1/4", "1/4", "1/2"]]}),
        (FINITE_FORM, {"law": [["1/0", "1/4", "1/4"], ["1/4", "1/4", "1/2"]]}),
        (FINITE_FORM, {"law": [[0.5, 0.25, 0.25], ["1/4", "1/4", "1/2"]]}),
        (FINITE_FORM, {"blanket": ["1/2", "1/4", "1/4"]}),
        (FINITE_FORM, {"neighbors": [[0, 1]]}),
        (FINITE_FORM, {"neighbors": [[0, 1, 2]]}),
        (FINITE_FORM, {"dummy": "1/2"}),
        (Laplace(0.5).content(), {"epsilon_local_hex": "inf"}),
        (Laplace(0.5).content(), {"epsilon_local_hex": 0.5}),
    ],
    ids=str,
)
def test_anything_else_is_refused(content: dict[str, Any], changed: dict[str, Any]) -> None:
    with pytest.raises(AccountingError):
        read_mechanism({**content, **changed})


@pytest.mark.parametrize("name", sorted(UNARY_FORM))
def test_a_missing_member_is_refused(name: str) -> None:
    with pytest.raises(AccountingError):
        read_mechanism({key: value for key, value in UNARY_FORM.items() if key != name})


@pytest.mark.parametrize("content", [None, [], "krr", 1])
def test_what_is_no_mapping_is_refused(content: Any) -> None:
    with pytest.raises(AccountingError, match="give a mapping"):
        read_mechanism(content)


@pytest.mark.parametrize("numerator", [0, 2**32, -1, True, 1.0, "1"])
def test_a_numerator_outside_its_range_is_refused(numerator: int) -> None:
    with pytest.raises(AccountingError, match="truthful numerator"):
        RAPPOR.from_numerators(3, numerator, 1)
    with pytest.raises(AccountingError, match="other numerator"):
        RAPPOR.from_numerators(3, 2**31, numerator)
