"""Names the roles that the certificates of callers show, and which of them may look or change something.

A certificate's common name is a role. A reader's may have a name of its own behind a colon: `reader:ana` has the role
`reader`. No other role has names: `operator:ana` is no operator.

TLS checks that the deployment's authority issued a certificate, so a name cannot be made up. The role says what its
owner may do; the name says only who it was, for the log.
"""

from __future__ import annotations

import re

from hubbub.protos.errors import UsageError

OPERATOR, READER = "operator", "reader"

OPERATORS = frozenset({OPERATOR})
"""Roles that may change something: close rounds, revoke devices."""

READERS = frozenset({OPERATOR, READER})
"""Roles that may look: at tasks, rounds, results, certificates and incidents."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,30}[a-z0-9])?")
"""A common name has at most 64 characters by X.509; this and its role have at most 39."""


def reader_called(name: str) -> str:
    """Return the common name of the certificate of a reader with that name; of one without a name if it is empty.

    Raises:
        UsageError: if it is not 1 to 32 small letters, digits, dots, hyphens and underscores.
    """
    if not name:
        return READER
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"a reader cannot be called {name!r:.80}; a name has 1 to 32 small letters, digits, dots, hyphens and "
            "underscores, and begins and ends with a letter or a digit"
        )
    return f"{READER}:{name}"


def role_of(common_name: str) -> str:
    """Return the role in a certificate's common name: `reader` of `reader:ana`, and any other name as it is.

    A name that `reader_called` does not make is no reader's: the whole text is returned, which is no role.
    """
    role, colon, name = common_name.partition(":")
    return role if colon and role == READER and _NAME.fullmatch(name) else common_name
