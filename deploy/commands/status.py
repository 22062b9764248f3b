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

    Where one service does not answer, the other's rounds are shown all the same, and the exit status is 1.

    Example: hubbub status deployment/operator/operator.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.deploy.calls import fetch_overview
        from hubbub.deploy.output import fail
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.deploy.views.standings import overview_document, print_overview
        from hubbub.service.settings import load

        overview = asyncio.run(fetch_overview(load(settings, OperatorSettings, "operator")))
        if as_json:
            print_json(overview_document(overview))
        else:
            print_overview(console(), overview)
        if overview.errors:
            fail("; ".join(overview.errors.values()))
