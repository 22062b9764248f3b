"""The versions of the signed forms that carry numbers with a fraction: tasks and certificates.

Key records and batch records hold only whole numbers and ASCII text. Their bytes are the same in both versions of
canonical JSON, so they have one version: a form gets a new version only when its bytes change. docs/formats.md has the
table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import Label, Version
from hubbub.queries.errors import shown


@dataclass(frozen=True)
class Form:
    """A version of a signed form: its name in documents, the label it is signed under, its version of canonical JSON.

    Every version has its own label, so that a signature over bytes that two versions read differently counts for one.
    """

    name: str
    label: Label
    version: Version


UNSTATED = Form("hubbub-task/2", Label.TASK, 2)
"""The last form of a task that does not state its admission, which is then open."""

UNCAPPED = Form("hubbub-task/3", Label.TASK_V3, 2)
"""The last form of a task that does not state the most reports of a round, and whose δ was not held against them."""

TASK_FORMS = (Form("hubbub-task/1", Label.TASK_V1, 1), UNSTATED, UNCAPPED, Form("hubbub-task/4", Label.TASK_V4, 2))
"""Every version of a task that can be read; a new task has the last one."""

CERTIFICATE_FORMS = (
    Form("hubbub-certificate/1", Label.CERTIFICATE_V1, 1),
    Form("hubbub-certificate/2", Label.CERTIFICATE_V2, 2),
    Form("hubbub-certificate/3", Label.CERTIFICATE, 2),
)
"""Every version of a certificate that can be read; new certificates have the last one."""

COUNTED = CERTIFICATE_FORMS[2:]
"""The versions that bind what was counted, by a digest, and say what rests on the analyzer's word."""


def form_named(name: Any, forms: tuple[Form, ...]) -> Form:
    """Return the form that a document names.

    Raises:
        SignatureError: where no form has that name; it lists those that can be read.
    """
    for form in forms:
        if form.name == name:
            return form
    known = " and ".join(form.name for form in forms)
    raise SignatureError(f"{shown(name)} is not a form that is read here; this version reads {known}")


def version_at(forms: tuple[Form, ...], *path: str) -> Callable[[Any], Version]:
    """Return a function that finds a document's version of canonical JSON from the format named under the keys `path`.

    It is the `version` of `parse_canonical`. A value that names no format there is taken for the newest version: the
    code that reads the value afterwards says what is missing.
    """

    def find(value: Any) -> Version:
        for key in (*path, "format"):
            if not isinstance(value, dict) or key not in value:
                return forms[-1].version
            value = value[key]
        return form_named(value, forms).version

    return find
