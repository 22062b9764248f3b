"""Errors of jobs on Spark. This module loads nothing of Spark's, so that who catches them needs none of it."""

from __future__ import annotations

from hubbub.protos.errors import HubbubError


class SparkError(HubbubError):
    """A session that cannot be begun or is not safe, or a job that failed; what was to be done may be tried again."""
