"""Errors that every service's store raises."""

from __future__ import annotations

from hubbub.protos.errors import HubbubError


class StoreError(HubbubError):
    """The store could not do it, and did nothing: a full disk, a damaged or foreign file, or it was closed."""
