"""
HTML trees as Markdown.

A superscript is written as Pandoc writes it, ``10^6^``, so that an exponent or the mark of a footnote does not become
part of the number before it. Text that Markdown would take for markup, such as ``<name>`` or ``# 5``, gets a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markdownify import MarkdownConverter

from airflow_provider_assistant.texts import has_words

if TYPE_CHECKING:
    from bs4 import Tag
    from bs4.element import NavigableString

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
BLOCKS = frozenset(
    (*HEADINGS, "address", "article", "aside", "blockquote", "br", "center", "dd", "details", "div", "dl", "dt")
    + ("fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "legend", "li", "main", "nav")
    + ("ol", "p", "pre", "section", "summary", "table", "ul")
)
_SPACES = re.compile(r"[ \t\r\n\f]+")
# A tag, a comment or an entity.
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")
# The start of a heading, of a block of code or of the definition of a link.
_BLOCK_START = re.compile(r"(?=#{1,6} |`{3}|~{3}|\[[^\]]+\]:)")
# A line of these below another one makes it a heading, or the header of a table.
_UNDERLINE = re.compile(r"[-=|: ]*[-=][-=|: ]*$")
_BACKTICKS = re.compile("`{3,}")
# One without a backslash ends the cell of a table.
_BAR = re.compile(r"(?<!\\)\|")
# Characters without width, at which browsers may break a line.
_INVISIBLE = re.compile("[\u200b\u2060\ufeff]")
_NOT_TARGETS = re.compile(r"\s*(?:$|#$|(?:data|javascript|blob|vbscript):)", re.IGNORECASE)
_QUOTED = str.maketrans({" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E", "\n": None, "\t": None})
_MOST_COLUMNS = 1000


def markdown(tree: Tag) -> str:
    """
    Return a tree of Beautiful Soup as Markdown.

    :param tree: It is changed.
    """
    _mark_scripts(tree)
    for code in tree.find_all("code"):
        # Several lines are a block.
        if code.find("br") is not None and code.find_parent("pre") is None:
            code.name = "pre"
    for cell_table in reversed(tree.find_all("table")):
        for caption in cell_table.find_all("caption"):
            caption.name = "p"
            cell_table.insert_before(caption.extract())
        if _is_layout(cell_table):
            _unwrap(cell_table)
    text = str(_Writer(heading_style="ATX", bullets="-").convert_soup(tree))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def table(rows: Sequence[Sequence[str]], *, has_header: bool = True) -> str:
    """
    Return a table.

    :param rows: Texts of the cells. Blank rows are left out.
    :param has_header: Whether the first row is the header, which is empty otherwise.
    """
    lines = [[_BAR.sub(r"\|", " ".join(cell.split())) for cell in row] for row in rows]
    lines = [cells for cells in lines if any(cells)]
    if not lines:
        return ""
    width = max(number for cells in lines for number, cell in enumerate(cells, 1) if cell)
    if not has_header:
        lines.insert(0, [])
    lines.insert(1, ["---"] * width)
    padded = [[*cells, *[""] * width][:width] for cells in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in padded)


def _mark_scripts(tree: Tag) -> None:
    """Write a caret around superscripts, and a tilde around subscripts that would continue a number."""
    for script in tree.find_all(["sup", "sub"]):
        before = script.previous_sibling
        is_number = isinstance(before, str) and before[-1:].isdigit()
        if has_words(script.get_text()) and (script.name == "sup" or is_number):
            mark = "^" if script.name == "sup" else "~"
            script.insert(0, mark)
            script.append(mark)


def _is_layout(cell_table: Tag) -> bool:
    """Return whether a table places parts of the page instead of data."""
    if cell_table.get("role") in {"presentation", "none"}:
        return True
    if cell_table.find([*HEADINGS, "table", "article"]) is not None:
        return True
    if any("\n" in code.get_text().strip() for code in cell_table.find_all("pre")):
        return True
    # Browsers show text beside the cells above the table.
    if any(has_words(text) and text.find_parent(["td", "th"]) is None for text in cell_table.find_all(string=True)):
        return True
    sizes = [len(_cells(row)) for row in cell_table.find_all("tr")]
    has_one_line = len(sizes) < 2 or max(sizes) < 2
    return has_one_line and cell_table.find("th") is None


def _unwrap(cell_table: Tag) -> None:
    parts = cell_table.find_all(["thead", "tbody", "tfoot", "tr", "td", "th"])
    for part in [cell_table, *[part for part in parts if part.find_parent("table") is cell_table]]:
        part.name = "div"


def _cells(row: Tag) -> list[Tag]:
    return [*row.find_all(["td", "th"], recursive=False)]


def _span(cell: Tag, name: str) -> int:
    value = str(cell.get(name, "1")).strip()
    return min(int(value), _MOST_COLUMNS) if value.isdecimal() and int(value) else 1


class _Writer(MarkdownConverter):
    """Converts the tags that markdownify takes for a part of a line, and tables with merged cells."""

    def __init__(self, **options: Any) -> None:
        # A text is one line, so that a mark at the start of a line of the source means nothing.
        super().__init__(
            wrap=True, wrap_width=None, escape_asterisks=False, escape_underscores=False, **options
        )
        self._text_by_cell: dict[int, str] = {}

    @property
    def _base(self) -> Any:
        return super()

    def process_text(self, el: NavigableString, parent_tags: set[str] | None = None) -> str:
        text = str(self._base.process_text(el, parent_tags=parent_tags))
        if parent_tags and "_noformat" in parent_tags:
            return text
        start = len(text) - len(text.lstrip())
        is_underline = getattr(el.previous_sibling, "name", "") == "br" and _UNDERLINE.match(text)
        if is_underline or _BLOCK_START.match(text, start):
            return f"{text[:start]}\\{text[start:]}"
        return text

    def escape(self, text: str, parent_tags: set[str]) -> str:
        return _MARKUP.sub(r"\\\g<0>", text)

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return a fence that is longer than those in the code."""
        for line in el.find_all(["br", "div", "li", "p", "tr"]):
            if line.name == "br" or not line.get_text().endswith("\n"):
                line.append("\n")
        lines = el.get_text().strip("\n").rstrip()
        if not lines.strip():
            return ""
        if "_inline" in parent_tags:  # a cell of a table, or a heading
            return str(self._base.convert_code(el, " ".join(lines.split()), set()))
        longest = max(map(len, _BACKTICKS.findall(lines)), default=2)
        fence = "`" * (longest + 1)
        return f"\n\n{fence}\n{lines}\n{fence}\n\n"

    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: N802 (of markdownify)
        return str(self._base.convert_hN(n, el, _INVISIBLE.sub("", text), parent_tags))

    def convert_div(self, _: Tag, text: str, parent_tags: set[str]) -> str:
        text = text.strip()
        if "_inline" in parent_tags:
            return f" {text} "
        return text and f"\n\n{text}\n\n"

    convert_address = convert_article = convert_aside = convert_center = convert_details = convert_div
    convert_dd = convert_dl = convert_dt = convert_fieldset = convert_figure = convert_figcaption = convert_div
    convert_footer = convert_form = convert_header = convert_hgroup = convert_legend = convert_main = convert_div
    convert_nav = convert_section = convert_summary = convert_div

    def convert_button(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return what opens a panel as a paragraph, and what is in a sentence as it is."""
        is_in_sentence = any(isinstance(sibling, str) and sibling.strip() for sibling in _siblings(el))
        return text if is_in_sentence else self.convert_div(el, text, parent_tags)

    convert_label = convert_button

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        target = str(el.get("href") or "").strip()
        # A link is a part of one block.
        if _NOT_TARGETS.match(target) or "\n\n" in text:
            return text
        el["href"] = target.translate(_QUOTED)
        return str(self._base.convert_a(el, text, parent_tags))

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        alt = " ".join(str(el.get("alt") or "").split())
        return alt and f" {self.escape(alt, parent_tags)} "

    def convert_td(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        self._text_by_cell[id(el)] = text
        return f" {text.strip()} "

    convert_th = convert_td

    def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"{text.strip()}\n"

    def convert_table(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        rows: list[list[str]] = []
        # A merged cell leaves its column empty up to this row.
        end_by_column: dict[int, int] = {}
        lines = el.find_all("tr")
        for number, line in enumerate(lines):
            row: list[str] = []
            for cell in _cells(line):
                while end_by_column.get(len(row), 0) > number:
                    row.append("")
                texts = [self._text_by_cell[id(cell)], *[""] * (_span(cell, "colspan") - 1)]
                for cell_text in texts:
                    end_by_column[len(row)] = number + _span(cell, "rowspan")
                    row.append(cell_text)
            rows.append(row)
        has_header = bool(lines) and (lines[0].parent.name == "thead" or all(cell.name == "th" for cell in _cells(lines[0])))
        return f"\n\n{table(rows, has_header=has_header)}\n\n"


def _siblings(el: Tag) -> list[Any]:
    return [*el.previous_siblings, *el.next_siblings]
