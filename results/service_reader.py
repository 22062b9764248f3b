"""Reads results from an analyzer over mutual TLS, with the certificate of a reader or of the operator."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from hubbub.accountant.errors import shown
from hubbub.protos.errors import UsageError
from hubbub.protos.messages import ListedTask
from hubbub.protos.records.results import AnalyzerRoundStatus, RoundId, RoundResults, is_task
from hubbub.protos.rpc import ResultsCaller
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transport.addresses import checked_address
from hubbub.protos.transport.channels import MAXIMUM_RESULTS_BYTES, TLS, open_channel
from hubbub.protos.transport.host_process import checked_host
from hubbub.results.checked import (
    NotVerified,
    Trust,
    check_counts,
    check_signed,
    check_task_signed,
    checked_verify,
)
from hubbub.results.selection import Named, check_one_task, check_task, chosen_rounds, matches, word_of
from hubbub.results.table import ResultsTable
from hubbub.verification.pins import Pins, pins_of

CALL_SECONDS = 60.0
"""Deadline, in seconds, of one call."""

T = TypeVar("T")


class ServiceReader:
    """Calls one analyzer; `connect` makes it. Each method makes its calls and closes the connection."""

    def __init__(self, address: str, tls: TLS, pins: Pins = Pins(), *, verify: bool = True) -> None:  # noqa: B008 - a value
        """Read from the analyzer at `address`, host:port, as the party of `tls`."""
        self._address, self._tls, self._pins, self._verify = address, tls, pins, verify

    def __repr__(self) -> str:
        """Return whom it calls, and whether `read` verifies."""
        return (
            f"<results of the analyzer at {self._address}; read() {'verifies' if self._verify else 'does not verify'}>"
        )

    def tasks(self) -> tuple[ListedTask, ...]:
        """Return the tasks that the analyzer knows, by their names."""
        return tuple(self._ask(lambda caller: caller.list_tasks(CALL_SECONDS)))

    def task(self, task: str | ListedTask) -> SignedTask:
        """Return a task, checked to be signed by the operator and the shuffler it names.

        Raises:
            UsageError: if no task or several match.
            SignatureError: if a signature is wrong, or a signer is not the pinned one.
        """
        word, known = word_of(task), self.tasks()
        check_task(word, known)
        found = [each for each in known if word is None or is_task(word, each.task_id, each.name)]
        if len(found) != 1:
            ids = ", ".join(each.task_id.hex() for each in found)
            raise UsageError(f"{len(found)} tasks are called {word}; name one by its id: {ids}")
        signed: SignedTask = self._ask(lambda caller: caller.get_task(found[0].task_id, CALL_SECONDS))
        if self._verify:
            check_task_signed(signed, self._pins, lambda: self._newest_certificates(found[0].task_id))
        return signed

    def _newest_certificates(self, task_id: bytes) -> list[bytes]:
        """Return the certificate of a task's newest round, which has all its successions; none if it has no round."""
        numbers = [each.round for each in self.rounds(task_id.hex())]
        return [each.certificate for each in self._ask(lambda caller: _fetched(caller, task_id, numbers[-1:]))]

    def rounds(self, task: Named = None) -> tuple[RoundId, ...]:
        """Return the certified rounds of a task, rising; of all tasks if it is None.

        Raises:
            UsageError: if the analyzer knows no such task.
        """
        word = word_of(task)
        listed = self._ask(lambda caller: caller.list_results(None, CALL_SECONDS))
        found = [each for each in listed if matches(each, word)]
        if not found:
            check_task(word, self.tasks())
        return tuple(sorted(found, key=lambda each: (each.task_name, each.round)))

    def status(self) -> tuple[AnalyzerRoundStatus, ...]:
        """Return where every round stands at the analyzer, and what it waits for."""
        return tuple(self._ask(lambda caller: caller.get_statuses(None, CALL_SECONDS)))

    def read(self, task: Named = None, rounds: Iterable[int] | None = None) -> ResultsTable:
        """Return the published rows of a task's rounds: of all certified ones, or of those named.

        Args:
            task: the task's name, its id in hex, or one of `tasks()`; it can be left out if there is one task.
            rounds: the numbers of the rounds; None for all.

        Raises:
            UsageError: if no task or several match, or a round is not certified.
            Refusal: as the analyzer refuses; RESULTS_DIFFER, if results differ from their certificate.
            NotVerified: if a certificate is not valid.
            Unreachable: if the analyzer does not answer.
        """
        found = self.rounds(task)
        check_one_task(found, word_of(task))
        chosen = chosen_rounds(found, rounds)
        shown = self._ask(lambda caller: _fetched(caller, found[0].task_id, sorted(chosen)))
        if not self._verify:
            return ResultsTable(shown, Trust(verified=False))
        needed = {number for each in shown for query in each.queries for number in query.rounds} - chosen
        there = needed & {each.round for each in found}
        behind = self._ask(lambda caller: _fetched(caller, found[0].task_id, sorted(there))) if there else []
        # Estimates over time also follow from the rounds behind, which must be valid too.
        # After a party changed its key, the newest certificate says so, and the ones before do not.
        newest = max(each.round for each in found)
        unpinned = check_signed(
            [*shown, *behind],
            self._pins,
            lambda: self._ask(lambda caller: _fetched(caller, found[0].task_id, [newest])),
        )
        return ResultsTable(shown, Trust(True, unpinned, check_counts(shown, behind)))

    def _ask(self, call: Any) -> Any:
        checked_host("hubbub results")

        async def asked() -> Any:
            async with _caller(self._address, self._tls) as caller:
                return await call(caller)

        return _blocking(asked())


async def _fetched(caller: ResultsCaller, task_id: bytes, numbers: Sequence[int]) -> list[RoundResults]:
    found = [await caller.get_results(task_id, number, 0, CALL_SECONDS) for number in numbers]
    for number, each in zip(numbers, found, strict=True):
        if (each.id.task_id, each.id.round) != (task_id, number):
            raise NotVerified(f"the analyzer sent round {each.id.round} instead of {number}; ask its party why")
    return found


@contextlib.asynccontextmanager
async def _caller(address: str, tls: TLS) -> AsyncIterator[ResultsCaller]:
    async with open_channel(address, tls, largest=MAXIMUM_RESULTS_BYTES) as channel:
        yield ResultsCaller(channel, f"the analyzer at {address}")


def _blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end, also where an event loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def connect(
    address: str,
    folder: str | Path | None = None,
    *,
    tls: TLS | None = None,
    keys: str | Path | Pins | None = None,
    verify: bool = True,
) -> ServiceReader:
    """Return a reader of the analyzer's results; it connects at the first call.

    Args:
        address: the analyzer's results port, host:port.
        folder: the folder of a reader, as `hubbub init` makes it: its certificate and key in `tls/`, with that of the
            authority, and the keys of all parties in `trust/`, which are pinned.
        tls: the files of the certificate, instead of the folder's.
        keys: a folder of the public keys that you know, or these keys, instead of the folder's.
        verify: whether `read` verifies; if not, each table says so.

    Raises:
        UsageError: if there is neither a folder nor `tls`, or the folder has no certificate, or an argument has the
            wrong type.
        HostError: if the address is not host:port.
    """
    checked_verify(verify)
    if not isinstance(folder, str | Path | None):
        raise UsageError(f"folder is {shown(folder)}; name the folder of a reader as a text or a Path")
    if not isinstance(tls, TLS | None):
        raise UsageError(f"tls is {shown(tls)}; give a TLS of three files, or the folder of a reader instead")
    if tls is None:
        if folder is None:
            raise UsageError(
                "a reader needs a certificate; give the folder that `hubbub init` made for a reader, or tls"
            )
        tls = _tls_in(Path(folder))
    if keys is None and folder is not None and (Path(folder) / "trust").is_dir():
        keys = Path(folder) / "trust"
    if not isinstance(address, str):
        raise UsageError(f"an address is a text such as 127.0.0.1:7402, not {shown(address)}")
    return ServiceReader(checked_address(address), tls, pins_of(keys), verify=verify)


def _tls_in(folder: Path) -> TLS:
    inside = folder / "tls"
    for role in ("reader", "operator"):
        certificate, key = inside / f"{role}.pem", inside / f"{role}.key"
        if certificate.exists() and key.exists():
            return TLS(inside / "authority.pem", certificate, key)
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; name a reader's, as `hubbub init` makes it: deployment/reader")
    if any((folder / f"{role}.pem").exists() for role in ("reader", "operator")):
        raise UsageError(
            f"{folder} has a reader's certificate itself; name the folder above it, {folder.absolute().parent}"
        )
    raise UsageError(
        f"{inside} has no reader.pem and reader.key; the operator makes them with `hubbub certificate reader --out "
        f"{inside}`"
    )
