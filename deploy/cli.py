"""The command line: `hubbub COMMAND`. Only the module of that command is loaded, so that each starts fast."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from hubbub.deploy.requirements import COMMAND_LINE, NEEDS, missing

COMMANDS = tuple(NEEDS)
"""Every command, in the order of `hubbub --help`."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit status 0 on success, 2 on bad use, 1 on failure."""
    # By default gRPC writes a line of its own for every connection that fails its TLS handshake. Who traces gRPC wants
    # its lines.
    if "GRPC_TRACE" not in os.environ:
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # The command's name has to be known before the command line is built, so it is looked up without a parser. Where
    # it is not the first word, all commands are loaded and typer says what is wrong, or shows the help.
    words = list(sys.argv[1:] if arguments is None else arguments)
    wanted = words[0] if words and words[0] in COMMANDS else ""
    if not COMMAND_LINE.installed:
        _refuse(wanted, words)
    from hubbub.deploy.command_line import build

    build([wanted] if wanted else COMMANDS)(args=words, prog_name="hubbub")


def _refuse(wanted: str, words: Sequence[str]) -> None:
    """Exit, saying which extra is missing: a device's bare install has not even the command line's libraries."""
    message = missing(wanted)
    if "--json" in words:
        sys.stdout.write(json.dumps({"error": message}, indent=2) + "\n")
    sys.stderr.write(f"error: {message}\n")
    raise SystemExit(1)


if __name__ == "__main__":
    main()
