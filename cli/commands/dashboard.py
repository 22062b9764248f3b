"""Serves pages of results to a browser on this machine: `hubbub dashboard READER.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, progress_console

PORT = 8737
"""Where the dashboard listens unless told otherwise."""


def command(
    shown: Annotated[
        list[Path],
        typer.Argument(metavar="SETTINGS.toml|RESULTS…", help="A reader's or the operator's settings; saved results."),
    ],
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen at; 0 for any free.")] = PORT,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FOLDER", help="Folder of the public keys that you know. [default: trust/]"),
    ] = None,
    verifier: Annotated[
        Path | None,
        typer.Option(
            "--verifier", metavar="INDEX.html", help="The verifier's page, which the dashboard then links to."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show tasks, results, services and plans in a browser, until Ctrl-C.

    It prints an address with a token, new in each run. Open it in a browser on this machine: whoever has it reads what
    the settings file may read. With the operator's settings, pages also close rounds and revoke devices.

    With a settings file, results come from the analyzer, and the keys in the folder trust/ beside it are compared.
    Without services, name files of hubbub results --json, or folders of them. Everything is verified: a page shows a
    round at once, says that it is not checked yet, and has it checked meanwhile.

    Pages need no script, and ask no other host. For another machine, use a tunnel: ssh -L 8737:localhost:8737 HOST.

    --verifier adds one page with a script, which checks certificates in the browser alone. A build in the checkout's
    clients/typescript makes it: dist/verify/index.html.

    Example: hubbub dashboard deployment/reader/reader.toml
    """
    with failures(as_json):
        from hubbub.pages.dashboard.app import application, site_at
        from hubbub.pages.dashboard.server import address_of, is_private, leave, listening, serve
        from hubbub.pages.dashboard.sources import opened
        from hubbub.pages.dashboard.verifier import verifier_in

        page = None if verifier is None else verifier_in(verifier)
        found = opened(shown, keys)
        with listening(host, port) as listener:
            site = site_at(found, host, listener.getsockname()[1], page)
            address = address_of(listener, host, site.access)

            def tell() -> None:
                if not is_private(host):
                    warning = f"warning: {host} is no loopback address, and nothing is encrypted: others can read along"
                    progress_console().print(warning, markup=False, soft_wrap=True)
                if as_json:
                    print_json({"address": address, "source": found.source, "acts": found.acts})
                else:
                    console().print(f"open {address}\nCtrl-C ends it", markup=False, soft_wrap=True)

            serve(application(site), listener, tell)
        leave()
