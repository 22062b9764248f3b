"""Says why a PostgreSQL server could not be used, and what to do about it, without the password in its address."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from hubbub.service.errors import StoreClosedError, StoreError, StoreFault
from hubbub.service.postgres.outage import WAIT_SECONDS

_SERVER = "make sure that the server answers and accepts this account and its password"
_FULL = "make room on its disk; the service then continues by itself"

_ABSENT = re.compile(r'(role|database) ".*" does not exist')
"""What the server says without the account or the database, if it speaks English; libpq gives no code for it."""

_REFUSED = re.compile("(password|peer|ident) authentication failed for user|is not permitted to log in", re.I)
"""What the server says if it does not know the caller as that account; without the account, it may say this as well."""

_ROOT = "root certificate file"
"""What libpq says if the file does not exist by which it checks the server's certificate."""

_ADVICE = re.compile(r" Either provide the file.*? to disable server certificate verification\.")
"""What libpq adds to that. Without the check, anybody on the way would be taken for the server."""

_WRITTEN = "if `hubbub init --cluster` wrote one next to the settings"


_UNNAMED = "no password supplied"
"""What libpq says if the server asks for a password and no file has one."""


def shown(address: str) -> str:
    """Return an address for messages: user, host, port, database."""
    parts = conninfo_to_dict(address)
    where = f"{parts.get('host', '')}{':' if 'port' in parts else ''}{parts.get('port', '')}"
    user = f"{parts['user']}@" if "user" in parts else ""
    return f"postgresql://{user}{where}/{parts.get('dbname', '')}"


def as_store_error(error: Exception, address: str, *, running: bool = True) -> StoreError:
    """Return a StoreError that names the server, the cause and the remedy; `running` if the service serves already."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, (PoolTimeout, TooManyRequests)):
        what: object = f"no connection within {WAIT_SECONDS:g} seconds"
    elif isinstance(error, PoolClosed):
        return StoreClosedError()
    else:
        what = _ADVICE.sub("", " ".join(str(error).split())) or type(error).__name__
    return UnusableError(f"the store {shown(address)} could not be used: {what}; {_remedy(error, address, running)}")


def _remedy(error: Exception, address: str, running: bool) -> str:
    if isinstance(error, psycopg.errors.DiskFull) or getattr(error, "errno", 0) == errno.ENOSPC:
        return _FULL
    if isinstance(error, (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
        return (
            "give its user the right to write and name a server that is no standby; the service then continues by "
            "itself"
        )
    if isinstance(error, (psycopg.OperationalError, PoolTimeout, TooManyRequests)):
        if _ABSENT.search(str(error)):
            return (
                f"make them once, as an administrator of the server: `{_makes(address)}`, or `psql --file "
                f"database.sql`, {_WRITTEN}"
            )
        if _REFUSED.search(str(error)):
            return (
                f"check the password file, and whether the account exists: `{_makes(address)}` makes it, or "
                f"database.sql, {_WRITTEN}"
            )
        if _ROOT in str(error):
            return _authority(address)
        if _UNNAMED in str(error):
            return _password_file(address)
        return f"{_SERVER}; a running service then continues by itself" if running else _SERVER
    return "see the server's log; the service continues by itself once the cause is gone"


def _makes(address: str) -> str:
    """Return the commands that make an address's account and database."""
    parts = conninfo_to_dict(address)
    user = parts.get("user", "ACCOUNT")
    return f"createuser --pwprompt {user}; createdb --owner {user} {parts.get('dbname', 'DATABASE')}"


def _authority(address: str) -> str:
    """Return where the certificate of the authority of the server's belongs."""
    named = conninfo_to_dict(address).get("sslrootcert")
    what = "the certificate of the authority that issued the server's"
    if named:
        return f"put {what} into {named}, or name its file in `sslrootcert` of `store`"
    return f"add `sslrootcert=FILE` to `store`: the file with {what}"


def _password_file(address: str) -> str:
    """Return what is wrong with the file that has the password: libpq passes over one that it cannot use."""
    named = conninfo_to_dict(address).get("passfile") or os.environ.get("PGPASSFILE") or Path.home() / ".pgpass"
    path = Path(str(named))
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        path.read_bytes()
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    else:
        fault = (
            f"is open to others (mode {mode:04o}), so it is passed over; run `chmod 600 {path}`"
            if mode & 0o077
            else "has no line for this server, database and account (host:port:database:user:password)"
        )
    return f"the password file {path} {fault}"


class UnusableError(StoreError):
    """The server cannot do this now; nothing was changed."""

    fault = StoreFault.DATABASE
