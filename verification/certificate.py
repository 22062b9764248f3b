"""Checks a certificate's form, signatures, records and numbers; an error names the first that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.ladder import ladder_words
from hubbub.accountant.certificate.members import FLOATS, check_members
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.identity.documents import (
    GET_AGAIN,
    SignedDocument,
    canonical,
    check_signed_file,
    fingerprint,
    from_hex,
    instead_of_json,
    with_floats,
)
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.identity.keys import CORE_ROLES, HASH_BYTES, Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.records.batch import BatchRecord, round_named
from hubbub.protos.records.counts import DIGEST
from hubbub.protos.records.release_chain import Release, attested
from hubbub.protos.records.results_document import parse_certificate
from hubbub.protos.strict_json import JsonError, read_json
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task, connected, followed, hop_name, signers
from hubbub.protos.transparency_log.policy import NotLogged
from hubbub.queries.errors import shown
from hubbub.verification.log_proofs import LoggedRound
from hubbub.verification.pins import Pins as Pins

_MEMBERS = {
    *("admission", "all_rounds", "batches", DIGEST, "delta", "format", "honest_share", "ladder", "queries"),
    *("releases", "round", "round_total", "successions", "task", "uncounted"),
}
_OPTIONAL = {"horizon"}
"""Members of a task with a longitudinal query; `check_statement` decides whether they must be there."""


class VerificationError(HubbubError):
    """A certificate is not valid; the message names the problem."""


class NotAsPinned(VerificationError):
    """A certificate is of another party or task than the verifier knows; the message says what to compare."""


class NotInLog(VerificationError):
    """A certificate is right in itself, and not shown to be in the transparency log that its task demands."""


class NotACertificate(VerificationError):
    """A file is not a certificate, so nothing in it can be checked."""


@dataclass(frozen=True)
class Verified:
    """A valid certificate: its task, its content, the records of its batches, and the releases before its round."""

    task: Task
    content: dict[str, Any]
    records: tuple[BatchRecord, ...]
    pins: Pins
    releases: tuple[Release, ...]
    logged: LoggedRound | None = None
    """Where it and its task are in the transparency log that the task demands; None if it demands none."""

    @property
    def pinned(self) -> bool:
        """Whether all signers are pinned."""
        return not self.unpinned

    @property
    def unpinned(self) -> tuple[str, ...]:
        """The signers that are not pinned; hops are pinned all together or not at all."""
        core = [role.value for role in CORE_ROLES if getattr(self.pins, role.value) is None]
        named = self.task.identities.named
        return (*core, *(name for name in named if name not in set(CORE_ROLES) and self.pins.hops is None))

    @property
    def successions(self) -> tuple[Succession, ...]:
        """The successions of its task's parties that are known with it."""
        return () if self.task.lineage is None else self.task.lineage.successions

    @property
    def hops(self) -> list[dict[str, Any]]:
        """Each hop's record of each query's batch: how many envelopes it received, left out, added and released."""
        return [
            {
                "query": query.name,
                "hop": hop_name(hop.position),
                "received": hop.received,
                "left_out": dict(hop.left_out),
                "added": hop.dummies,
                "released": hop.released,
            }
            for query, record in zip(self.task.queries, self.records, strict=True)
            for hop in record.hops
        ]

    @property
    def release(self) -> Release:
        """The round's own release."""
        documents = [SignedDocument.from_json(batch) for batch in self.content["batches"]]
        record = self.records[0]
        return Release.signed(record.batch.round, record.reports, self.task.privacy.dummies, documents)

    @property
    def admission(self) -> dict[str, str]:
        """The mode of admission, and what it means for privacy, in words."""
        return self.task.admission_statement

    @property
    def fingerprints(self) -> dict[str, str]:
        """The signers' fingerprints by party, for people to compare: the task's operator, the round's others."""
        of_round = replace(signers(self.task, self.content["round"]), operator=self.task.identities.operator)
        return {name: fingerprint(identity) for name, identity in of_round.named.items()}


def verify(certificate: bytes, pins: Pins, successions: Sequence[Succession] = ()) -> Verified:
    """Recompute a certificate from scratch and check everything that it states.

    The certificate contains the successions from its task's identities to later ones. Those of `pins`, and the
    `successions` that other certificates contain, may also link a pinned identity to one that the task names.

    A certificate of a task that demands a transparency log must be in it, and the task too: `pins` has the proofs.

    Raises:
        NotACertificate: if it is something else; the message names what it is.
        NotAsPinned: if a signer or the task is not the pinned one; nothing else was checked then.
        NotInLog: if all else is right, and a proof of the log that its task demands is missing or wrong.
        VerificationError: if something is wrong; the message names the first such thing.
    """
    try:
        # Parsed once: who reads what is published with it asks for the same bytes next.
        value = parse_certificate(certificate)
        if not isinstance(value, dict) or not value.keys() >= {"body", "signature"}:
            _check_kind(certificate)
        # The body is read before its signature is checked, only because its task names the analyzer that must have
        # signed it. The operator and the shuffler signed that task, so the task is checked first.
        _check_form(value["body"])
        task = _check_task(value["body"], pins, successions)
        analyzer = signers(task, value["body"]["round"]).analyzer
        content = _stated(check_signed_file(certificate, value, CERTIFICATE, analyzer))
        records = _check_records(task, content)
        _check_admission(task, content)
        releases = attested(task, content["releases"], (record.position for record in records))
        _check_numbers(task, content, _uncounted(content, releases))
        # Only the form of the digest is checked here; `verification.results` compares it with the round's results.
        from_hex(content[DIGEST], HASH_BYTES, DIGEST)
        _check_hops(task, content, records)
        _check_history(task, content, releases)
    except (NotAsPinned, NotACertificate):
        raise
    except (SignatureError, AccountingError, HubbubError) as error:
        _check_kind(certificate)
        # Whoever signed a part of it cannot mend the certificate, so the analyzer's party alone is named.
        fault = str(error).partition(GET_AGAIN)[0]
        raise VerificationError(
            f"the certificate is not valid: {fault}. Do not use its numbers; ask the analyzer's party for a valid one"
        ) from error
    return Verified(task, content, records, pins, releases, _check_logged(task, certificate, content, pins))


def _check_logged(task: Task, certificate: bytes, content: dict[str, Any], pins: Pins) -> LoggedRound | None:
    if task.log is None:
        return None
    try:
        return pins.log_proofs.check_round(task.log, certificate, canonical(content["task"]))
    except NotLogged as error:
        raise NotInLog(f"the certificate is right in itself, but {error}") from error


def stated(certificate: bytes) -> dict[str, Any]:
    """Return what a certificate states, before its numbers are recomputed: it has the right form, and its own words.

    For showing a certificate at once whose signature is checked; `verify` checks the rest.

    Raises:
        VerificationError: if a member has another form, or the words are not those of its task.
    """
    try:
        content = _stated(parse_certificate(certificate)["body"])
        _check_form(content)
        check_members(content)
        task = SignedTask.from_json(content["task"]).task
        mechanisms = {query.name: query.mechanism for query in task.queries}
        words = ladder_words(Terms.of(task), mechanisms, len(content["all_rounds"]["history"]))
        if (content["ladder"], content["delta"]) != (words, task.privacy.delta):
            raise VerificationError("its ladder or its delta is not that of its task")
    except (HubbubError, AccountingError, SignatureError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise VerificationError(f"the certificate cannot be shown: {error!s:.300}") from error
    return content


def _check_kind(certificate: bytes) -> None:
    found = instead_of_json(certificate) or other_document(certificate)
    if found:
        raise NotACertificate(
            f"not a certificate of a round: it is {found}; `hubbub results --certificate FILE` saves a certificate"
        )


def other_document(document: bytes) -> str | None:
    """Return what this document is instead of a certificate; None if it may be one, even a changed or cut one."""
    try:
        content = read_json(document)
    except JsonError:
        return None
    members = content.keys() if isinstance(content, dict) else set[str]()
    if members >= {"body", "signature"}:
        return None
    return "a task" if members == {"signatures", "task"} else "JSON without the members body and signature"


def _check_form(content: dict[str, Any]) -> None:
    if set(content) - _OPTIONAL != _MEMBERS:
        raise VerificationError(f"it does not have the members of {CERTIFICATE.format}")


def _check_task(content: dict[str, Any], pins: Pins, known: Sequence[Succession]) -> Task:
    signed_task = SignedTask.from_json(content["task"])
    named = signed_task.task.identities
    # Whoever reads several deployments may know successions of others, too.
    pinned = connected(signed_task.task, pins.successions)
    task = followed(signed_task.task, [*_successions_in(content), *pinned, *known])
    if task.lineage is not None and type(content["round"]) is not int:
        raise VerificationError(f"its round is {shown(content['round'])}, but must be a whole number")
    if pins.task_id not in (None, task.id):
        raise NotAsPinned(
            f"the certificate is of task {task.name}, {task.id.hex()}, not of the task given with --task; ask for a "
            f"certificate of that task. {_UNCHECKED}"
        )
    _check_pins(task, pins)
    signed_task.check(named.operator, named.shuffler)
    return task


def _successions_in(content: dict[str, Any]) -> list[Succession]:
    if not isinstance(content["successions"], list):
        raise VerificationError("its successions must be a list")
    return [Succession.from_json(each) for each in content["successions"]]


def _stated(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content with floats for all numbers that are floats: canonical JSON writes 4.0 as 4, an int."""
    queries = content["queries"]
    return {
        **with_floats(content, FLOATS),
        **{name: with_floats(content[name], FLOATS) for name in ("all_rounds", "round_total")},
        **{name: with_floats(content[name], FLOATS) for name in {"horizon"} & set(content)},
        "queries": [with_floats(query, FLOATS) for query in queries] if isinstance(queries, list) else queries,
    }


def _check_pins(task: Task, pins: Pins) -> None:
    for role in CORE_ROLES:
        pinned, named = pins.of(role), task.identities.of(role)
        # A pin also covers the identities before and after it, as far as successions are known.
        if pinned not in (None, named) and not (task.lineage and task.lineage.holds(role, pinned)):
            raise NotAsPinned(
                f"the certificate is not of the {role.value} whose key was given with --{role.value}-key: it names "
                f"{fingerprint(named)}, and the key is {fingerprint(pinned)}; {_advice(task, role, pinned)}. "
                f"{_UNCHECKED}"
            )
    hops = task.identities.hops
    if pins.hops is not None and pins.hops != hops:
        raise NotAsPinned(
            f"the certificate's hops are {_printed(hops)}, not {_printed(pins.hops)} as pinned by --hop-key; give the "
            f"key of each hop in the task's order, from hop-2 on. {_UNCHECKED}"
        )


_UNCHECKED = "Nothing else of it was checked, so do not use its numbers until this is settled"


def _advice(task: Task, role: Role, pinned: bytes) -> str:
    """Return what to do about a key that is not that of the role: the usual cause is a key of another party."""
    others = [name for name, identity in task.identities.named.items() if identity == pinned]
    if others:
        return f"this key is that of its {others[0]}: give each key with the option of its own party"
    return (
        f"get the key, or its fingerprint, from the {role.value}'s party itself and compare: somebody else made this "
        "certificate, or you gave a wrong key, or the party changed its key (give its succession with --succession)"
    )


def _printed(identities: tuple[bytes, ...]) -> str:
    return " then ".join(map(fingerprint, identities)) or "none"


def _read_record(task: Task, batch: Any) -> BatchRecord:
    """Return a batch's record, checked to be signed by the shuffler and, around that, by each of the task's hops."""
    document = SignedDocument.from_json(batch)
    identities = signers(task, round_named(document)[1])
    return BatchRecord.read(document, identities.shuffler, identities.hops)


def _check_records(task: Task, content: dict[str, Any]) -> tuple[BatchRecord, ...]:
    batches, queries = content["batches"], content["queries"]
    if not (
        isinstance(batches, list) and isinstance(queries, list) and len(batches) == len(queries) == len(task.queries)
    ):
        raise VerificationError(
            f"it must have exactly one batch record and one statement for each of {len(task.queries)} queries"
        )
    records = []
    for index, (batch, stated) in enumerate(zip(batches, queries, strict=True)):
        record = _read_record(task, batch)
        _check_record(task, content, record, index, stated)
        records.append(record)
    # A submission has a report for every query, so all records of a round must agree on these facts of the round.
    if len({(record.key_set_hash, record.closed_by, str(sorted(record.refusals.items()))) for record in records}) != 1:
        raise VerificationError(
            "its batch records differ in the round's key set, closing or refusals, but belong to one round"
        )
    return tuple(records)


def _check_record(task: Task, content: dict[str, Any], record: BatchRecord, index: int, stated: Any) -> None:
    name = task.queries[index].name
    if (record.batch.task_id, record.batch.round, record.batch.query) != (task.id, content["round"], index):
        raise VerificationError(f"the batch record for {name} is of another task, round or query")
    if not isinstance(stated, dict) or stated.get("reports") != record.reports:
        raise VerificationError(
            f"{name}: the stated number of reports is not the {record.reports} that the shuffler's record attests"
        )
    differ = record.dummies_differ(task)
    if differ is not None:
        raise VerificationError(f"{name}: {differ}")
    if stated.get("dummies") != record.added:
        raise VerificationError(
            f"{name}: the stated number of dummies is not the {record.added} that the shufflers' records attest"
        )
    mode = task.admission.mode.value
    if record.admission != mode:
        raise VerificationError(
            f"{name}: admission was {record.admission} by the shuffler's record, but is {mode} by the task"
        )
    if record.reports < task.minimum_reports:
        raise VerificationError(
            f"{name}: {record.reports} reports were released, fewer than the minimum {task.minimum_reports}"
        )
    if not 0 <= record.batch.round < task.schedule.rounds:
        raise VerificationError(f"round {record.batch.round} is not one of the task's {task.schedule.rounds} rounds")


def _check_hops(task: Task, content: dict[str, Any], records: tuple[BatchRecord, ...]) -> None:
    """Check that the stated numbers of left-out reports include those that hops left out."""
    for query, stated, record in zip(task.queries, content["queries"], records, strict=True):
        for reason, count in record.left_out.items():
            if stated["left_out"].get(reason, 0) < count:
                raise VerificationError(
                    f"{query.name}: hops left out {count} reports as {reason}, but fewer are stated"
                )


def _check_admission(task: Task, content: dict[str, Any]) -> None:
    """Check the statement of who was let in, and what that means for privacy."""
    if content["admission"] != task.admission_statement:
        raise VerificationError(
            f"its admission is not the statement for mode {task.admission.mode.value}, which says who was let in and "
            "what that means for privacy"
        )


def _uncounted(content: dict[str, Any], releases: Sequence[Release]) -> dict[int, int]:
    """Return the rounds that are stated as never counted, with the number of reports of each release."""
    uncounted, released = content["uncounted"], {release.round: release.reports for release in releases}
    # The type is compared, because JSON's true equals 1 in Python but is not the number of a round.
    whole = isinstance(uncounted, list) and all(type(number) is int for number in uncounted)
    if not whole or uncounted != [number for number in released if number in uncounted]:
        raise VerificationError(
            "its member uncounted must list rounds that were released before, in the order of release"
        )
    return {number: released[number] for number in uncounted}


def _check_history(task: Task, content: dict[str, Any], releases: Sequence[Release]) -> None:
    """Check that all releases are composed: as counted, or at the minimum if they were never counted."""
    history = content["all_rounds"]["history"][:-1]
    rounds, composed = [release.round for release in releases], [stated["round"] for stated in history]
    if composed != rounds:
        raise VerificationError(f"it composes rounds {composed}, but the shuffler released {rounds} before it")
    uncounted = content["uncounted"]
    for release, stated in zip(releases, history, strict=True):
        for query, counts in zip(task.queries, stated["queries"], strict=True):
            name = f"{query.name} of round {release.round}"
            if release.round in uncounted:
                if {counts["reports"], counts["valid"]} != {task.minimum_reports}:
                    raise VerificationError(
                        f"{name} was never counted, so it must be charged at the minimum, but is not"
                    )
            elif counts["reports"] != release.reports:
                raise VerificationError(
                    f"{name}: {release.reports} reports were released, but {counts['reports']} are stated"
                )


def _check_numbers(task: Task, content: dict[str, Any], uncounted: dict[int, int]) -> None:
    check_statement(Terms.of(task), [(query.name, query.mechanism) for query in task.queries], content, uncounted)
