"""Runs the command line, `hubbub COMMAND`; it loads only the module of that command, so that each starts fast."""

from __future__ import annotations

try:
    import json
    import os
    import sys
    import traceback
    from collections.abc import Sequence

    from hubbub import __version__
    from hubbub.cli import overview
    from hubbub.cli.registry import COMMAND_LINE, FAILURE_STATUS, NEEDS, missing
    from hubbub.cli.terminal import signals, stdio
    from hubbub.protos.escaping import readable_lines
    from hubbub.service.processes.hardening import disable_core_dumps
except KeyboardInterrupt:  # Ctrl-C may come while these are loaded, which takes most of a short command's time
    raise SystemExit(130) from None

# numpy's threads wait by spinning. Processes use the cores; with one thread each, certificates took half the CPU time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

COMMANDS = tuple(NEEDS)
"""Every command, in the order of `hubbub --help`."""

TRACEBACK = "HUBBUB_TRACEBACK"
"""Environment variable: if it is set, an unexpected error shows its traceback."""


_NO_MEMORY = ("failed to map segment", "cannot allocate memory")
"""What the system's loader says of a library for which there is no memory."""

_NO_THREAD = ("can't start new thread", "launch worker thread")
"""What Python and Arrow say if the system starts no thread."""

_ARENA_MAX = -8
"""Option of `mallopt` (malloc.h): the number of places that threads take memory from."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit status 0 on success, 2 on bad use, 1 on failure, 130 after Ctrl-C.

    It is 141 if the reader of stdout has left. No error shows a traceback, unless the environment variable
    HUBBUB_TRACEBACK is set.
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
    """Run a command, and print any error; return the exit status."""
    try:
        status = _run(words)
        sys.stdout.flush()
    except OSError as error:
        # Commands report errors of files. What is left is stdout, which the parser may write without `Output`.
        return _lost(stdio.OutputLost(error.errno, error.strerror))
    except SystemExit as error:
        # If the reader has left, the parser exits with status 1.
        if isinstance(error.__context__, stdio.OutputLost):
            return _lost(error.__context__)
        return error.code if isinstance(error.code, int) else 1
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        return _refuse(lacking, words) if (lacking := _lacking(error)) else _unforeseen(error, words)
    return status


def _lacking(error: BaseException | None) -> str:
    """Return what of the machine is lacking, with a remedy, if that is the error or its cause; empty if it is not."""
    while error is not None:
        if isinstance(error, MemoryError) or any(said in str(error).lower() for said in _NO_MEMORY):
            return "there is not enough memory; free some, raise its limit (ulimit -v), or give less at once"
        if any(said in str(error) for said in _NO_THREAD):
            return "the system starts no more threads; raise their limit (ulimit -u) or that of memory (ulimit -v)"
        if file := _cut_short(error):
            return f"{file} is cut short, as a full disk leaves it; remove it: Python writes it anew"
        error = error.__cause__ or error.__context__
    return ""


def _cut_short(error: BaseException) -> str:
    """Return the file of compiled code that an import failed at; empty if it did not."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    files = [frame.f_locals.get("bytecode_path") for frame in frames if frame.f_code.co_name == "_compile_bytecode"]
    return str(files[-1]) if files else ""


def _lost(error: stdio.OutputLost) -> int:
    # A reader that leaves, such as `head`, has what it wanted, so there is no message. The status is not 1: with
    # pipefail set in a shell, 1 would mean that a certificate is not valid.
    if error.reader_left:
        return stdio.READER_LEFT
    sys.stderr.write(f"error: stdout cannot be written: {error.strerror}\n")
    return 1


def _save_memory() -> None:
    """Need less address space, if it is limited (`ulimit -v`): 500 MiB are enough where 900 were too few.

    Arrow's own allocator reserves a GiB at once, and the system's 64 MiB for each thread. A library that gets none
    ends the process with words of its own.
    """
    if sys.platform != "linux":
        return
    import resource

    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    import ctypes

    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Not every system's library has the function.
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_ARENA_MAX, 1)


def _run(words: Sequence[str]) -> int:
    _save_memory()
    # Libraries that draw and compute end at a wrong value of these. Nothing here has a window, or a date of theirs.
    os.environ.pop("MPLBACKEND", None)
    if not os.environ.get("SOURCE_DATE_EPOCH", "0").isdecimal():
        del os.environ["SOURCE_DATE_EPOCH"]
    # By default gRPC logs every connection that fails its TLS handshake. With GRPC_TRACE set, these lines are wanted.
    if "GRPC_TRACE" not in os.environ:
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # This works in any install, also in one without the command line's libraries.
    if words and words[0] == "--version":
        sys.stdout.write(f"hubbub {__version__}\n")
        return 0
    # The command's name must be known before the command line is built, so it is looked up without a parser. If the
    # first word is not a command, all commands are loaded, and typer reports the error or shows the help.
    wanted = words[0] if words and words[0] in COMMANDS else ""
    if not COMMAND_LINE.installed:
        return _refuse(missing(wanted) or "", words)
    if asked := os.environ.get("_HUBBUB_COMPLETE"):
        from hubbub.cli.terminal.completion import answer

        return answer(asked)
    if tuple(words) in overview.WORDS:
        sys.stdout.write(overview.text())
        return 0 if words else 2
    from hubbub.cli.app import run

    return run([wanted] if wanted else COMMANDS, words)


def _unforeseen(error: Exception, words: Sequence[str]) -> int:
    """Report an unexpected error as a fault of hubbub, with its place and how to see the traceback."""
    # Our frames are found by module name: in a checkout, no folder on the path of a file is named hubbub.
    *_, (frame, line) = (
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        # Code that a library writes at run time, such as a dataclass's, may have no module.
        if frame.f_globals is globals() or str(frame.f_globals.get("__name__")).startswith("hubbub.")
    )
    file = frame.f_code.co_filename.rpartition(os.sep)[2]
    what = f"{type(error).__name__} in {file}:{line}: {error}"
    return _refuse(f"a fault in hubbub, please report it: {what:.500}; {TRACEBACK}=1 shows its traceback", words)


def _refuse(message: str, words: Sequence[str]) -> int:
    """Print an error on stderr, with --json also as one document on stdout; return the exit status."""
    # It uses the standard library only, because a device's bare install has no library of the command line.
    if "--json" in words:
        sys.stdout.write(json.dumps({"error": message}, indent=2) + "\n")
        sys.stdout.flush()
    sys.stderr.write(f"error: {readable_lines(message)}\n")
    return FAILURE_STATUS.get(words[0], 1) if words else 1


if __name__ == "__main__":
    main()
