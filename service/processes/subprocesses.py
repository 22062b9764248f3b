"""How a program of hubbub starts another one: from the installed code alone, with few variables.

Python puts the current folder, or an empty entry that stands for it, before everything else that it imports from, in
`python -m` as in `python -c`. A `cryptography.py` that somebody left where a service was started would then run with
round keys. So children are started with `-P`, and with PYTHONSAFEPATH for what they start themselves.

This module imports the standard library only: it is loaded by every process that opens envelopes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

SAFE_PATH = "PYTHONSAFEPATH"
"""Environment variable: where it is set, Python does what `-P` says (Python 3.11 and newer)."""

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
"""Variables that a child is given as they are: what finds files, words and times, and how Python and numpy run."""

KEPT_BEGINNINGS = ("LC_", "HUBBUB_", "GRPC_", "MALLOC_")
"""Beginnings of further ones: GRPC_ is how gRPC logs and is traced, MALLOC_ how the C library takes memory."""

FOLDERS = frozenset({"PATH", "PYTHONPATH", "PYTHONUSERBASE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})
"""Variables that list folders of programs and libraries: the absolute ones are kept, as others are of where one is."""


def command(module: str, *words: str) -> tuple[str, ...]:
    """Return what runs a module of hubbub as a program, with the words behind its name.

    It is as isolated as this process is: Python's `-I`, `-E` and `-s` are passed on.
    """
    return (interpreter(), "-P", *_isolation(), "-m", module, *words)


def interpreter() -> str:
    """Return the Python that runs this process, for what is told one by name and starts it itself."""
    return sys.executable


def _isolation() -> tuple[str, ...]:
    if sys.flags.isolated:
        return ("-I",)
    given = (("-E", sys.flags.ignore_environment), ("-s", sys.flags.no_user_site))
    return tuple(option for option, is_given in given if is_given)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a child is given of this process's environment, and `more`, which goes before it.

    Whatever else a variable may hold, such as credentials or libraries to be loaded first, does not reach a child.
    """
    found = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_BEGINNINGS)}
    for name in FOLDERS & os.environ.keys():
        folders = [folder for folder in os.environ[name].split(os.pathsep) if os.path.isabs(folder)]  # noqa: PTH117
        if folders:
            found[name] = os.pathsep.join(folders)
    return {**found, SAFE_PATH: "1", **(more or {})}


def remove_cwd_from_path() -> None:
    """Have what this process starts from now on import nothing from the current folder.

    For processes of `multiprocessing`, whose command line and environment Python makes by itself.
    """
    os.environ[SAFE_PATH] = "1"


def drop_environment() -> None:
    """Leave this process's environment with what a child is given."""
    kept = environment()
    for name in os.environ.keys() - kept.keys():
        del os.environ[name]
    os.environ.update(kept)
