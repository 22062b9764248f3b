"""Links the folders of the package into src/hubbub, for type checkers and editors alone: `python src/links.py`.

They look for `hubbub.client` as a folder `client` in a folder `hubbub`, and nothing tells them another place. Builds,
installs and the program itself need no link, so git holds none. Where links cannot be made, this says so.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src", "hubbub")


def folders(root: Path) -> list[str]:
    """Return the names of the package's folders: those at the top that have an `__init__.py`."""
    return sorted(path.parent.name for path in root.glob("*/__init__.py"))


def link(root: Path) -> None:
    """Make the links that are missing, and remove those to folders that are gone."""
    package, wanted = root / PACKAGE, folders(root)
    for each in package.iterdir():
        if each.is_symlink() and each.name not in wanted:
            each.unlink()
    for name in wanted:
        if not (package / name / "__init__.py").exists():
            (package / name).unlink(missing_ok=True)
            _link(package / name, root / name)


def _link(at: Path, folder: Path) -> None:
    if sys.platform == "win32":
        # A junction, since a symbolic link needs a privilege there.
        import _winapi

        _winapi.CreateJunction(str(folder), str(at))
    else:
        at.symlink_to(os.path.relpath(folder, at.parent), target_is_directory=True)


def main() -> None:
    """Make the links of this checkout."""
    try:
        link(ROOT)
    except OSError as error:
        raise SystemExit(
            f"error: {PACKAGE} can hold no links to folders ({error}), and type checkers find the package by them. "
            "Everything else works without; check types on a file system that has links."
        ) from None


if __name__ == "__main__":
    main()
