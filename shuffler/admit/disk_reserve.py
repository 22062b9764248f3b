"""How much of the disk stays free, so that what strangers submit cannot fill it.

A round under way still needs room after its last submission: its permuted lists are written before what they came from
is deleted. So new submissions are refused while there still is some; retries of what is held are answered all the same.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from hubbub.protos.refusals import Reason, Refusal
from hubbub.service.observability.incidents import IncidentKind, Incidents

RETRY_SECONDS = 30.0
"""When a device may try again after DISK_FULL: rounds are erased, and disks cleared, within minutes and not seconds."""

LOOK_SECONDS = 0.1
"""How long what is free on the disk is taken for what it was: to ask for each call takes a twentieth of its time."""

_KEY = "room"


class DiskReserve:
    """The disk of the store in `folder`, of which `reserve` bytes are kept free; 0 keeps none.

    `incidents` are told when there is none, and when there is again. `free` says how many bytes are free where a folder
    is; it is asked at most once in `LOOK_SECONDS`, by `clock` (seconds).
    """

    def __init__(
        self,
        folder: Path,
        reserve: int,
        incidents: Incidents,
        free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._reserve = reserve
        self._incidents = incidents
        self._free = free
        self._clock = clock
        self._looked: tuple[float, int] | None = None

    def refusal(self, task: str = "", needed: int = 0) -> Refusal | None:
        """Return the refusal of what is new for a task, where the disk has no room for more; DISK_FULL, which passes.

        There is room where more is free than the reserve, and than the `needed` bytes that mixing its round will take.
        """
        free = self._free_now() if self._reserve else None
        # The same texts whatever is free: another one would be logged each time.
        reserve = f"the disk of {self._folder} has no more than disk_reserve = {self._reserve} bytes free"
        mixing = f"the disk of {self._folder} has no more free than a round of {task} needs to be mixed"
        refusal = self._short(_KEY, free is not None and free <= self._reserve, reserve)
        if refusal is None:
            refusal = self._short((_KEY, task), free is not None and free <= needed, mixing)
        return refusal

    def _free_now(self) -> int:
        now = self._clock()
        if self._looked is None or now - self._looked[0] >= LOOK_SECONDS:
            self._looked = now, self._free(self._folder)
        return self._looked[1]

    def _short(self, key: object, is_short: bool, text: str) -> Refusal | None:
        if not is_short:
            self._incidents.resolve(key)
            return None
        text = f"{text}; make room there"
        self._incidents.open(key, IncidentKind.STORE, "disk full: new submissions are refused", text)
        return Refusal(Reason.DISK_FULL, "the shuffler's disk has no room for more; try again later", RETRY_SECONDS)
