"""Configuration of the documentation site: `make docs` builds it with Sphinx into site/.

The source folder is the top of the repository, so a relative link between two files is a link between their two pages,
and the files at the top are pages like those in docs/. docs/extensions/ has the rest.
"""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

from extensions.tree import TOP  # noqa: E402
from hubbub import __version__  # noqa: E402

project = "hubbub"
author = "The hubbub authors"
version = release = __version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "extensions.notebooks",
    "extensions.screens",
    "extensions.tree",
    "extensions.docstrings",
    "extensions.finished_site",
]
root_doc = "docs/index"
include_patterns = [*TOP, "docs/**.md"]
# Sphinx walks only docs/: other folders are large, and src/hubbub has links back to them.
exclude_patterns = [entry.name for entry in ROOT.iterdir() if entry.is_dir() and entry.name != "docs"]

# GitHub's anchors: a heading can be linked by its words, at every level.
myst_heading_anchors = 6

add_module_names = False
maximum_signature_line_length = 88
python_use_unqualified_type_names = True
# The list at the right of a page has modules, not their objects: these would be copied for every page.
toc_object_entries = False
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
# Written as they are named: each has an entry of its own.
autodoc_type_aliases = {"Value": "Value", "Scalar": "Scalar"}
autodoc_preserve_defaults = True
# Types of other libraries and of the package's inner modules have no page; some names of the package have two.
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]
suppress_warnings = ["ref.python"]

# Quotes and dashes stay as they are written: `--json` is an option.
smartquotes = False

html_theme = "furo"
html_title = f"hubbub {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
