"""The pictures in docs/pictures: drawing them again gives the same bytes, and their numbers are the accountant's."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from fractions import Fraction

import pytest

from hubbub.accountant import KRR, epsilon_bracket
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.numbers import round_up_significant
from pictures.canvas import WIDTH
from pictures.draw import FOLDER, PICTURES
from pictures.numbers import CARRIERS, CROWDS, DEVICES, GAMMA, RUNGS

DELAY = KRR(categories=6, gamma=Fraction(432392680, 2**32))
"""The randomizer of the demo's other question, as its certificate states it."""

SVG = "{http://www.w3.org/2000/svg}"


def test_every_picture_is_drawn_and_nothing_else_is_there() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_drawing_again_gives_the_same_bytes(name: str) -> None:
    assert (FOLDER / f"{name}.svg").read_bytes() == PICTURES[name]().encode()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_title_a_description_and_colors_for_the_dark(name: str) -> None:
    picture = PICTURES[name]()
    root = ElementTree.fromstring(picture)
    assert [root[0].tag, root[1].tag] == [f"{SVG}title", f"{SVG}desc"]
    assert root[0].text
    assert root[1].text
    assert "prefers-color-scheme: dark" in picture


@pytest.mark.parametrize("name", PICTURES)
def test_no_shape_leaves_its_picture(name: str) -> None:
    root = ElementTree.fromstring(PICTURES[name]())
    height = float(root.attrib["viewBox"].split()[3])
    for box in root.iter(f"{SVG}rect"):
        left, top, width, tall = (float(box.attrib[side]) for side in ("x", "y", "width", "height"))
        assert 0 <= left <= left + width <= WIDTH
        assert 0 <= top <= top + tall <= height
    for words in root.iter(f"{SVG}text"):
        assert 0 < float(words.attrib["y"]) < height - 5


def test_the_numbers_of_the_crowds_are_the_accountants() -> None:
    krr = KRR(categories=len(CARRIERS), gamma=GAMMA)
    assert DEVICES == 20_000
    for people, epsilon in CROWDS.items():
        assert round_up_significant(epsilon_bracket(krr, people, 1e-6).epsilon_upper, 6) == pytest.approx(epsilon)


@pytest.mark.slow
def test_the_numbers_of_the_ladder_are_those_of_a_certificate_and_of_its_page() -> None:
    terms = Terms(epsilon=1.0, delta=1e-6, epsilon_local=8.0, honest_share=1.0, minimum_reports=18_000)
    mechanisms = {"carrier": KRR(categories=len(CARRIERS), gamma=GAMMA), "departure_delay": DELAY}
    counts = tuple(QueryCount(name, each, DEVICES, DEVICES, {}) for name, each in mechanisms.items())
    stated = statement(terms, [RoundCounts(0, counts)])
    total = stated["round_total"]
    assert {member: number for member, number, _ in RUNGS} == {member: f"{total[member]:g}" for member, _, _ in RUNGS}
    page = (FOLDER.parent / "explanation" / "certificate-ladder.md").read_text()
    numbers = [number for _, number, _ in RUNGS] + [f"{query['epsilon_upper']:g}" for query in stated["queries"]]
    numbers += [f"{total['epsilon_lower']:g}", f"{stated['all_rounds']['epsilon_upper_at_minimum']:g}"]
    assert [number for number in numbers if number not in page] == []
