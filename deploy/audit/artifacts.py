"""Saves the results of an audit: the played task, the certificate with the largest ε, and the services' logs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from hubbub.deploy.audit.audit import Audit, AuditOptions, run
from hubbub.deploy.files import copy_files, save
from hubbub.deploy.new_folder import new_folder
from hubbub.protos.task.task import Task
from hubbub.service.runtime.tidying import tidied


async def run_and_keep(task: Task, options: AuditOptions, out: Path | None, progress: Callable[[], None]) -> Audit:
    """Run an audit in a temporary folder; save its results in `out`, a new or empty folder, if one is given.

    If the audit fails, `out` has only the logs.

    Raises:
        UsageError, HubbubError: as `run`.
    """
    with contextlib.ExitStack() as stack:
        if out is not None:
            stack.enter_context(new_folder(out, keep="logs"))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hubbub-audit-")))
        if out is not None:
            stack.enter_context(tidied(lambda: _keep_logs(folder, out)))
        audit = await run(task, options, folder, progress)
        if out is not None:
            save(out / "task.json", audit.task.encode())
            save(out / "certificate.json", audit.certificate)
    return audit


def _keep_logs(folder: Path, out: Path) -> None:
    for logs in folder.glob("*/pipeline/logs"):
        copy_files(logs, out / "logs" / logs.parent.parent.name)
