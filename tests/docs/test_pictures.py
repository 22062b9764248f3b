"""The pictures in docs/pictures: drawing them again gives the same bytes, and their numbers are the accountant's."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from hubbub.accountant import KRR, NoiseLaw, WithNoise, epsilon_bracket
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.mechanisms import LocalMechanism
from hubbub.accountant.numbers import round_up_significant
from pictures.canvas import WIDTH
from pictures.draw import FOLDER, PICTURES
from pictures.numbers import CARRIERS, CROWDS, DEVICES, GAMMA, RUNGS

CARRIER, DELAY = KRR(categories=len(CARRIERS), gamma=GAMMA), KRR(categories=6, gamma=Fraction(432392680, 2**32))
"""The randomizers of the demo's two questions, as its certificate states them."""

NOISY = {
    "carrier": WithNoise(CARRIER, NoiseLaw("geometric", 3145702251, 43)),
    "departure_delay": WithNoise(DELAY, NoiseLaw("geometric", 3260104518, 48)),
}
"""The same beside the shuffler's noise."""

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
    assert DEVICES == 20_000
    for people, epsilon in CROWDS.items():
        assert round_up_significant(epsilon_bracket(CARRIER, people, 1e-6).epsilon_upper, 6) == pytest.approx(epsilon)


def test_the_numbers_of_the_ladder_are_those_of_a_certificate_and_of_its_page() -> None:
    stated, without = _stated(NOISY), _stated({"carrier": CARRIER, "departure_delay": DELAY})
    total = stated["round_total"]
    assert {member: number for member, number, _ in RUNGS} == {member: f"{total[member]:g}" for member, _, _ in RUNGS}
    page = (FOLDER.parent / "explanation" / "certificate-ladder.md").read_text()
    numbers = [number for _, number, _ in RUNGS] + [f"{query['epsilon_upper']:g}" for query in stated["queries"]]
    numbers += [f"{query['epsilon_upper_alone']:g}" for query in stated["queries"]]
    numbers.append(f"{total['epsilon_lower']:g}")
    assert {total[name] for name in UPPER} == {without["round_total"][name] for name in UPPER}
    numbers += [f"{without['round_total']['epsilon_lower']:g}", f"{stated['all_rounds']['epsilon_upper_at_minimum']:g}"]
    assert [number for number in numbers if number not in page] == []


UPPER = ("epsilon_upper", "epsilon_upper_if_minimum_valid", "epsilon_local")
"""What noise of the shuffler does not change in the demo: its people give these numbers."""


def _stated(mechanisms: Mapping[str, LocalMechanism]) -> dict[str, Any]:
    terms = Terms(epsilon=1.0, delta=1e-6, epsilon_local=8.0, honest_share=1.0, minimum_reports=18_000)
    counts = tuple(QueryCount(name, each, DEVICES, DEVICES, {}) for name, each in mechanisms.items())
    return dict(statement(terms, [RoundCounts(0, counts)]))
