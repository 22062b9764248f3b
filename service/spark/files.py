"""Reads and writes the files of a job on Spark: numbered files, encrypted under a key of that job.

The key is only in the memory of the service and of its job's tasks. Once both are gone, the remains of such a file on a
disk are unreadable. A changed or swapped file is refused.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from hubbub.service.spark.errors import SparkError

_NONCE_BYTES = 12


@dataclass(frozen=True)
class Files:
    """Numbered files in `folder`, each encrypted with ChaCha20-Poly1305 under `key` (32 bytes), its number the nonce.

    So a number must have only one content for each key: a task that runs again must write the same bytes again. Values
    of this class travel to tasks.
    """

    folder: Path
    key: bytes = field(repr=False)

    def write(self, number: int, content: bytes) -> None:
        """Write a file atomically: a reader finds all of it, or none."""
        sealed = ChaCha20Poly1305(self.key).encrypt(_nonce(number), content, None)
        # Each try has its own name, since two tries of one task may run at once.
        with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
            file.write(sealed)
        os.replace(file.name, self._path(number))  # noqa: PTH105 - a name, not a path

    def read(self, number: int) -> bytes:
        """Return the content of a file.

        Raises:
            SparkError: if the file is missing or was changed.
        """
        try:
            sealed = self._path(number).read_bytes()
            return ChaCha20Poly1305(self.key).decrypt(_nonce(number), sealed, None)
        except (OSError, InvalidTag) as error:
            what = f"file {number} of a job on Spark is missing or damaged ({type(error).__name__})"
            raise SparkError(f"{what}; set spark.folder to a folder that all of Spark's workers share") from error

    def remove(self, number: int) -> None:
        """Delete a file."""
        self._path(number).unlink()

    def _path(self, number: int) -> Path:
        return self.folder / str(number)


def _nonce(number: int) -> bytes:
    return number.to_bytes(_NONCE_BYTES, "big")
