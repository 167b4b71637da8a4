"""
HTML trees as Markdown.

A superscript is written as Pandoc writes it, ``10^6^``, so that an exponent or the mark of a footnote does not become
part of the number before it. Text that Markdown takes for markup, such as ``<name>`` or ``# 5``, gets a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markdownify import MarkdownConverter

if TYPE_CHECKING:
    from bs4 import Tag
    from bs4.element import NavigableString

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# A tag, a comment or an entity.
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")
# The start of a heading, of a block of code or of the definition of a link.
_BLOCK_START = re.compile(r"(?=#{1,6} |`{3}|~{3}|\[[^\]]+\]:)")
# Below another line, it makes that one a heading or the header of a table.
_UNDERLINE = re.compile(r"[-=|: ]*[-=][-=|: ]*$")
_BACKTICKS = re.compile("`{3,}")
# A bar without a backslash ends the cell of a table.
_BAR = re.compile(r"(?<!\\)\|")
# Characters without width, at which browsers may break a line.
_INVISIBLE = re.compile("[\u200b\u2060\ufeff]")
_NOT_A_TARGET = re.compile(r"#?$|(?:data|javascript|blob|vbscript):", re.IGNORECASE)
_QUOTED = str.maketrans({" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E", "\n": None, "\t": None})
_MOST_COLUMNS = 1000


def markdown(tree: Tag) -> str:
    """
    Return a tree of Beautiful Soup as Markdown.

    :param tree: It is changed.
    """
    for script in tree.find_all(["sup", "sub"]):
        before = str(script.previous_sibling or "")
        # A subscript is read correctly without a mark unless it continues a number.
        if script.get_text().strip() and (script.name == "sup" or before[-1:].isdigit()):
            mark = "^" if script.name == "sup" else "~"
            script.insert(0, mark)
            script.append(mark)
    for code in tree.find_all("code"):
        if code.br is not None and code.find_parent("pre") is None:
            code.name = "pre"
    for grid in reversed(tree.find_all("table")):
        for caption in grid.find_all("caption"):
            caption.name = "p"
            grid.insert_before(caption.extract())
        if _is_layout(grid):
            parts = grid.find_all(["thead", "tbody", "tfoot", "tr", "td", "th"])
            for part in [part for part in parts if part.find_parent("table") is grid]:
                part.name = "div"
            grid.name = "div"
    text = str(_Writer(heading_style="ATX", bullets="-").convert_soup(tree))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def table(rows: Sequence[Sequence[str]], *, has_header: bool = True) -> str:
    """
    Return a table.

    :param rows: Texts of the cells. Blank rows are left out.
    :param has_header: Whether the first row is the header. Otherwise, the header is empty.
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


def _is_layout(grid: Tag) -> bool:
    """Return whether a table places parts of the page: its text is not data in rows and columns."""
    rows = [_cells(row) for row in grid.find_all("tr")]
    is_one_line = len(rows) < 2 or max(map(len, rows)) < 2
    return (
        grid.get("role") in {"presentation", "none"}
        or grid.find([*HEADINGS, "article"]) is not None
        or any("\n" in code.get_text().strip() for code in grid.find_all("pre"))
        or (is_one_line and grid.find("th") is None)
        # It is also beside the cells, or in a table that is in this one.
        or sum(_length(cell) for row in rows for cell in row) != _length(grid)
    )


def _length(tag: Tag) -> int:
    return len("".join(tag.get_text().split()))


def _cells(row: Tag) -> list[Tag]:
    return [*row.find_all(["td", "th"], recursive=False)]


def _span(cell: Tag, name: str) -> int:
    value = str(cell.get(name, ""))
    return min(int(value), _MOST_COLUMNS) if value.isdecimal() and int(value) else 1


class _Writer(MarkdownConverter):
    """Converts the tags that markdownify takes for a part of a line, and tables with merged cells."""

    def __init__(self, **options: Any) -> None:
        # Each text becomes one line, because line breaks of the source mean nothing.
        super().__init__(wrap=True, wrap_width=None, escape_asterisks=False, escape_underscores=False, **options)
        self._text_by_cell: dict[int, str] = {}

    @property
    def _base(self) -> Any:
        return super()

    def process_text(self, el: NavigableString, parent_tags: set[str] | None = None) -> str:
        """Return a text in which nothing begins a block, also after a line break."""
        text = str(self._base.process_text(el, parent_tags=parent_tags))
        is_code = parent_tags is not None and "_noformat" in parent_tags
        if is_code:
            return text
        is_new_line = getattr(el.previous_sibling, "name", "") == "br"
        if is_new_line:
            text = text.lstrip()
        start = len(text) - len(text.lstrip())
        if _BLOCK_START.match(text, start) or (is_new_line and _UNDERLINE.match(text)):
            return f"{text[:start]}\\{text[start:]}"
        return text

    def escape(self, text: str, _: set[str]) -> str:
        return _MARKUP.sub(r"\\\g<0>", text)

    def convert_pre(self, el: Tag, _: str, parent_tags: set[str]) -> str:
        """Return a fence that is longer than those in the code."""
        for line in el.find_all(["br", "button", "div", "li", "p", "tr"]):
            if not line.get_text().endswith("\n"):
                line.append("\n")
        code = el.get_text().strip("\n").rstrip()
        if not code or "_inline" in parent_tags:  # a cell of a table, or a heading
            return str(self._base.convert_code(el, " ".join(code.split()), set()))
        longest = max(map(len, _BACKTICKS.findall(code)), default=2)
        fence = "`" * (longest + 1)
        return f"\n\n{fence}\n{code}\n{fence}\n\n"

    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: N802 (of markdownify)
        if "_inline" in parent_tags:
            return self.convert_div(el, text, parent_tags)
        return str(self._base.convert_hN(n, el, _INVISIBLE.sub("", text), parent_tags))

    def convert_div(self, _: Tag, text: str, parent_tags: set[str]) -> str:
        text = text.strip()
        if "_inline" in parent_tags:
            return f" {text} "
        return f"\n\n{text}\n\n" if text else "\n\n"

    convert_address = convert_article = convert_aside = convert_center = convert_details = convert_div
    convert_dd = convert_dl = convert_dt = convert_fieldset = convert_figure = convert_figcaption = convert_div
    convert_footer = convert_form = convert_header = convert_hgroup = convert_legend = convert_main = convert_div
    convert_nav = convert_option = convert_p = convert_section = convert_summary = convert_div

    def convert_list(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"{self._base.convert_list(el, text, parent_tags)}\n\n"

    convert_ol = convert_ul = convert_list

    def convert_button(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return what opens a panel as a paragraph, and what is in a sentence as it is."""
        beside: tuple[Any, Any] = (el.previous_sibling, el.next_sibling)
        is_in_sentence = any(isinstance(sibling, str) and sibling.strip() for sibling in beside)
        return text if is_in_sentence else self.convert_div(el, text, parent_tags)

    convert_label = convert_button

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        target = str(el.get("href") or "").strip()
        # A link does not contain blocks.
        if _NOT_A_TARGET.match(target) or "\n\n" in text:
            return text
        el["href"], el["title"] = target.translate(_QUOTED), ""
        return str(self._base.convert_a(el, text, parent_tags))

    def convert_img(self, el: Tag, _: str, parent_tags: set[str]) -> str:
        return f" {self.escape(' '.join(str(el.get('alt') or '').split()), parent_tags)} "

    def convert_td(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        self._text_by_cell[id(el)] = text
        return self.convert_div(el, text, parent_tags)  # if it is in no table

    convert_th = convert_td
    convert_thead = convert_tbody = convert_tfoot = convert_tr = convert_caption = convert_div

    def convert_table(self, el: Tag, _: str, **__: Any) -> str:
        rows: list[list[str]] = []
        # A merged cell leaves its columns empty up to this row.
        end_by_column: dict[int, int] = {}
        lines = el.find_all("tr")
        for number, line in enumerate(lines):
            row: list[str] = []
            for cell in _cells(line):
                while end_by_column.get(len(row), 0) > number:
                    row.append("")
                for text in [self._text_by_cell[id(cell)], *[""] * (_span(cell, "colspan") - 1)]:
                    end_by_column[len(row)] = number + _span(cell, "rowspan")
                    row.append(text)
            rows.append(row)
        first = lines[0] if lines else el
        has_header = first.find_parent("thead") is not None or first.find("td") is None
        return f"\n\n{table(rows, has_header=has_header)}\n\n"
