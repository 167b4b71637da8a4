"""Sphinx configuration for the pages that ``build_site.py`` collects."""

import sys
from pathlib import Path

from build_site import REPOSITORY, places_of

sys.path.insert(0, str(Path(__file__).parents[2]))

# The sandbox is imported first: autodoc changes pydantic's annotations, and no model can be defined afterwards.
from airflow_provider_assistant import __version__, sandbox  # noqa: F401

project = "Airflow provider for the Assistant API"
html_title = f"Assistant provider {__version__}"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]

# Headings have GitHub's anchors.
myst_heading_anchors = 6
myst_enable_extensions = ["html_image"]
# A block may show a part of its language: JSON with an ellipsis.
suppress_warnings = ["misc.highlighting_failure"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "show-inheritance": True, "exclude-members": "model_config"}
autodoc_preserve_defaults = True
add_module_names = False
python_maximum_signature_line_length = 88

# What is typed is copied, not what comes back.
copybutton_prompt_text = "$ "

pygments_dark_style = "github-dark"
html_theme = "furo"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "static" / "scorer.js")
html_logo = html_favicon = str(Path(__file__).parent / "static" / "logo.svg")
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#3046c9", "color-brand-content": "#3046c9"},
    "dark_css_variables": {"color-brand-primary": "#9aabff", "color-brand-content": "#9aabff"},
}


def setup(app):
    """Give each page of the repository a link to edit it there."""
    originals = {place: name for name, place in places_of().items() if place.endswith(".md")}

    def edit_link(_app, page, _template, context, _doctree):
        original = originals.get(f"{page}.md")
        if original:
            context["theme_source_edit_link"] = f"{REPOSITORY}/edit/main/{original}"

    def caption_levels(_app, _page, _template, context, _doctree):
        # Sphinx writes the captions of the sidebar as headings without a level, which screen readers need.
        tree = context["furo_navigation_tree"]
        context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')

    app.connect("html-page-context", edit_link)
    app.connect("html-page-context", caption_levels, priority=900)
