"""Reads, writes and checks signed tasks: a task with the signatures of the operator and the shuffler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from math import floor
from typing import Any

from hubbub.protos.errors import SignatureError, SuiteError, TaskError
from hubbub.protos.escaping import hex_repr
from hubbub.protos.identity.documents import (
    SIGNATURE_BYTES,
    canonical,
    from_hex,
    parse_named,
    sign,
    with_floats,
)
from hubbub.protos.identity.formats import FEED_ENTRY, TASK
from hubbub.protos.identity.keys import CORE_ROLES, Identity, Role, identity_from_hex
from hubbub.protos.identity.successions import Succession
from hubbub.protos.sealing.suites import suite_named
from hubbub.protos.strict_json import JsonError, NotJson, read_json
from hubbub.protos.task.about import About
from hubbub.protos.task.admission import read_admission
from hubbub.protos.task.draft import check_draft
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Identities, Privacy, Task, task_content
from hubbub.protos.task.two_signed import TwoSigned
from hubbub.protos.transparency_log.policy import LogPolicy
from hubbub.queries.longitudinal.over_rounds import Repeated
from hubbub.queries.query import Query

_FLOATS_OF_PRIVACY = ("delta", "epsilon", "epsilon_local", "epsilon_total", "honest_share")


@dataclass(frozen=True)
class SignedTask:
    """A task with the signatures of operator and shuffler; None for a party that has not signed yet."""

    __repr__ = hex_repr

    task: Task
    operator_signature: bytes | None = None
    shuffler_signature: bytes | None = None

    def signed_by(self, identity: Identity) -> SignedTask:
        """Add the signature of the party with this identity.

        Raises:
            SignatureError: if it is neither the operator's nor the shuffler's.
        """
        signature = sign(TASK.format, self.task.canonical, identity.key)
        if identity.public == self.task.identities.operator:
            return SignedTask(self.task, signature, self.shuffler_signature)
        if identity.public == self.task.identities.shuffler:
            return SignedTask(self.task, self.operator_signature, signature)
        raise SignatureError("this key is neither the task's operator's nor its shuffler's; only those two sign a task")

    def check(
        self, operator: bytes, shuffler: bytes, successions: Sequence[Succession] = (), own: Role | None = None
    ) -> Task:
        """Return the task, checked to name and to be signed by both identities (32 bytes each), known out of band.

        With `successions`, an identity counts as the same as its successors and predecessors. `own` is the role of the
        caller itself, if it has one: it is not told to ask itself for its key.

        Raises:
            SignatureError: naming the party with the wrong identity or signature, or the succession.
        """
        identities = self.task.identities
        known = {Role.OPERATOR: operator, Role.SHUFFLER: shuffler, Role.ANALYZER: identities.analyzer}
        statement = TwoSigned(TASK, self.task.canonical, self.operator_signature, self.shuffler_signature)
        lineage = statement.check(identities.operator, identities.shuffler, known, successions, own)
        return self.task if lineage is None else replace(self.task, lineage=lineage)

    def as_json(self) -> dict[str, Any]:
        """Return the task and its signatures as JSON."""
        signatures = {"operator": self.operator_signature, "shuffler": self.shuffler_signature}
        return {
            "signatures": {role: signature.hex() for role, signature in signatures.items() if signature is not None},
            "task": task_content(self.task),
        }

    def encode(self) -> bytes:
        """Return the canonical bytes of the signed task, which are the content of a task file."""
        return canonical(self.as_json())

    @classmethod
    def from_json(cls, value: Any) -> SignedTask:
        """Read the output of `as_json`; the caller still has to call `check`.

        Raises:
            SignatureError: if the form is wrong.
            TaskError: if the task itself is not one that hubbub runs.
        """
        if not isinstance(value, dict) or set(value) != {"signatures", "task"}:
            raise SignatureError(
                "not a signed task, which has exactly the members signatures and task; `hubbub plan` writes one"
            )
        signatures = value["signatures"]
        if not isinstance(signatures, dict) or not set(signatures) <= {"operator", "shuffler"}:
            raise SignatureError("a task is signed by operator and shuffler only, but this one has other signatures")
        raw = {role: from_hex(text, SIGNATURE_BYTES, f"the {role}'s signature") for role, text in signatures.items()}
        return cls(read_task(value["task"]), raw.get("operator"), raw.get("shuffler"))

    @classmethod
    def decode(cls, document: bytes) -> SignedTask:
        """Read a task file; the caller still has to call `check`.

        Raises:
            SignatureError: if the bytes are not in canonical form, or are not a task at all, describing them.
            TaskError: if the task itself is not one that hubbub runs.
        """
        try:
            value = parse_named(document, TASK, "task")
        except SignatureError as error:
            instead = _instead(document)
            raise SignatureError(instead) if instead else error from None
        return cls.from_json(value)


def _instead(document: bytes) -> str:
    """Describe a file that is not even JSON, or publishes a task by a feed; return an empty text for all others."""
    content = document.strip()
    if not content:
        return "an empty file, not a signed task; put the whole task there"
    try:
        found = read_json(content)
    except NotJson as error:
        if content.startswith(b"{") and (error.cut_short or not content.endswith(b"}")):
            return "cut short, not a whole signed task; put the whole task there"
        return "not a signed task; name the file that `hubbub plan` wrote and `hubbub sign` signed"
    except JsonError:
        return ""  # It is JSON, and what is wrong with it is better told by the error that there is.
    body = found.get("body") if isinstance(found, dict) else None
    if isinstance(body, dict) and body.get("format") in FEED_ENTRY.formats:
        return "an entry of a feed, not a task; name the task's own file, from `hubbub plan` and `hubbub sign`"
    return ""


def read_task(content: Any) -> Task:
    """Return the task in the output of `task_content`, checked like a draft, together with its randomizers.

    Raises:
        TaskError: naming the value, the limit and what to do; one of another version by the name of its format.
    """
    try:
        TASK.check_named(content)
        task = _task_from(content)
        # The bytes are compared, not the values: Python takes True for 1.
        same = task.canonical == canonical(content)
    except SignatureError as error:
        raise TaskError(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TaskError(f"not a task of {TASK.format}: {error!r:.200}; `hubbub plan` writes one") from error
    if not same:
        unknown = _unknown(task_content(task), content)
        named = f": {', '.join(unknown)}" if unknown else ""
        raise TaskError(f"not a task of {TASK.format}: it has members that are not read here{named}")
    return task


def _unknown(own: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    """Return the names of members that this version does not know: of the task, and of each of its queries."""
    tables = {"task": (own, content)}
    pairs = zip(own["queries"], content["queries"], strict=False)
    tables |= {f"query[{index}]": pair for index, pair in enumerate(pairs)}
    return [f"{table}.{key:.80}" for table, (mine, given) in tables.items() for key in given if key not in mine]


def _task_from(content: Any) -> Task:
    suite = _suite_of(content["suite"])
    queries = tuple(Query.read(f"query[{index}]", query) for index, query in enumerate(content["queries"]))
    draft = Draft(
        name=content["name"],
        schedule=_schedule_from(content["schedule"]),
        minimum_reports=content["minimum_reports"],
        # Canonical JSON writes 4.0 as 4. Questions read their own numbers as floats.
        privacy=Privacy(**with_floats(content["privacy"], _FLOATS_OF_PRIVACY)),
        questions=tuple(query.question for query in queries),
        admission=read_admission(content["admission"]),
        suite=suite,
        maximum_reports=content["maximum_reports"],
        about=About.read(content["about"]),
        log=LogPolicy.read(content["log"]) if "log" in content else None,
    )
    check_draft(draft)
    _check_promises(draft, queries)
    return Task(
        name=draft.name,
        schedule=draft.schedule,
        minimum_reports=draft.minimum_reports,
        privacy=draft.privacy,
        queries=queries,
        identities=_identities_from(content["identities"]),
        admission=draft.admission,
        maximum_reports=draft.most_reports,
        suite=suite,
        about=draft.about,
        log=draft.log,
    )


def _suite_of(name: Any) -> str:
    """Return the name of a suite that this version knows. It is checked first, since other members may depend on it."""
    try:
        return suite_named(name).name
    except SuiteError as error:
        raise TaskError(f"the task's {error}; run a version of hubbub that knows it") from error


def _check_promises(draft: Draft, queries: Sequence[Query]) -> None:
    """Check what longitudinal questions assume of all rounds: no certified number may depend on an unchecked one."""
    honest = floor(Fraction(str(draft.privacy.honest_share)) * draft.minimum_reports)
    for index, query in enumerate(queries):
        if isinstance(query.question, Repeated):
            query.question.check_promise(f"query[{index}]", query.randomizer, honest, draft.privacy.delta)


def _schedule_from(content: dict[str, Any]) -> Schedule:
    start = datetime.strptime(content["start"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return Schedule(**{**content, "start": int(start.timestamp())})


def _identities_from(content: Any) -> Identities:
    if not isinstance(content, dict) or set(content) != {"hops", *(role.value for role in CORE_ROLES)}:
        raise SignatureError("identities must name exactly operator, shuffler, analyzer and hops")
    hops = tuple(identity_from_hex(each, Role.HOP) for each in content["hops"])
    return Identities(**{role.value: identity_from_hex(content[role.value], role) for role in CORE_ROLES}, hops=hops)
