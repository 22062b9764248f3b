"""Reads a log's tree from its files, in the layout of C2SP (c2sp.org/tlog-tiles), and makes proofs from them.

A tile is a file of up to 256 hashes of one level; each hash of the next level is the root of a full tile. So a proof
reads a handful of small files, however long the log is, and a log is a folder behind any web server. Files come from
whoever keeps the log, and nothing in them is believed: what they give is compared with a root that the log signed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from hubbub.protos.errors import HubbubError
from hubbub.protos.merkle import NODE_BYTES, consistency_path, inclusion_path, joined, range_root
from hubbub.protos.transparency_log.checkpoint import SignedCheckpoint
from hubbub.protos.transparency_log.signed_notes import LONGEST_NOTE, LogError

TILE_HEIGHT = 8
"""Levels of the tree in a tile."""

TILE_WIDTH = 1 << TILE_HEIGHT
"""Hashes of a full tile."""

TILE_BYTES = TILE_WIDTH * NODE_BYTES
"""Bytes of a full tile."""

LONGEST_LOGGED = 64 * 2**20
"""Bytes of an entry at most: a certificate of many rounds has a few million."""

CHECKPOINT = "checkpoint"
"""The file of the log's newest signed checkpoint."""

LogFiles = Callable[[str, int], bytes]
"""Returns a file of a log by its path, of so many bytes at most; raises `NoSuchFile` if there is none."""


class NoSuchFile(LogError):
    """A log does not have a file; the message names it."""


def _number_path(number: int) -> str:
    digits = str(number)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    parts = [digits[start : start + 3] for start in range(0, len(digits), 3)]
    return "/".join([*(f"x{part}" for part in parts[:-1]), parts[-1]])


def tile_path(level: int, number: int, width: int = TILE_WIDTH) -> str:
    """Return the path of a tile of so many hashes."""
    return f"tile/{level}/{_number_path(number)}" + ("" if width == TILE_WIDTH else f".p/{width}")


def entry_path(index: int) -> str:
    """Return the path of an entry: the document itself, since one may be longer than an entry of C2SP's bundles."""
    return f"entry/{_number_path(index)}.json"


def files_in(folder: Path) -> LogFiles:
    """Return a log's files from a folder.

    The returned function raises `NoSuchFile` if there is none, and `HubbubError` if it cannot be read.
    """

    def read(path: str, most: int) -> bytes:
        try:
            with (folder / path).open("rb") as file:
                content = file.read(most + 1)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoSuchFile(f"the log has no file {folder / path}; name the whole folder of the log") from error
        except OSError as error:
            raise HubbubError(f"cannot read {folder / path}: {error.strerror}; name the folder of a log") from error
        return checked_length(path, content, most)

    return read


def checked_length(path: str, content: bytes, most: int) -> bytes:
    """Return the content of a file of a log, unless it is longer than such a file can be.

    Raises:
        LogError: if it is.
    """
    if len(content) > most:
        raise LogError(f"the log's file {path} has more than {most} bytes: it was changed; get it again from the log")
    return content


def read_checkpoint(files: LogFiles) -> SignedCheckpoint:
    """Return the newest checkpoint of a log; its signatures are still to be checked.

    Raises:
        LogError: if there is none.
    """
    return SignedCheckpoint.decode(files(CHECKPOINT, LONGEST_NOTE))


class TileTree:
    """The tree of a log with `size` entries, read from its files as far as it is needed.

    Every method raises `LogError` if a file is missing or has another length than its tile.
    """

    def __init__(self, files: LogFiles, size: int) -> None:
        self._files = files
        self.size = size
        # A proof reads tiles on the way up from its leaf, and those at the right edge, which all proofs share.
        self._rows = lru_cache(maxsize=64)(self._read_rows)

    def width(self, level: int, number: int) -> int:
        """Return how many hashes a tile has in this tree; 0 if there is no such tile."""
        return max(0, min(TILE_WIDTH, (self.size >> level * TILE_HEIGHT) - number * TILE_WIDTH))

    def tile(self, level: int, number: int) -> bytes:
        """Return the hashes of a tile, in one."""
        width = self.width(level, number)
        try:
            content = self._files(tile_path(level, number, width), width * NODE_BYTES)
        except NoSuchFile:
            if width == TILE_WIDTH:
                raise
            # Once a tile is full, a log need not have the ones that it was before.
            content = self._files(tile_path(level, number), TILE_BYTES)[: width * NODE_BYTES]
        if len(content) != width * NODE_BYTES:
            raise LogError(
                f"the log's file {tile_path(level, number, width)} has {len(content)} bytes, not {width * NODE_BYTES}: "
                "it was cut or changed; get it again from the log"
            )
        return content

    def leaf_hashes(self) -> Iterator[bytes]:
        """Yield the hash of each entry, in order."""
        for number in range(-(-self.size // TILE_WIDTH)):
            yield from split_tile(self.tile(0, number))

    def node(self, height: int, number: int) -> bytes:
        """Return the root of a full subtree, as `merkle.NodeAt`."""
        level, within = divmod(height, TILE_HEIGHT)
        tile, place = divmod(number, TILE_WIDTH >> within)
        row: bytes = self._rows(level, tile)[within]
        return row[place * NODE_BYTES : (place + 1) * NODE_BYTES]

    def _read_rows(self, level: int, number: int) -> list[bytes]:
        """Return the hashes of a tile, in one, and of each level above them within it, as far as they are full."""
        rows = [self.tile(level, number)]
        for _ in range(1, TILE_HEIGHT):
            rows.append(joined(rows[-1]))
        return rows

    def root(self, size: int | None = None) -> bytes:
        """Return the root of the tree, or of its first `size` entries."""
        return range_root(self.node, 0, self.size if size is None else size)

    def inclusion(self, index: int) -> bytes:
        """Return the path of an entry's proof; there is such an entry."""
        return inclusion_path(self.node, index, self.size)

    def consistency(self, older: int) -> bytes:
        """Return the hashes that show that the tree begins with its first `older` entries, at most all."""
        return consistency_path(self.node, older, self.size)


def split_tile(hashes: bytes) -> list[bytes]:
    """Return the hashes of a tile."""
    return [hashes[start : start + NODE_BYTES] for start in range(0, len(hashes), NODE_BYTES)]


def tile_root(hashes: bytes) -> bytes:
    """Return the root above the hashes of a full tile."""
    for _ in range(TILE_HEIGHT):
        hashes = joined(hashes)
    return hashes


def check_tiles(tree: TileTree) -> None:
    """Check that each hash of a level is the root of its tile below; the tree's root covers those at its edge alone.

    Raises:
        LogError: naming the first tile that is not.
    """
    level = 0
    while tree.width(level + 1, 0):
        for number in range(tree.size >> (level + 1) * TILE_HEIGHT):
            if tile_root(tree.tile(level, number)) != tree.node((level + 1) * TILE_HEIGHT, number):
                raise LogError(
                    f"{tile_path(level, number)} does not give the hash above it: a file of the log was changed; "
                    "restore it from the newest copy, or ask whoever keeps the log"
                )
        level += 1


def tree_of_log(files: LogFiles, signed: SignedCheckpoint) -> TileTree:
    """Return the tree of a checkpoint, checked to have the root that the checkpoint states.

    Raises:
        LogError: if the files give another root.
    """
    tree = TileTree(files, signed.size)
    if tree.root() != signed.checkpoint.root:
        raise LogError(
            f"the log's files do not give the root of its checkpoint of {signed.size} entries: they were changed, or "
            "are not whole; restore them from the newest copy, or ask whoever keeps the log"
        )
    return tree
