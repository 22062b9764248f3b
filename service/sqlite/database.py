"""A service's SQLite file, opened with the settings that its promises rest on.

An acknowledgement needs `synchronous=FULL` (a commit is synced); erasure needs `secure_delete` (freed pages are
zeroed), `auto_vacuum` (they are given back) and the write-ahead log cut to nothing.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from hubbub.protos.sqlite_versions import Layout, bring_forward
from hubbub.service.errors import StoreError, as_store_error
from hubbub.service.sqlite import secure_delete
from hubbub.service.sqlite.files import check_there, locked, unusable
from hubbub.service.sqlite.integrity import check_tables, check_whole
from hubbub.service.sqlite.wal_guard import WalGuard, check_log, reading

VACUUM_PAGES = 2000
"""Free pages given back at once: about 0.1 s, so that what else is to be written need not wait for all of it."""

CHECKPOINT_PAGES = 4000
"""Pages (16 MB) of the write-ahead log after which SQLite carries them over; by default it does so more often."""

BUSY_SECONDS = 10.0
"""How long a connection waits for the other one, as when the log is cut while something is read."""


class Database:
    """A file in a folder: a connection to write, one to read, and the folder's lock.

    Whoever opens it looks at what it holds, and then says `accept`. A store that is closed before is one that was
    refused: it keeps its write-ahead log and the log's mark as they are, so that whoever puts a good file back in the
    place of a damaged one has what was acknowledged last.

    Attributes:
        path: the file.
        writer: for the one thread that writes.
        reader: reads what is committed; for one thread at a time.
    """

    def __init__(
        self,
        folder: Path,
        file_name: str,
        layout: Layout,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        """Open the file, bringing it forward; `connection` is the class of both connections.

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
        # First, so that nothing is made beside a store that is missing, and one that cannot be read is not touched.
        check_there(self.path, self._layout)
        self._opened.enter_context(locked(folder, self._layout))
        # Before SQLite opens the file, which would go on without what a lost log held.
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
        """Have no other connection that is closed carry the log over and remove it, while this holder is open."""
        try:
            self._wal_holder.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError as error:
            # A transaction from before the log's first page is to be taken back, which only a connection that writes
            # does: as after a power cut while a new store was brought to have a log.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                raise

    def _connect(self, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS, factory=factory
        )
        self._opened.callback(connection.close)
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _prepare(self) -> None:
        """Have the tables of this version; nothing is carried over meanwhile."""
        self.writer.execute("PRAGMA journal_mode = WAL").fetchall()
        self.writer.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        bring_forward(self.writer, self.path, self._layout, StoreError)
        check_tables(self.writer, self.path, self._layout)
        # Only now: a migration may drop and make anew a table that others refer to.
        self.writer.execute("PRAGMA foreign_keys = ON")

    def accept(self) -> None:
        """Go on with the store, which holds what it should; cut a killed process's log, which may hold what was erased.

        Raises:
            sqlite3.Error: where it cannot be written.
        """
        self._wal_holder.close()
        self._accepted = True
        self.writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}").fetchall()
        with contextlib.suppress(StoreError):
            self.cut_log()

    def committed(self) -> None:
        """Note how far the write-ahead log goes; after each commit, before its results are given out."""
        self._wal_guard.note()

    def shrink(self) -> bool:
        """Give some free pages back; return whether there are more."""
        # `execute` would step this statement once, which frees one page.
        self.writer.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        return bool(self.writer.execute("PRAGMA freelist_count").fetchone()[0])

    def rewrite(self) -> None:
        """Leave nothing of what was deleted in pages that other rows are on; see `service.sqlite.secure_delete`."""
        secure_delete.rewrite(self.writer)

    def cut_log(self) -> None:
        """Cut the write-ahead log to nothing: what was deleted is in no file any more.

        Raises:
            StoreError: if a reader held the log; nothing is lost, it may be called again.
        """
        # In this order: a kill in between leaves a log that the mark does not speak of, and never a mark without a log.
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
            raise StoreError("the write-ahead log is in use and was not cut; it is tried again")

    def clean(self) -> None:
        """Do all of it at once: leave nothing in any file of what was deleted.

        Raises:
            StoreError, sqlite3.Error: if a part of it could not be done; it may be called again.
        """
        # Zeroed pages go over what was deleted before they are given back: a page that is cut off the file's end is not
        # written any more.
        self.cut_log()
        while self.shrink():
            pass
        self.rewrite()
        self.cut_log()

    def close(self) -> None:
        """Carry the log over into the file, close it and let the folder go; a store that was refused stays as it is."""
        # What cannot be carried over now is there at the next start.
        if self._accepted:
            with contextlib.suppress(sqlite3.Error, StoreError):
                self.cut_log()
        self._opened.close()
