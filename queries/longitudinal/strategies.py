"""All strategies to send a stream, by name. To add one, add a line here."""

from __future__ import annotations

from collections.abc import Mapping

from hubbub.accountant.mechanisms.longitudinal import Direct, Sampled, Tree, Vector
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.signs import SendingOneChange, SendingVector
from hubbub.queries.longitudinal.strategy import Sending
from hubbub.queries.longitudinal.tree import SendingNodes

SENDINGS: Mapping[str, type[Sending]] = {
    Direct.kind: SendingStates,
    Vector.kind: SendingVector,
    Sampled.kind: SendingOneChange,
    Tree.kind: SendingNodes,
}
