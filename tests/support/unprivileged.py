"""Drops all capabilities for good and becomes the program that its arguments name.

A process with privileges is kept from those without by the system itself: only beside a service that has no more than
they have does it show whether the service keeps its memory in.
"""

from __future__ import annotations

import ctypes
import os
import sys

_DROP_BOUND = 24
"""PR_CAPBSET_DROP of linux/prctl.h: never to have a capability again, also as root, from the next program on."""
_CAPABILITIES = 64

if __name__ == "__main__":
    if sys.platform == "linux":  # which alone has capabilities
        libc = ctypes.CDLL(None)
        for each in range(_CAPABILITIES):
            # Refused where this process may not give any up: then it has none to give up.
            libc.prctl(_DROP_BOUND, each, 0, 0, 0)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - which is what it is for
