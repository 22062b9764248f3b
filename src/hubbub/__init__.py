"""Telemetry under differential privacy: an encode, shuffle, analyze pipeline with certificates that anyone can check.

An application embeds `hubbub.client`. `hubbub.accountant` computes what a batch promises, and needs no other folder.
"""

import os

__version__ = "1.0.0"
"""The version, written here and nowhere else: the build reads this line."""

# In a checkout the folders of the package lie at the top of the repository. The links that may stand beside this file
# are for type checkers alone: a module has one path at run time, that of the file that people edit.
# Python has loaded `os` at its start. Loading another module takes time, in which Ctrl-C would show a traceback.
_folder = os.path.dirname(os.path.abspath(__file__))
_client = os.path.join(_folder, "client")
if os.path.islink(_client) or not os.path.isdir(_client):
    __path__.insert(0, os.path.dirname(os.path.dirname(_folder)))
