"""A store is created in a database that `database.sql` makes, and whoever has not run it is told to."""

from __future__ import annotations

import uuid
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hubbub.deploy.init.cluster import DATABASE, Cluster
from hubbub.deploy.init.folders import Placement, initialize
from hubbub.protos.identity.keys import Role
from hubbub.service.postgres.server_errors import as_store_error
from support import postgres
from support.cli import hubbub_here


@pytest.mark.parametrize("role", [Role.SHUFFLER, Role.ANALYZER])
def test_without_its_account_or_its_database_a_store_says_what_makes_them(tmp_path: Path, role: Role) -> None:
    server = postgres.new_database()
    host = conninfo_to_dict(server)["host"]
    account, name = f"account_{uuid.uuid4().hex}", f"database_{uuid.uuid4().hex}"
    store = f"postgresql://{account}@/{name}?host={host}"
    other = {Role.SHUFFLER: Role.ANALYZER, Role.ANALYZER: Role.SHUFFLER}[role]
    cluster = Cluster(stores={role: store, other: f"postgresql://other@/other?host={host}"})
    folder = initialize(tmp_path / "deployment", Placement(cluster=cluster)).of(role)
    settings = folder / f"{role.value}.toml"

    def created() -> tuple[int, str]:
        ran = hubbub_here(role.value, settings, "--create-store")
        return ran.status, ran.err

    said = f"`createuser --pwprompt {account}; createdb --owner {account} {name}`, or `psql --file database.sql`"
    status, error = created()
    assert (status, said in error, f'role "{account}" does not exist' in error) == (1, True, True)
    statements = [line for line in (folder / DATABASE).read_text().splitlines() if not line.startswith("--")]
    with psycopg.connect(make_conninfo(server), autocommit=True) as administrator:
        administrator.execute(statements[0].encode())
        status, error = created()
        assert (status, said in error, f'database "{name}" does not exist' in error) == (1, True, True)
        for statement in statements[1:]:
            administrator.execute(statement.encode())
    assert created()[0] == 0


def test_a_refused_account_may_be_missing_too() -> None:
    refused = psycopg.OperationalError('connection failed: FATAL:  password authentication failed for user "hubbub"')
    told = str(as_store_error(refused, "postgresql://hubbub@host/db", running=False))
    made = "`createuser --pwprompt hubbub; createdb --owner hubbub db` makes it, or database.sql, if `hubbub init --cl"
    assert made in told
