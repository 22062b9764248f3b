"""Keeps a part of the disk free, so that submissions of strangers cannot fill it.

A round under way still needs room after its last submission: its permuted lists are written before their sources are
deleted. So new submissions are refused while there is still room; retries of stored ones are always answered.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from hubbub.protos.refusals import Reason, Refusal
from hubbub.service.observability.incidents import IncidentKind, Incidents

RETRY_SECONDS = 30.0
"""Seconds until a device may try again after DISK_FULL. Erasing rounds and clearing disks take minutes, not seconds."""

LOOK_SECONDS = 0.1
"""How long a measurement of free space is used: measuring at each call would take a twentieth of the call's time."""

_KEY = "room"


class DiskReserve:
    """The disk of the store in `folder`, of which `reserve` bytes are kept free; 0 keeps none.

    An incident of `incidents` is open while there is no room. `free` returns the free bytes of a folder; it is called
    at most once in `LOOK_SECONDS`, by `clock` (seconds).
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
        """Return DISK_FULL, which passes, if the disk has no room for new submissions of a task; else None.

        There is room if more is free than the reserve, and more than the `needed` bytes to mix the round.
        """
        free = self._free_now() if self._reserve else None
        # The texts do not contain the free bytes: each new text would be logged again.
        reserve = f"the disk of {self._folder} has no more than disk_reserve = {self._reserve} bytes free"
        mixing = f"the disk of {self._folder} has less free space than mixing a round of {task} needs"
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
