"""Runs both services on this machine as real processes, for tests of applications and for the demo."""

from hubbub.deploy.local.pipeline import LocalPipeline

__all__ = ["LocalPipeline"]
