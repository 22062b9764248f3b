"""The client: it encodes, randomizes and seals a device's answers on the device, and only then sends them.

An application embeds `Device`; a `Gateway` carries the submissions of many devices. Both take a signed task, the public
keys of the operator and the shuffler (pinned: there is no trust on first use), a state file and the shuffler's address:

    device = Device(
        Path("flights.json").read_bytes(),
        operator_key=Path("operator.pub.pem").read_bytes(),
        shuffler_key=Path("shuffler.pub.pem").read_bytes(),
        state=Path("device.sqlite"),
        shuffler="shuffler.example.org:7000",
        authority=Path("authority.pem"),
    )
    async with device:
        receipt = await device.submit({"carrier": "UA", "departure_delay": None})

Every call for one round returns the same receipt. A round's answers are randomized only once, even if the program is
killed in between. Each stage is a module: `encode`, `randomize`, `seal`, `submit`.
"""

from hubbub.client.device import Device
from hubbub.client.errors import AnswerError, KeySetChanged, NoRound, StateError
from hubbub.client.gateway import Gateway, Summary
from hubbub.client.submit import Pacing, Patience
from hubbub.protos.errors import HubbubError, KeyRecordError, MessageError, SignatureError, TaskError, Unreachable
from hubbub.protos.messages import Receipt
from hubbub.protos.refusals import Reason, Refusal
from hubbub.queries.question import Value

__all__ = [
    "AnswerError",
    "Device",
    "Gateway",
    "HubbubError",
    "KeyRecordError",
    "KeySetChanged",
    "MessageError",
    "NoRound",
    "Pacing",
    "Patience",
    "Reason",
    "Receipt",
    "Refusal",
    "SignatureError",
    "StateError",
    "Summary",
    "TaskError",
    "Unreachable",
    "Value",
]
