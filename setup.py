"""Builds the folders at the top of the repository into the package: `client` is `hubbub.client`.

An editable install puts src/ on the path, and no more: in a checkout the package itself finds the folders.
"""

from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py


class Build(build_py):
    """Builds src/hubbub and every folder at the top that has an `__init__.py`, with all that they hold."""

    def finalize_options(self) -> None:
        """Add the folders, which pyproject.toml cannot: it would list each of their packages by name."""
        super().finalize_options()
        if self.editable_mode:
            return
        folders = sorted(path.parent.name for path in Path().glob("*/__init__.py"))
        inside = find_namespace_packages(include=[pattern for name in folders for pattern in (name, f"{name}.*")])
        self.packages = [*(self.packages or ()), *(f"hubbub.{name}" for name in inside)]
        self.package_dir = {**(self.package_dir or {}), **{f"hubbub.{name}": name for name in folders}}


setup(cmdclass={"build_py": Build})
