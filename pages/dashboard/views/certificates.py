"""The page for anyone: give a file, see what its certificate promises to whom, checked here and now."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from hubbub.accountant.certificate.ladder import Ladder, ladders
from hubbub.pages.dashboard.access import LARGEST_BODY, WORD
from hubbub.pages.dashboard.site import Site
from hubbub.pages.shown_rows import plain
from hubbub.protos.errors import HubbubError
from hubbub.protos.strict_json import JsonError, read_json
from hubbub.protos.task.delta_warnings import delta_warning
from hubbub.protos.transparency_log.proofs import LoggedProof
from hubbub.verification.certificate import NotAsPinned, Verified, verify
from hubbub.verification.log_proofs import LogProofs
from hubbub.verification.pins import Pins
from hubbub.verification.results import RecomputedResults, recompute
from hubbub.verification.results_files import read_every

MOST_FIELDS = 8

MOST_PROOFS = 8
"""Proofs of a transparency log with one file: it needs two, of the certificate and of its task."""

MOST_ROUNDS = 366
"""Rounds so far in a certificate that a page checks: each that differs takes up to a second of a core."""

_ONE_CHECK = threading.Lock()
"""A check takes a second of a core: several at once would slow all pages."""


@dataclass(frozen=True)
class CheckedFile:
    """What was found in a file.

    Attributes:
        name: the file's name.
        verified: what its certificate states, if it is valid.
        wrong: what is wrong with it; None if nothing is.
        recomputed: that its estimates follow from its counts, if it has results.
        pinned: whether the keys that this dashboard knows were compared.
        stranger: whether only the keys differ: it may be of other parties, and right.
    """

    name: str
    verified: Verified | None
    wrong: str | None
    recomputed: tuple[str, ...] = ()
    pinned: bool = False
    stranger: bool = False

    @property
    def ladders(self) -> tuple[Ladder, ...]:
        """Who must be honest for which ε."""
        return ladders(self.verified.content) if self.verified else ()

    @property
    def warning(self) -> str | None:
        """What to know of a large δ."""
        return delta_warning(self.verified.task) if self.verified else None

    @property
    def command(self) -> str:
        """The command that checks the same, with the public keys of the parties."""
        keys = [word for name in ("operator", "shuffler", "analyzer") for word in (f"--{name}-key", f"{name}.pub.pem")]
        hops = self.verified.task.identities.hops if self.verified else ()
        keys += [word for place in range(len(hops)) for word in ("--hop-key", f"hop-{place + 2}.pub.pem")]
        return shlex.join(["hubbub", "verify", self.name, *keys])


def checked(name: str, content: bytes, pins: Pins, proofs: Sequence[bytes] = ()) -> CheckedFile:
    """Check a file: a certificate, or the results of one round, which have theirs inside.

    `proofs` are of the transparency log that the task may demand, beside those that `pins` has.
    """
    path, pinned = Path(plain(name)).name or "certificate.json", replace(pins, log_proofs=LogProofs()) != Pins()
    verified: Verified | None = None
    try:
        given = tuple(map(LoggedProof.decode, proofs))
        pins = replace(pins, log_proofs=replace(pins.log_proofs, given=given))
        files = read_every(Path(path), content)
        if len(files) > 1:
            raise HubbubError("the file has several rounds; give the results or the certificate of one")
        certificate = files[0].certificate if files else content
        _check_rounds(certificate)
        verified = verify(certificate, pins)
        found = list(recompute(files, {certificate}))
    except NotAsPinned as error:
        return CheckedFile(path, None, str(error), pinned=pinned, stranger=True)
    except HubbubError as error:
        return CheckedFile(path, verified, str(error), pinned=pinned)
    wrong = next((str(each) for each in found if not isinstance(each, RecomputedResults)), None)
    right = tuple(each.as_text() for each in found if isinstance(each, RecomputedResults))
    return CheckedFile(path, verified, wrong, right, pinned)


def _check_rounds(certificate: bytes) -> None:
    """Return only if its ε can be computed again while somebody waits: anybody may have made the file."""
    try:
        many = len(read_json(certificate)["body"]["all_rounds"]["history"])
    except (JsonError, TypeError, KeyError):
        # It is no certificate; its check says what is wrong with it.
        return
    if many > MOST_ROUNDS:
        raise HubbubError(f"its ε is of {many} rounds, and a page checks at most {MOST_ROUNDS}; use `hubbub verify`")


def empty(site: Site, _request: Request) -> Response:
    """Show the form."""
    return site.page("certificate.html", found=None, most=LARGEST_BODY >> 20)


async def check(site: Site, request: Request) -> Response:
    """Check the file that the form has, and show what was found."""
    async with request.form(max_files=1 + MOST_PROOFS, max_fields=MOST_FIELDS) as form:
        if not site.access.check_form(form.get(WORD)):
            return site.page("problem.html", 403, what="this form is not of this dashboard's pages; nothing was done")
        file = form.get("file")
        if not isinstance(file, UploadFile) or not file.size or len(form.getlist("file")) > 1:
            return site.page("problem.html", 400, what="no file was given; go back and choose one")
        name, content, pinned = file.filename or "", await file.read(), form.get("pinned") == "yes"
        proofs = await _proofs_in(form)
    pins = site.results.pins if pinned else Pins(log_proofs=site.results.pins.log_proofs)
    found = await run_in_threadpool(_checked_alone, name, content, pins, proofs)
    return site.page("certificate.html", found=found, most=LARGEST_BODY >> 20)


async def _proofs_in(form: FormData) -> list[bytes]:
    # A form without a chosen file has an empty one.
    given = [each for each in form.getlist("proof") if isinstance(each, UploadFile) and each.size]
    return [await each.read() for each in given]


def _checked_alone(name: str, content: bytes, pins: Pins, proofs: Sequence[bytes]) -> CheckedFile:
    with _ONE_CHECK:
        return checked(name, content, pins, proofs)
