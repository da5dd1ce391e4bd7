"""Sphinx's configuration: `python -m sphinx -W --keep-going docs docs/_build/html`.

Needs no network. Pages are Markdown, written to be read as plain files too; only `api.md` takes its
text from the docstrings.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the docstrings of this checkout, whatever is installed

project = "parki"
author = "The parki developers"
copyright = author
_source = (ROOT / "parki" / "__init__.py").read_text(encoding="utf-8")
release = version = re.findall(r'^__version__ = "(.*)"', _source, re.M)[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
exclude_patterns = ["_build", "notebook", "results"]  # the notebook is for maintainers alone

# Markdown as GitHub has it: formulas in dollars and in fences, and a place for each heading.
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 3

# Docstrings are numpydoc; names in single backticks become links where there is such a name.
numpydoc_show_class_members = False  # autodoc lists them
default_role = "py:obj"
autodoc_typehints = "none"  # the docstrings say more
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

html_theme = "furo"
html_title = f"parki {release}"
html_static_path = ["_static"]
html_css_files = ["parki.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
