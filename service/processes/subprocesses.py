"""Starts programs of hubbub from the installed code only, with few environment variables.

With `python -m` and `python -c`, Python searches the current folder before all other places of modules. A
`cryptography.py` in the folder in which a service was started would then run with access to round keys. So children are
started with `-P`, and with PYTHONSAFEPATH for their own children.

This module imports the standard library only, since every process that opens envelopes loads it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

SAFE_PATH = "PYTHONSAFEPATH"
"""Environment variable: if it is set, Python behaves as with `-P` (Python 3.11 and newer)."""

KEPT = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS", "NO_COLOR"),
        *("TMPDIR", "TEMP", "TMP", "SYSTEMROOT"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "OPENSSL_MODULES"),
        *("PYTHONHOME", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
        *("PYTHONUNBUFFERED", "PYTHONWARNINGS", "PYTHONHASHSEED", "PYTHONNOUSERSITE", SAFE_PATH),
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    }
)
"""Variables that a child gets unchanged: those of files, language and time, and of how Python and numpy run."""

KEPT_BEGINNINGS = ("LC_", "HUBBUB_", "GRPC_", "MALLOC_")
"""Prefixes of further such variables: GRPC_ sets gRPC's logs and traces, MALLOC_ the C library's memory."""

FOLDERS = frozenset({"PATH", "PYTHONPATH", "PYTHONUSERBASE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})
"""Variables that list folders of programs and libraries; only absolute folders are kept, as others depend on the
current folder."""


def command(module: str, *words: str) -> tuple[str, ...]:
    """Return the command that runs a module of hubbub as a program, with `words` as its arguments.

    It is as isolated as this process: Python's `-I`, `-E` and `-s` are passed on.
    """
    return (interpreter(), "-P", *_isolation(), "-m", module, *words)


def interpreter() -> str:
    """Return the Python that runs this process, for programs that start a named interpreter themselves."""
    return sys.executable


def _isolation() -> tuple[str, ...]:
    if sys.flags.isolated:
        return ("-I",)
    given = (("-E", sys.flags.ignore_environment), ("-s", sys.flags.no_user_site))
    return tuple(option for option, is_given in given if is_given)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: the kept part of this process's environment, overridden by `more`.

    Other variables, for example with credentials or libraries to preload, do not reach a child.
    """
    found = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_BEGINNINGS)}
    for name in FOLDERS & os.environ.keys():
        folders = [folder for folder in os.environ[name].split(os.pathsep) if os.path.isabs(folder)]  # noqa: PTH117
        if folders:
            found[name] = os.pathsep.join(folders)
    return {**found, SAFE_PATH: "1", **(more or {})}


def remove_cwd_from_path() -> None:
    """Keep all later children of this process from importing from the current folder.

    This is for processes of `multiprocessing`, whose command line and environment Python makes by itself.
    """
    os.environ[SAFE_PATH] = "1"


def drop_environment() -> None:
    """Reduce this process's environment to that of a child."""
    kept = environment()
    for name in os.environ.keys() - kept.keys():
        del os.environ[name]
    os.environ.update(kept)
