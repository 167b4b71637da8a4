"""HTML tags as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from markdownify import MarkdownConverter

from airflow_provider_assistant.parsing.html_tags import attribute, set_of
from airflow_provider_assistant.parsing.markdown import escaped

if TYPE_CHECKING:
    from bs4 import Tag
    from bs4.element import NavigableString

_BACKTICKS = re.compile(r"`{3,}")
# One without a backslash ends the cell of a table.
_BAR = re.compile(r"(?<!\\)\|")
_EMPTY_LINES = re.compile(r"\n{3,}")
# What cannot be part of the target of a link.
_QUOTED = {" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E", "\n": "", "\t": ""}
_BLOCKS = set_of(
    "article blockquote details div dl fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr main ol p pre section"
    " table ul"
)


def to_markdown(html: Tag) -> str:
    """Return a tag of Beautiful Soup as Markdown, with one empty line between blocks."""
    converter = _Converter(
        heading_style="ATX",
        bullets="-",
        escape_asterisks=False,
        escape_underscores=False,
    )
    markdown = str(converter.convert_soup(html))
    return _EMPTY_LINES.sub("\n\n", markdown).strip()


class _Converter(MarkdownConverter):
    """Converts the tags that markdownify takes for a part of a line, and what ends a block too early."""

    @property
    def _base(self) -> Any:
        return super()

    def process_text(self, el: NavigableString, parent_tags: set[str] | None = None) -> str:
        """Return a text in which no line begins a heading or a block of code."""
        text = str(self._base.process_text(el, parent_tags=parent_tags))
        if parent_tags and not parent_tags.isdisjoint(("_inline", "_noformat")):
            return text
        before: Any = el.previous_sibling
        is_in_line = before is not None and before.name not in {*_BLOCKS, "br"}
        # A letter before the text stands for the rest of its line.
        start = "x" if is_in_line else ""
        return escaped(start + text).removeprefix(start)

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return a fence that is longer than those in the code."""
        lines = text.strip("\n").rstrip()
        if not lines.strip():
            return ""
        if "_inline" in parent_tags:  # a cell of a table, or a heading
            return str(self._base.convert_code(el, " ".join(lines.split()), set()))
        longest = max(map(len, _BACKTICKS.findall(lines)), default=2)
        fence = "`" * (longest + 1)
        return f"\n\n{fence}\n{lines}\n{fence}\n\n"

    def convert_div(self, _: Tag, text: str, parent_tags: set[str]) -> str:
        if "_inline" in parent_tags:
            return f" {text.strip()} "
        text = text.strip()
        return text and f"\n\n{text}\n\n"

    convert_address = convert_aside = convert_details = convert_div
    convert_dd = convert_dt = convert_fieldset = convert_figure = convert_footer = convert_div
    convert_header = convert_hgroup = convert_legend = convert_main = convert_div
    convert_summary = convert_div

    def convert_button(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return the button or the label of a panel as a paragraph, and one in a sentence as it is."""
        parent = el.parent
        is_block = parent is not None and any(child.name in _BLOCKS for child in parent.find_all(True, recursive=False))
        if is_block or (parent is not None and parent.name not in {"p", "span", "a", "li", "label"}):
            return self.convert_div(el, text, parent_tags)
        return text

    convert_label = convert_button

    def convert_td(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return str(self._base.convert_td(el, _BAR.sub(r"\|", text), parent_tags))

    def convert_th(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return str(self._base.convert_th(el, _BAR.sub(r"\|", text), parent_tags))

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        target = attribute(el, "href").strip()
        for character, quoted in _QUOTED.items():
            target = target.replace(character, quoted)
        el["href"] = target
        return str(self._base.convert_a(el, text, parent_tags))
