"""While fewer standbys follow than are asked for, the operator is told so, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from hubbub.cli.commands.health import STOPPING, ServiceKind, _what
from hubbub.deploy.init.folders import initialize
from hubbub.deploy.init.hops import change
from hubbub.protos.identity.keys import Role
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.shuffler.cluster import standbys
from hubbub.shuffler.cluster.standbys import _text, watched_standbys
from support.patience import pause


async def test_too_few_standbys_are_a_warning_an_incident_and_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standbys, "LOOK_SECONDS", 0.001)
    following, incidents, registry = [0], Incidents(), CollectorRegistry()

    def seen() -> tuple[int, int]:
        return 1, following[0]

    with capture_logs() as lines:
        async with watched_standbys(seen, incidents, registry):
            while not incidents.now():
                await pause()
            (incident,) = incidents.now()
            assert (incident.kind, registry.get_sample_value("hubbub_shuffler_standbys_missing")) == ("standbys", 1.0)
            assert incident.text.startswith("1 standby asked for (`standbys`), none follows: no round begins")
            following[0] = 2
            while incidents.now():
                await pause()
            assert registry.get_sample_value("hubbub_shuffler_standbys_missing") == 0.0
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("too few standbys follow", "warning"),
        ("too few standbys follow: over", "info"),
    ]


@pytest.mark.parametrize(
    ("asked", "following", "says"),
    [
        (1, 0, "1 standby asked for (`standbys`), none follows:"),
        (2, 1, "2 standbys asked for (`standbys`), 1 follows:"),
        (3, 2, "3 standbys asked for (`standbys`), 2 follow:"),
    ],
)
def test_the_numbers_are_in_words(asked: int, following: int, says: str) -> None:
    assert _text(asked, following).startswith(says)


def test_health_names_missing_standbys_and_fails_for_them(tmp_path: Path) -> None:
    settings = initialize(tmp_path / "deployment").of(Role.SHUFFLER) / "shuffler.toml"
    for asked, says in ((1, "1 standby is asked for, and none follows"), (2, "2 standbys are asked for, and fewer")):
        change(settings, "store", "postgresql://hubbub@db/shuffler")
        change(settings, "standbys", asked)
        assert says in _what(ServiceKind.SHUFFLER, settings, [IncidentKind.STANDBYS])
    assert {IncidentKind.STANDBYS, IncidentKind.TICKETS} <= STOPPING.keys()
