"""What an enrolled device takes of the state file."""

from __future__ import annotations

import os
from pathlib import Path

from hubbub.client.state.enrollment import take_tickets
from hubbub.client.state.store import State
from hubbub.protos.enrollment.tickets import LONGEST_LIST, new_tickets
from hubbub.protos.identity.keys import Identity


def test_a_ticket_takes_no_page_of_its_own(tmp_path: Path) -> None:
    """A fleet writes one for each of its devices, and again with the credential."""
    operator, shuffler = Identity.generate(), Identity.generate().public
    tickets = new_tickets(LONGEST_LIST, shuffler, 2**31, [operator, Identity.generate()])
    given = {str(number): ticket for number, ticket in enumerate(tickets)}
    state = State(tmp_path / "state.db")
    with state.transaction() as connection:
        (empty,) = connection.execute("PRAGMA page_count").fetchone()
        take_tickets(connection, shuffler, given, os.urandom)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        secrets = {secret for (secret,) in connection.execute("SELECT secret FROM enrollment")}
    state.close()
    assert {len(secret) for secret in secrets} == {32}
    assert len(secrets) == LONGEST_LIST
    assert pages - empty < LONGEST_LIST / 2
