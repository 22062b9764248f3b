"""Redeeming: devices' tickets become their credentials at the shuffler, each by its device's secret."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from hubbub.client.submit import Link, Pacing
from hubbub.protos.enrollment.credentials import Credential
from hubbub.protos.errors import MessageError, Unreachable
from hubbub.protos.messages import Redemption
from hubbub.protos.refusals import TRANSIENT, Refusal
from hubbub.protos.rpc.enrollment import MOST_REDEMPTIONS

Untaken = Refusal | Unreachable | MessageError
"""Why there is no credential for a ticket: it was refused, or nothing that can be read was answered."""


async def redeem(link: Link, redemptions: Mapping[str, Redemption], pacing: Pacing) -> dict[str, Credential | Refusal]:
    """Redeem tickets that their devices cannot do without; return each one's last answer, by device.

    Raises:
        Unreachable, MessageError: as calls to the shuffler do.
    """
    answers: dict[str, Credential | Refusal] = {}

    async def attempt(deadline: float) -> None:
        await _ask(link, redemptions, deadline, answers)
        for answer in answers.values():
            if isinstance(answer, Refusal) and answer.reason in TRANSIENT:
                raise answer

    try:
        if redemptions:
            await pacing.persist(attempt)
    except Refusal as refusal:
        return {device: answers.get(device, refusal) for device in redemptions}
    return answers


async def redeem_once(
    link: Link, redemptions: Mapping[str, Redemption], pacing: Pacing
) -> dict[str, Credential | Untaken]:
    """Try to redeem tickets of devices that have a credential to go on with; return each one's answer, by device.

    They are asked for once, so that a shuffler which refuses or does not answer leaves time to submit.
    """
    answers: dict[str, Credential | Refusal] = {}
    try:
        if redemptions:
            await pacing.once(lambda deadline: _ask(link, redemptions, deadline, answers))
    except (Refusal, Unreachable, MessageError) as error:
        return {device: answers.get(device, error) for device in redemptions}
    return {**answers}


async def _ask(
    link: Link,
    redemptions: Mapping[str, Redemption],
    deadline: float,
    answers: MutableMapping[str, Credential | Refusal],
) -> None:
    """Ask for all that have no credential yet, and add what is answered to `answers`."""
    asked = [device for device in redemptions if not isinstance(answers.get(device), Credential)]
    for start in range(0, len(asked), MOST_REDEMPTIONS):
        some = asked[start : start + MOST_REDEMPTIONS]
        found = await link.caller.enrol([redemptions[device] for device in some], deadline)
        answers.update(zip(some, found, strict=True))
