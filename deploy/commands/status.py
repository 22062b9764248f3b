"""`hubbub status OPERATOR.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.deploy.output import Json, console, failures, print_json


def command(
    settings: Annotated[Path, typer.Argument(metavar="OPERATOR.toml", help="The operator's settings file.")],
    as_json: Json = False,
) -> None:
    """Show the state of every round at both services: counts, refusals by reason, and what each round waits for.

    Where one service does not answer, the other's rounds are shown all the same, and the exit status is 1. TLS
    certificates that end within 30 days are named, the operator's, the authority's and the services'.

    Example: hubbub status deployment/operator/operator.toml
    """
    with failures(as_json):
        import asyncio
        import time

        from hubbub.deploy.calls import fetch_overview
        from hubbub.deploy.lasting import lasting, lasting_document, print_ending
        from hubbub.deploy.output import fail
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.deploy.views.standings import overview_document, print_overview
        from hubbub.service.settings import load

        found = load(settings, OperatorSettings, "operator")
        overview = asyncio.run(fetch_overview(found))
        answered = {"shuffler": found.shuffler_control, "analyzer": found.analyzer_results}
        for name in overview.errors:
            del answered[name]
        now = time.time()
        certificates = lasting(found.tls.paths(), answered, now)
        if as_json:
            print_json({**overview_document(overview), "certificates": lasting_document(certificates, now)})
        else:
            print_overview(console(), overview)
            print_ending(console(), certificates, now)
        if overview.errors:
            fail("; ".join(overview.errors.values()))
