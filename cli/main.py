"""The command line: `hubbub COMMAND`. Only the module of that command is loaded, so that each starts fast."""

from __future__ import annotations

try:
    import json
    import os
    import sys
    import traceback
    from collections.abc import Sequence

    from hubbub import __version__
    from hubbub.cli import signals, stdio
    from hubbub.cli.registry import COMMAND_LINE, NEEDS, missing
    from hubbub.protos.escaping import readable_lines
    from hubbub.service.processes.hardening import disable_core_dumps
except KeyboardInterrupt:  # Ctrl-C may come while these are loaded, which takes most of a short command's time
    raise SystemExit(130) from None

COMMANDS = tuple(NEEDS)
"""Every command, in the order of `hubbub --help`."""

TRACEBACK = "HUBBUB_TRACEBACK"
"""Environment variable: where it is set, an error that nobody foresaw shows its traceback."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit status 0 on success, 2 on bad use, 1 on failure, 130 after Ctrl-C.

    It is 141 where the reader of stdout has left. Nothing that happens shows a traceback, unless the environment
    variable HUBBUB_TRACEBACK is set.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is not None:
        raise SystemExit(_status(words))
    try:
        signals.silent()
        disable_core_dumps()
        output = stdio.prepare()
        status = _status(words)
        stdio.finish(output)
    except KeyboardInterrupt:
        status = signals.STATUS
    signals.ends_at_once()
    raise SystemExit(status)


def _status(words: Sequence[str]) -> int:
    """Run a command; return its exit status. What fails is said, whatever it is."""
    try:
        status = _run(words)
        sys.stdout.flush()
    except OSError as error:
        # Commands say what is wrong with files. What is left is stdout, which the parser may write around `Output`.
        return _lost(stdio.OutputLost(error.errno, error.strerror))
    except SystemExit as error:
        # The parser makes a status of its own, 1, of a reader that has left.
        if isinstance(error.__context__, stdio.OutputLost):
            return _lost(error.__context__)
        return error.code if isinstance(error.code, int) else 1
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        return _unforeseen(error, words)
    return status


def _lost(error: stdio.OutputLost) -> int:
    # A reader that leaves has what it wanted, as `head` does; nobody wants to hear of it. The status is not that of a
    # failure: where a shell has pipefail set, it would mean that a certificate does not hold.
    if error.reader_left:
        return stdio.READER_LEFT
    sys.stderr.write(f"error: stdout cannot be written: {error.strerror}\n")
    return 1


def _run(words: Sequence[str]) -> int:
    # By default gRPC writes a line of its own for every connection that fails its TLS handshake. Who traces gRPC wants
    # its lines.
    if "GRPC_TRACE" not in os.environ:
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # Asked of any install, also of one without the command line.
    if words and words[0] == "--version":
        sys.stdout.write(f"hubbub {__version__}\n")
        return 0
    # The command's name has to be known before the command line is built, so it is looked up without a parser. Where
    # it is not the first word, all commands are loaded and typer says what is wrong, or shows the help.
    wanted = words[0] if words and words[0] in COMMANDS else ""
    if not COMMAND_LINE.installed:
        return _refuse(missing(wanted) or "", words)
    from hubbub.cli.app import run

    return run([wanted] if wanted else COMMANDS, words)


def _unforeseen(error: Exception, words: Sequence[str]) -> int:
    """Say that an error is a fault of hubbub's, and how to see where it is from."""
    # Our frames by their modules' names: in a checkout, no folder on the way to a file is named hubbub.
    *_, (frame, line) = (
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals is globals() or frame.f_globals["__name__"].startswith("hubbub.")
    )
    file = frame.f_code.co_filename.rpartition(os.sep)[2]
    what = f"{type(error).__name__} in {file}:{line}: {error}"
    return _refuse(f"a fault in hubbub, please report it: {what:.500}; {TRACEBACK}=1 shows its traceback", words)


def _refuse(message: str, words: Sequence[str]) -> int:
    """Say what is wrong on stderr, with --json also as one document on stdout; return the exit status."""
    # Without the libraries of the command line: a device's bare install has none of them.
    if "--json" in words:
        sys.stdout.write(json.dumps({"error": message}, indent=2) + "\n")
        sys.stdout.flush()
    sys.stderr.write(f"error: {readable_lines(message)}\n")
    return 1


if __name__ == "__main__":
    main()
