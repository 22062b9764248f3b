"""What can go wrong on a device, beside a refusal (`Refusal`) and a shuffler that does not answer (`Unreachable`)."""

from __future__ import annotations

from hubbub.protos.errors import HubbubError
from hubbub.queries.errors import AnswerError as AnswerError


class NoRound(HubbubError):
    """The round that was asked for takes no answers now, or there is none; the message says when there is one."""


class StateError(HubbubError):
    """A state file that cannot be used: of another version, damaged, locked, or the disk is full."""


class KeySetChanged(HubbubError):
    """A round showed other keys than before: a device may have been singled out, so it sends nothing under them."""
