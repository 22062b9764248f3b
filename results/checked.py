"""Checks results before they are shown, and says in words what was checked and by which keys."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock

from hubbub.accountant.errors import shown
from hubbub.protos.errors import HubbubError, SignatureError, UsageError
from hubbub.protos.identity.successions import Succession
from hubbub.protos.records.counts import CountsDiffer, check_published, read_certified
from hubbub.protos.records.results import RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.signed_task import SignedTask
from hubbub.verification.certificate import NotAsPinned, VerificationError, verify
from hubbub.verification.pins import SUCCESSIONS, Pins
from hubbub.verification.results import RecomputedResults, recompute
from hubbub.verification.results_files import ResultsFile, as_file
from hubbub.verification.shared_successions import verify_together

_CERTIFICATES = 2048
"""Certificates that were verified and need not be again: five years of daily rounds."""


class NotVerified(HubbubError):
    """Results do not agree with their certificate, or the certificate is not valid; the message names the problem."""


@dataclass(frozen=True)
class Trust:
    """What was checked of a table.

    Attributes:
        verified: whether every certificate was verified, and every count and estimate compared with it.
        unpinned: the signers whose keys were not known beforehand. Whoever made the files may have made these keys.
        left: what could not be recomputed, with the reason, by query.
    """

    verified: bool
    unpinned: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def joined(cls, several: Sequence[Trust]) -> Trust:
        """Return what was checked of all of several tables."""
        unpinned = dict.fromkeys(name for each in several for name in each.unpinned)
        left = {name: why for each in several for name, why in each.left.items()}
        # Of nothing, nothing was verified.
        return cls(bool(several) and all(each.verified for each in several), tuple(unpinned), left)

    @property
    def words(self) -> str:
        """What was checked and what was not, in sentences."""
        if not self.verified:
            return "NOT VERIFIED: certificates and numbers were not checked, as verify=False asks."
        said = ["Verified: signatures, every epsilon, counts by the certificate, and estimates from the counts."]
        if self.unpinned:
            keys = ", ".join(self.unpinned)
            # The same words are read in Python and below a command.
            said.append(
                f"NOT PINNED: the keys of {keys} were not compared with keys that you know; give their folder, as keys "
                "in Python, as --keys to a command."
            )
        said += [f"Not recomputed: {name} ({why})." for name, why in self.left.items()]
        return " ".join(said)

    def __str__(self) -> str:
        return self.words


def checked_verify(verify: object) -> bool:
    """Return whether to verify, as an analyst gives it.

    Raises:
        UsageError: if it is neither True nor False, such as 0 or None: to leave checks out is said in full.
    """
    if not isinstance(verify, bool):
        raise UsageError(f"verify is {shown(verify)}; give True, or False to read what was not checked")
    return verify


def check_counts(wanted: Sequence[RoundResults], behind: Sequence[RoundResults] = ()) -> dict[str, str]:
    """Return what could not be recomputed, with the reason, if all else is as the certificates state.

    The counts are the certificates', and the estimates follow from them; also from the results of the earlier rounds
    `behind` them. Nothing is assumed of whoever sent the results. `verify` checks the certificates themselves.

    Raises:
        Refusal: RESULTS_DIFFER, naming the first difference.
    """
    every = [*wanted, *behind]
    for results in every:
        try:
            certified = read_certified(results.certificate)
            if (certified.task.id, certified.content["round"]) != (results.id.task_id, results.id.round):
                raise CountsDiffer("the certificate with them belongs to another task or round")
            check_published(results.queries, certified.task, results.id.round, certified)
        except CountsDiffer as error:
            raise differ(results, str(error)) from error
    try:
        return recomputed([as_file(each) for each in every])
    except VerificationError as error:
        raise differ(wanted[-1], str(error)) from error


def recomputed(files: Sequence[ResultsFile]) -> dict[str, str]:
    """Return what could not be recomputed of these files; everything else in them follows from their counts.

    Raises:
        VerificationError: naming the first difference, and its file.
    """
    left: dict[str, str] = {}
    for found in recompute(files, {file.certificate for file in files}):
        if not isinstance(found, RecomputedResults):
            raise found
        left |= found.left
    return left


def differ(results: RoundResults, problem: str) -> Refusal:
    """Return the refusal to show results that differ from their certificate."""
    what = f"round {results.id.round} of task {results.id.task_name} is not shown"
    remedy = "ask the analyzer's party whether its store was changed"
    text = f"{what}: its results differ from its certificate: {problem}; {remedy}"
    return Refusal(Reason.RESULTS_DIFFER, text)


def check_signed(
    rounds: Sequence[RoundResults], pins: Pins, others: Callable[[], Sequence[RoundResults]] = tuple
) -> tuple[str, ...]:
    """Verify every round's certificate; return the signers that are not pinned.

    `others` returns further rounds of the task. It is called if a certificate is not as pinned: the valid ones of them
    may have the succession from its signers to the pinned ones.

    Raises:
        NotVerified: naming the round, and the first thing that is wrong.
    """

    def check(certificate: bytes, successions: tuple[Succession, ...]) -> _Checked:
        return _CHECKED.check(certificate, pins, successions)

    def beside() -> list[_Checked]:
        found = verify_together([each.certificate for each in others()], check)
        return [each for each in found if isinstance(each, _Checked)]

    unpinned: dict[str, None] = {}
    found = verify_together([each.certificate for each in rounds], check, beside)
    for each, result in zip(rounds, found, strict=True):
        if isinstance(result, VerificationError):
            text = _by_folder(str(result)) if isinstance(result, NotAsPinned) else str(result)
            raise NotVerified(f"round {each.id.round} of task {each.id.task_name}: {text}") from result
        unpinned |= dict.fromkeys(result.unpinned)
    return tuple(unpinned)


def check_task_signed(signed: SignedTask, pins: Pins, certificates: Callable[[], Sequence[bytes]]) -> None:
    """Check that a task is signed by the operator and the shuffler it names, and that these are as pinned.

    `certificates` returns certificates of the task. It is called if the task is not as pinned: the valid ones may have
    the succession from its signers to the pinned ones.

    Raises:
        SignatureError: if a signature is wrong, or a signer is not the pinned one.
    """
    named = signed.task.identities
    known = pins.operator or named.operator, pins.shuffler or named.shuffler
    try:
        signed.check(*known, pins.successions)
    except SignatureError:
        found = verify_together(certificates(), lambda each, more: _CHECKED.check(each, pins, more))
        more = [succession for each in found if isinstance(each, _Checked) for succession in each.successions]
        if not more:
            raise
        signed.check(*known, [*pins.successions, *more])


_OPTIONS = {
    " with --operator-key": "",
    " with --shuffler-key": "",
    " with --analyzer-key": "",
    " by --hop-key": "",
    "with the option of its own party": "in the file of its own party, such as operator.pub.pem",
    "give its succession with --succession": f"put its succession, {SUCCESSIONS}, beside the keys",
}
"""How `hubbub verify` is told about keys, and what an analyst does instead."""


def _by_folder(text: str) -> str:
    """Return an error about a pinned key in the words of who gave a folder of keys, not the options of a command."""
    for option, instead in _OPTIONS.items():
        text = text.replace(option, instead)
    return text


@dataclass(frozen=True)
class _Checked:
    """What is kept of a valid certificate: far less than all that it states."""

    unpinned: tuple[str, ...]
    successions: tuple[Succession, ...]


class _CheckedCertificates:
    """Remembers which certificates were verified, by their hashes: a certificate of a year has half a megabyte."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[bytes, Pins, tuple[Succession, ...]], _Checked] = OrderedDict()
        self._lock = Lock()

    def check(self, certificate: bytes, pins: Pins, successions: tuple[Succession, ...]) -> _Checked:
        """Return what is kept of a valid certificate; the same bytes are verified once.

        Raises:
            VerificationError: if it is not valid.
        """
        key = sha256(certificate).digest(), pins, successions
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        verified = verify(certificate, pins, successions)
        found = _Checked(verified.unpinned, verified.successions)
        with self._lock:
            self._known[key] = found
            if len(self._known) > _CERTIFICATES:
                self._known.popitem(last=False)
        return found


_CHECKED = _CheckedCertificates()
