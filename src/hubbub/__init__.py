"""Telemetry under differential privacy: an encode, shuffle, analyze pipeline with certificates that anyone can check.

An application embeds `hubbub.client`. `hubbub.accountant` computes what a batch promises, and needs no other folder.
"""

from pathlib import Path

__version__ = "1.0.0"
"""The version, written here and nowhere else: the build reads this line."""

# In a checkout the folders of the package lie at the top of the repository. The links that may stand beside this file
# are for type checkers alone: a module has one path at run time, that of the file that people edit.
_folder = Path(__file__).absolute().parent
if (_folder / "client").is_symlink() or not (_folder / "client").is_dir():
    __path__.insert(0, str(_folder.parents[1]))
