"""Configuration of the documentation; ``make docs`` builds it into ``site/``.

The pages load nothing from elsewhere: formulas become MathML in ``_math.py``, the fonts and scripts
of the theme are copied into the site. Links to the names of other projects need no network either:
``inventories/`` lists, in the text form that Sphinx reads, the names that signatures contain.
"""

from __future__ import annotations

import sys
from pathlib import Path

import slrlab

sys.path.insert(0, str(Path(__file__).parent))

project = "slrlab"
author = "The slrlab developers"
copyright = author  # noqa: A001
version = release = slrlab.__version__

extensions = [
    "_math",
    "_tables",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "_gallery",
]
if not tags.has("brief"):  # type: ignore[name-defined]  # noqa: F821
    # `sphinx-build -t brief` leaves the entries of the reference out, two thirds of the work
    extensions += ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "_reference"]
    extensions += ["sphinx.ext.intersphinx"]
intersphinx_mapping = {
    name: (address, f"inventories/{name}.inv")
    for name, address in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "pandas": "https://pandas.pydata.org/docs/",
        "matplotlib": "https://matplotlib.org/stable/",
    }.items()
}
exclude_patterns = ["gallery/sg_execution_times.rst", "gallery/GALLERY_HEADER.rst"]
default_role = "py:obj"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4

autosummary_generate = False  # each page of the reference holds its entries
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "_gallery.TeachingOrder",
    "capture_repr": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,  # times of one machine say little
}

html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_title = "slrlab"
html_context = {"default_mode": "auto"}
html_static_path = ["assets"]
html_css_files = ["extra.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"atlas": []}  # a page without others below it
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],  # a field would break the line at 1440 pixels
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
