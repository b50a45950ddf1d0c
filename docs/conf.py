"""Sphinx configuration of the documentation; ``scripts/docs`` runs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]

import pages  # noqa: E402 - it lies in _ext

import tsimpute  # noqa: E402

pages.write(DOCS)

project = "tsimpute"
author = "the tsimpute developers"
copyright = "the tsimpute developers"
version = release = tsimpute.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "_ext", "_templates", "generated/*.md", "generated/evidence"]
templates_path = ["_templates"]
root_doc = "index"

# What only types say is not linked (no inventories of other projects are fetched); links between pages are all checked.
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "__init__"}
napoleon_use_ivar = True
smartquotes = False

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Notebooks show the output that they were committed with; tests run each. TSIMPUTE_DOCS_EXECUTE=cache runs them here.
nb_execution_mode = os.environ.get("TSIMPUTE_DOCS_EXECUTE", "off")
nb_execution_timeout = 600
nb_execution_in_temp = True
nb_merge_streams = True
suppress_warnings = ["mystnb.unknown_mime_type"]

html_theme = "pydata_sphinx_theme"
html_title = f"tsimpute {release}"
html_static_path = ["_static"]
html_css_files = ["tsimpute.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
html_sidebars = {"index": []}

INTERNAL = {
    "can_improve", "check", "defaults", "draw_prepared", "effective_params", "fillings_of", "fit_first", "fit_rules",
    "fit_to_fill", "fitted", "ignored", "improve", "keeps_calibration", "minutes_within", "prepared", "reader",
    "settings", "take",
}  # fmt: skip
"""Members that other parts of the package use."""


def setup(app) -> None:
    """Leaves out what of a class is not for its users."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _plain)


def _skip(app, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    return True if name in INTERNAL else None


def _plain(app, what: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """A star in prose, such as "*=0:", is a star and begins no emphasis."""
    lines[:] = [pages.escaped(line) for line in lines]
