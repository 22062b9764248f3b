"""Reads and writes the messages of calls as JSON, in protobuf's mapping: the default of Connect's clients for the web.

JSON costs ten times as much to read as protobuf. So a message in JSON is small, and has few members.
Source: https://protobuf.dev/programming-guides/json
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pool, json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from hubbub.protos.errors import MessageError
from hubbub.protos.strict_json import JsonError, read_json

LARGEST_JSON = 64 * 1024
"""Most bytes of a message in JSON."""

MOST_MEMBERS = 256
"""Most members and elements of a message in JSON: of one device's submission, and of a few devices' batch."""

_BASE64 = re.compile(r"(?:[\w+/-]{4})*(?:[\w+/-]{2}(?:==)?|[\w+/-]{3}=?)?", re.ASCII)
"""Of either alphabet, with its padding or without."""


def answers_of(service: str) -> Mapping[str, type[Message]]:
    """Return the message that answers each call of a service, by the call's name."""
    methods = descriptor_pool.Default().FindServiceByName(service).methods
    return {method.name: GetMessageClass(method.output_type) for method in methods}


def read_as_json(kind: type[Message], written: bytes) -> bytes:
    """Return the bytes of the message of that kind that JSON states.

    Raises:
        MessageError: if it is not JSON, can be read in two ways, has too many members, or is no such message.
    """
    # Each has a comma before it, or begins its object or list. Commas in texts count too: there are hardly any.
    if sum(map(written.count, b",{[")) > MOST_MEMBERS:
        raise MessageError(f"the JSON has more than {MOST_MEMBERS} members; send the message as application/proto")
    try:
        stated = read_json(written)
        if not isinstance(stated, dict):
            raise ValueError("it is no object")
        _check_base64(kind.DESCRIPTOR, stated)
        return json_format.ParseDict(stated, kind()).SerializeToString()
    except (JsonError, json_format.ParseError, ValueError, TypeError, AttributeError) as error:
        name = kind.DESCRIPTOR.name
        raise MessageError(f"the JSON is no {name} in protobuf's mapping: {error!s:.200}") from error


def _check_base64(described: Any, stated: Mapping[str, Any]) -> None:
    """Check each text for bytes: protobuf's reader skips what is not in base64."""
    fields = {name: field for field in described.fields for name in (field.name, field.json_name)}
    for name in fields.keys() & stated.keys():
        field, value = fields[name], stated[name]
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict) and field.message_type is not None:
                _check_base64(field.message_type, each)
            elif isinstance(each, str) and field.type == field.TYPE_BYTES and not _BASE64.fullmatch(each):
                raise ValueError(f"{name} is not in base64")


def written_as_json(kind: type[Message], message: bytes) -> bytes:
    """Return a message of that kind, given as its bytes, as JSON."""
    return json.dumps(json_format.MessageToDict(kind.FromString(message)), ensure_ascii=False).encode()
