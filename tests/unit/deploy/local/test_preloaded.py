"""A forked service is what a started one is: a process in a session of its own, which ends as one does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from unit.deploy.local.test_pipeline import DRAFT

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.process import ServiceError, ServiceProcess
from hubbub.protos.identity.keys import Role
from support.preloaded import Started


async def test_a_forked_service_serves_leads_its_session_and_ends_as_it_is_told() -> None:
    async with LocalPipeline(DRAFT) as pipeline:
        shuffler, analyzer = (pipeline.services[role] for role in (Role.SHUFFLER, Role.ANALYZER))
        for service in (shuffler, analyzer):
            assert isinstance(service._process, Started)
            assert service.pid is not None
            assert os.getsid(service.pid) == service.pid
            assert service.addresses
        ended = shuffler._process
        await shuffler.kill()
        assert (ended.returncode, shuffler.pid) == (-signal.SIGKILL, None)
        ended = analyzer._process
        await analyzer.stop()
        assert (ended.returncode, analyzer.pid) == (0, None)


async def test_a_forked_service_that_cannot_start_ends_with_its_status(tmp_path: Path) -> None:
    service = ServiceProcess("shuffler", tmp_path / "none.toml", tmp_path / "log")
    with pytest.raises(ServiceError, match="ended with status 1 before it served"):
        await service.start()
    assert isinstance(service._process, Started)


@pytest.mark.from_nothing
async def test_a_test_of_a_start_has_a_program(tmp_path: Path) -> None:
    service = ServiceProcess("shuffler", tmp_path / "none.toml", tmp_path / "log")
    with pytest.raises(ServiceError, match="ended with status 1 before it served"):
        await service.start()
    assert not isinstance(service._process, Started)
