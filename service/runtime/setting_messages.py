"""Words the errors of wrong settings for operators; the messages of the validation library are for programmers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORDS: Mapping[str, str] = {
    "bool_parsing": "write true or false",
    "bool_type": "write true or false",
    "dict_type": "it must be a table of its own",
    "finite_number": "it must be a finite number",
    "float_parsing": "it must be a number",
    "float_type": "it must be a number",
    "greater_than": "it must be above {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "int_from_float": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_parsing_size": "it must be a whole number of fewer digits",
    "int_type": "it must be a whole number",
    "less_than": "it must be below {lt}",
    "less_than_equal": "it must be at most {le}",
    "list_type": "it must be a list, in brackets",
    "literal_error": "it must be {expected}",
    "model_type": "it must be a table of its own",
    "path_type": "it must be the name of a file, in quotes",
    "string_too_long": "it must have at most {max_length} characters",
    "string_too_short": "it must have at least {min_length} characters",
    "string_type": "it must be a text, in quotes",
    "too_long": "it may have at most {max_length}",
    "too_short": "it needs at least {min_length}",
    "tuple_type": "it must be a list, in brackets",
}
"""Messages by pydantic's type of problem; braces name its limits."""


def expectation(problem: Mapping[str, Any]) -> str:
    """Return the expected value for a problem that pydantic reports."""
    words = WORDS.get(problem["type"])
    if words is None:
        # Our own checks already have a message, after pydantic's prefix.
        return str(problem["msg"]).removeprefix("Value error, ")
    return words.format(**problem.get("ctx", {}))
