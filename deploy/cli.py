"""The command line: `hubbub COMMAND`. Only the module of the command asked for is loaded, so each starts fast."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import typer

COMMANDS = (
    "demo",
    "init",
    "identity",
    "certificate",
    "plan",
    "sign",
    "shuffler",
    "analyzer",
    "health",
    "submit",
    "close",
    "status",
    "results",
    "verify",
    "account",
    "simulate",
)
"""Every command, in the order of `hubbub --help`: module `deploy.commands.NAME` with `command` or `app`."""


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"hubbub {version('hubbub')}")
        raise typer.Exit


def hubbub(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Encode, shuffle, analyze: telemetry under differential privacy, with certificates anyone can check.

    Example: hubbub demo
    """


def build(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """Return the command line with the commands named."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(hubbub)
    for name in names:
        module = importlib.import_module(f"hubbub.deploy.commands.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(module.command)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit status 0 on success, 2 on bad use, 1 on failure."""
    # By default gRPC writes a line of its own for every connection that fails its TLS handshake.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    words = list(sys.argv[1:] if arguments is None else arguments)
    wanted = words[0] if words else ""
    build([wanted] if wanted in COMMANDS else COMMANDS)(args=words, prog_name="hubbub")


if __name__ == "__main__":
    main()
