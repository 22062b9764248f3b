"""A ticket that is missing or bad is named by its file, which the device itself must not print."""

from __future__ import annotations

from pathlib import Path

from hubbub.cli.options.device import naming_ticket
from hubbub.deploy.init.folders import initialize
from hubbub.deploy.init.hops import change
from hubbub.protos.refusals import Reason, Refusal

LACKS = Refusal(Reason.NOT_ENROLLED, "this device has no ticket")


def test_a_missing_ticket_is_named_by_its_file(tmp_path: Path) -> None:
    settings = initialize(tmp_path / "deployment").root / "client" / "client.toml"
    change(settings, "ticket", "nowhere.json")
    missing = settings.with_name("nowhere.json")
    told = naming_ticket(LACKS, settings)
    assert (told.reason, told.message) == (LACKS.reason, f"there is no ticket {missing}: {LACKS.message}")
    missing.write_text("{}")
    assert naming_ticket(LACKS, settings) is LACKS
    bad = Refusal(Reason.BAD_TICKET, "the ticket is not valid")
    assert naming_ticket(bad, settings).message == f"{missing}: the ticket is not valid"
