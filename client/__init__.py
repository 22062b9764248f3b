"""The client encodes, randomizes and seals a device's answers on the device, and only then sends them.

An application embeds `Device`. A `Fleet` is many devices in one place, and is given their answers. Both take a signed
task, the public keys of the operator and the shuffler, a state file and the shuffler's address: as arguments, from a
settings file, or from variables such as HUBBUB_STATE. The keys are pinned: there is no trust on first use.

    device = Device.from_settings("client.toml")
    async with device:
        receipt = await device.submit({"carrier": "UA", "departure_delay": None})

A `Gateway` carries submissions that devices have sealed (`Device.prepare`, `Device.settle`), and is given no answers.

Every call for one round returns the same receipt. A round's answers are randomized only once, even if the program is
killed in between or the shuffler cannot be reached: the reports are stored first, and `resend` sends them later. An
application that must not wait hands its answers to a `Recorder`. Each stage is a module: `encode`, `randomize`, `seal`,
`submit`.

A name is imported when it is first used: `import hubbub.client` alone loads nothing of gRPC or TLS, so that an
application starts as fast with it as without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubbub.client.device import Device, DeviceReceipt
    from hubbub.client.errors import (
        AnswerError,
        AuthorityError,
        Expired,
        KeySetChanged,
        NoRound,
        OptedOut,
        OverLimit,
        StateError,
        UsageError,
    )
    from hubbub.client.feed import TaskFeed
    from hubbub.client.fleet import Fleet, Summary
    from hubbub.client.gateway import Gateway
    from hubbub.client.limits import PrivacyLimits
    from hubbub.client.preview import Preview, PreviewedQuery
    from hubbub.client.privacy.certificates import CertifiedLoss
    from hubbub.client.privacy.report import Budget, Epsilon, TaskBudget
    from hubbub.client.recorder import Recorder, RecorderCounts
    from hubbub.client.session.sealed_submission import Ending, Outcome, SealedSubmission
    from hubbub.client.settings import DeviceSettings, read_settings
    from hubbub.client.status import Answer, DeviceRound, DeviceStatus, Spending
    from hubbub.client.submit import Retry, Retrying, RetryPolicy
    from hubbub.protos.errors import (
        CannotCall,
        Distrusted,
        HubbubError,
        KeyRecordError,
        MessageError,
        SettingsError,
        SignatureError,
        TaskError,
        Unreachable,
    )
    from hubbub.protos.messages import Receipt
    from hubbub.protos.refusals import Reason, Refusal
    from hubbub.protos.task.feed.entry import FeedError
    from hubbub.protos.transparency_log.policy import NotLogged
    from hubbub.queries.questions.question import Value

__all__ = [
    "Answer",
    "AnswerError",
    "AuthorityError",
    "Budget",
    "CannotCall",
    "CertifiedLoss",
    "Device",
    "DeviceReceipt",
    "DeviceRound",
    "DeviceSettings",
    "DeviceStatus",
    "Distrusted",
    "Ending",
    "Epsilon",
    "Expired",
    "FeedError",
    "Fleet",
    "Gateway",
    "HubbubError",
    "KeyRecordError",
    "KeySetChanged",
    "MessageError",
    "NoRound",
    "NotLogged",
    "OptedOut",
    "Outcome",
    "OverLimit",
    "Preview",
    "PreviewedQuery",
    "PrivacyLimits",
    "Reason",
    "Receipt",
    "Recorder",
    "RecorderCounts",
    "Refusal",
    "Retry",
    "RetryPolicy",
    "Retrying",
    "SealedSubmission",
    "SettingsError",
    "SignatureError",
    "Spending",
    "StateError",
    "Summary",
    "TaskBudget",
    "TaskError",
    "TaskFeed",
    "Unreachable",
    "UsageError",
    "Value",
    "read_settings",
]

_MODULES = {
    "hubbub.client.device": (
        "Device",
        "DeviceReceipt",
    ),
    "hubbub.client.errors": (
        "AnswerError",
        "AuthorityError",
        "Expired",
        "KeySetChanged",
        "NoRound",
        "OptedOut",
        "OverLimit",
        "StateError",
        "UsageError",
    ),
    "hubbub.client.feed": ("TaskFeed",),
    "hubbub.client.fleet": (
        "Fleet",
        "Summary",
    ),
    "hubbub.client.gateway": ("Gateway",),
    "hubbub.client.limits": ("PrivacyLimits",),
    "hubbub.client.preview": ("Preview", "PreviewedQuery"),
    "hubbub.client.privacy.certificates": ("CertifiedLoss",),
    "hubbub.client.privacy.report": (
        "Budget",
        "Epsilon",
        "TaskBudget",
    ),
    "hubbub.client.recorder": (
        "Recorder",
        "RecorderCounts",
    ),
    "hubbub.client.session.sealed_submission": (
        "Ending",
        "Outcome",
        "SealedSubmission",
    ),
    "hubbub.client.settings": (
        "DeviceSettings",
        "read_settings",
    ),
    "hubbub.client.status": (
        "Answer",
        "DeviceRound",
        "DeviceStatus",
        "Spending",
    ),
    "hubbub.client.submit": (
        "Retry",
        "Retrying",
        "RetryPolicy",
    ),
    "hubbub.protos.errors": (
        "CannotCall",
        "Distrusted",
        "HubbubError",
        "KeyRecordError",
        "MessageError",
        "SettingsError",
        "SignatureError",
        "TaskError",
        "Unreachable",
    ),
    "hubbub.protos.transparency_log.policy": ("NotLogged",),
    "hubbub.protos.messages": ("Receipt",),
    "hubbub.protos.refusals": (
        "Reason",
        "Refusal",
    ),
    "hubbub.protos.task.feed.entry": ("FeedError",),
    "hubbub.queries.questions.question": ("Value",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Kept, so that this is called once for each name.
    found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
