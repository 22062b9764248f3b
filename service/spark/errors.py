"""Defines the error of jobs on Spark. This module does not load Spark, so code that catches the error needs none."""

from __future__ import annotations

from hubbub.protos.errors import HubbubError


class SparkError(HubbubError):
    """A session cannot start or is not safe, or a job failed; the work may be tried again."""
