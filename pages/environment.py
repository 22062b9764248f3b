"""Makes the templates of a kind of pages, with what all pages share: the frame, the style and the policy."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

SHARED = "hubbub.pages"

NOT_STATED = "not stated in the task"
"""Shown for words that a task may have, and has not."""


@cache
def style() -> str:
    """Return the style sheet of all pages: readable in the dark, on a phone and printed."""
    return (files(SHARED) / "templates" / "style.css").read_text(encoding="utf-8")


@cache
def icon() -> str:
    """Return the picture of a served page's tab, as SVG: without one, browsers ask for a file that is not there."""
    return (files(SHARED) / "templates" / "icon.svg").read_text(encoding="utf-8")


def policy_of(text: str) -> str:
    """Return the Content-Security-Policy of a page in one file: its own style alone, no script, and no other host."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def environment(package: str) -> Environment:
    """Return the templates of a package of pages, such as "hubbub.pages.dictionary".

    Everything that they show is escaped, and an unknown name is an error. A template begins with
    `{% extends "frame.html" %}` and fills the blocks `title` and `body`, also `header` if it has navigation. The style
    is in the page, and the policy in a meta tag; a page that a server sends with headers replaces the block `style`.
    """
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(SHARED)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The file is the project's own; nothing that anybody else wrote is in it.
    made.globals |= {"style": Markup(style()), "policy": policy_of(style()), "not_stated": NOT_STATED}  # noqa: S704
    return made
