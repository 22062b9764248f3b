"""All pages have one frame: the style is the only thing that its policy lets through."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from jinja2 import UndefinedError

from hubbub.pages.environment import environment, style
from support.html_page import Page

BODY = (
    '{% extends "frame.html" %}{% block title %}{{ name }}{% endblock %}{% block body %}<p>{{ name }}</p>{% endblock %}'
)


def test_the_policy_is_that_of_the_style_in_the_page() -> None:
    page = environment("hubbub.pages.dictionary").from_string(BODY).render(name="<b>&")
    held = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert held is not None
    digest = base64.b64encode(hashlib.sha256(held[1].encode()).digest()).decode()
    assert Page(page).policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "<b>&" in Page(page).words


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="name"):
        environment("hubbub.pages.dictionary").from_string(BODY).render()


def test_the_style_loads_nothing_and_has_the_dark_and_paper() -> None:
    assert not re.search(r"url\(|@import|</", style())
    assert "prefers-color-scheme: dark" in style()
    assert "@media print" in style()
