"""The tree: the folders of the package and their modules, for the tests that read the source."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    *("accountant", "queries", "protos", "verification", "planning", "service"),
    *("client", "shuffler", "analyzer", "deploy", "cli"),
)
"""Every folder of the package, from the one that imports nothing to the one that imports all."""

MODULES = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if not path.match("protos/v1/*_pb2*.py")
)
"""Every module that people write."""
