"""Opens a service's SQLite file with the settings that its guarantees depend on.

An acknowledgement needs `synchronous=FULL` (a commit is synced). Erasure needs `secure_delete` (freed pages are
zeroed), `auto_vacuum` (they are returned) and a truncated write-ahead log.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from hubbub.protos.sqlite_layout import Layout, add_checksums, bring_forward
from hubbub.service.errors import StoreError, as_store_error
from hubbub.service.sqlite import secure_delete
from hubbub.service.sqlite.files import check_there, locked, unusable
from hubbub.service.sqlite.integrity import check_rows, check_tables, check_whole
from hubbub.service.sqlite.wal_guard import WalGuard, check_log, reading

VACUUM_PAGES = 2000
"""Free pages returned at once: about 0.1 s, so that other writes need not wait for all of them."""

CHECKPOINT_PAGES = 4000
"""Pages (16 MB) of the write-ahead log after which SQLite checkpoints them; its default is more often."""

BUSY_SECONDS = 10.0
"""How long a connection waits for the other one, for example to truncate the log during a read."""


class Database:
    """A file in a folder: a connection to write, one to read, and the folder's lock.

    The caller checks the content, and then calls `accept`. A store that is closed before `accept` was refused: its
    write-ahead log and the log's mark stay as they are. So an operator who replaces a damaged file with a good one
    still has the last acknowledged data.

    Attributes:
        path: the file.
        writer: for the one thread that writes.
        reader: reads committed data; for one thread at a time.
    """

    def __init__(
        self,
        folder: Path,
        file_name: str,
        layout: Layout,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        """Open the file and migrate it to this version; `connection` is the class of both connections.

        Raises:
            StoreError: if there is none (`service.sqlite.files` makes one), another process uses it, or a version
                wrote it that cannot be read; then nothing was made or touched.
        """
        self.path = folder / file_name
        self._layout = layout
        self._accepted = False
        self._opened = contextlib.ExitStack()
        try:
            with self._opened:
                self._open(folder, connection)
                self._opened = self._opened.pop_all()
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            raise unusable(self.path, error) from error

    def _open(self, folder: Path, connection: type[sqlite3.Connection]) -> None:
        # First, so that no file is made if the store is missing, and an unreadable store is not changed.
        check_there(self.path, self._layout)
        self._opened.enter_context(locked(folder, self._layout))
        # Before SQLite opens the file: SQLite would continue without the commits of a lost log.
        check_log(self.path)
        self._wal_guard = WalGuard(self.path)
        self._opened.callback(self._wal_guard.close)
        self._wal_holder = self._opened.enter_context(contextlib.closing(reading(self.path)))
        self._keep_log()
        self.writer = self._connect(connection)
        check_whole(self.writer, self.path)
        self._prepare()
        self.reader = self._connect(connection)
        self.reader.execute("PRAGMA query_only = ON")

    def _keep_log(self) -> None:
        """Keep one connection open, so that closing another one does not checkpoint and remove the log."""
        try:
            self._wal_holder.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError as error:
            # A transaction from before the log's first page must be rolled back, which only a writing connection can
            # do; for example after a power cut while a new store was switched to a log.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                raise

    def _connect(self, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS, factory=factory
        )
        self._opened.callback(connection.close)
        add_checksums(connection)
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _prepare(self) -> None:
        """Migrate the tables to this version, without a checkpoint meanwhile."""
        self.writer.execute("PRAGMA journal_mode = WAL").fetchall()
        self.writer.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        bring_forward(self.writer, self.path, self._layout, StoreError)
        check_tables(self.writer, self.path, self._layout)
        check_rows(self.writer, self.path)
        # Only now: a migration may drop and recreate a table that others refer to.
        self.writer.execute("PRAGMA foreign_keys = ON")

    def accept(self) -> None:
        """Accept the checked store, and truncate a killed process's log, which may contain erased data.

        Raises:
            sqlite3.Error: if it cannot be written.
        """
        self._wal_holder.close()
        self._accepted = True
        self.writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}").fetchall()
        with contextlib.suppress(StoreError):
            self.cut_log()

    def committed(self) -> None:
        """Record the end of the write-ahead log; after each commit, before its results are given out."""
        self._wal_guard.note()

    def shrink(self) -> bool:
        """Return some free pages to the system; return whether there are more."""
        # `execute` would step this statement once, which frees one page.
        self.writer.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        return bool(self.writer.execute("PRAGMA freelist_count").fetchone()[0])

    def rewrite(self) -> None:
        """Remove remains of deleted rows from pages that other rows use; see `service.sqlite.secure_delete`."""
        secure_delete.rewrite(self.writer)

    def cut_log(self) -> None:
        """Truncate the write-ahead log, so that no file contains deleted data.

        Raises:
            StoreError: if a reader uses the log; nothing is lost, and the call may be repeated.
        """
        # In this order: a kill in between leaves a log that the mark does not mention, and never a mark without a log.
        if self._wal_guard.is_set:
            self._carry_over("FULL")
            try:
                self._wal_guard.clear()
            except OSError as error:
                raise as_store_error(error, self.path) from error
        self._carry_over("TRUNCATE")

    def _carry_over(self, how: str) -> None:
        busy, _, _ = self.writer.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
        if busy:
            raise StoreError("the write-ahead log is in use and was not truncated; the service tries again")

    def clean(self) -> None:
        """Remove all deleted data from every file.

        Raises:
            StoreError, sqlite3.Error: if a step fails; the call may be repeated.
        """
        # Zeroed pages overwrite deleted data before the pages are returned: a page that is cut off the file's end is
        # no longer written.
        self.cut_log()
        while self.shrink():
            pass
        self.rewrite()
        self.cut_log()

    def close(self) -> None:
        """Checkpoint the log, close the file and release the folder; a refused store stays as it is."""
        # If the checkpoint fails now, the log remains for the next start.
        if self._accepted:
            with contextlib.suppress(sqlite3.Error, StoreError):
                self.cut_log()
        self._opened.close()
