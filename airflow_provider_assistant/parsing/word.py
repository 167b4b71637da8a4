"""
Files of Word as Markdown.

mammoth converts a file to HTML, and the HTML becomes Markdown. It reads content controls, smart tags, footnotes and
nested tables, to which python-docx has no access. What it does not read is changed before.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.parsing.html import to_markdown
from airflow_provider_assistant.parsing.office import checked_archive

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

    from airflow_provider_assistant.parsing.word_xml import Styles

_HEADING = re.compile(r"title|heading ([1-9])", re.IGNORECASE)
# The table of contents, which repeats the headings.
_STYLES_LEFT_OUT = "p[style-name^='toc '] => !"
# As lxml writes it.
_TITLE_TAG = "{http://purl.org/dc/elements/1.1/}title"
# A title is not bold, and links within the file lead nowhere.
_UNWRAPPED = 'strong, em, s, sup, sub, a[href^="#"], a:not([href])'
_REMOVED = 'img, a[href^="#footnote-ref"], a[href^="#endnote-ref"]'
_MOST_COLUMNS = 1000


def parse_docx(content: bytes) -> dict[str, Any]:
    """
    Return title and text of a Word file: headings, paragraphs, lists, links, tables, text boxes and footnotes.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    import mammoth
    from bs4 import BeautifulSoup

    from airflow_provider_assistant.parsing.word_xml import Styles, readable

    file = checked_archive(content)
    styles = Styles(file)
    style_map = "\n".join([_STYLES_LEFT_OUT, *_heading_styles(styles)])
    with zipfile.ZipFile(file) as archive:
        title = _title(archive)
    file, hidden = readable(file, styles)
    # Without this, mammoth writes the images themselves into the HTML.
    no_image = mammoth.images.img_element(lambda _: {})
    converted = mammoth.convert_to_html(file, style_map=style_map, convert_image=no_image)
    soup = BeautifulSoup(converted.value, "lxml")
    _clean(soup)
    # Two spaces at the end of a line are a line break of Markdown.
    markdown = to_markdown(soup).replace("  \n", "\n")
    left_out = [("passage", "is hidden text", True, hidden)] if hidden else []
    return {"title": title, "text": markdown, "left_out": left_out}


def _title(archive: zipfile.ZipFile) -> str | None:
    from lxml import etree

    if "docProps/core.xml" not in archive.namelist():
        return None
    properties = etree.fromstring(archive.read("docProps/core.xml"))
    title: str | None = properties.findtext(_TITLE_TAG)
    return title


def _heading_styles(styles: Styles) -> Iterator[str]:
    """Return a line of mammoth's style map for each style that is, or is based on, one of Word's headings."""
    for style_id, name in styles.name_by_id.items():
        names = [styles.name_by_id[base] for base in styles.chain(style_id)]
        headings = [heading for heading in map(_HEADING.fullmatch, names) if heading]
        if headings and name.isprintable():
            # The style "Title" has no number.
            level = min(int(headings[0][1] or 1), 6)
            quoted = name.replace("\\", "\\\\").replace("'", "\\'")
            yield f"p[style-name='{quoted}'] => h{level}:fresh"


def _clean(soup: BeautifulSoup) -> None:
    for tag in soup.select(_REMOVED):
        tag.decompose()
    for tag in soup.select(_UNWRAPPED):
        tag.unwrap()
    for inner_table in soup.select("table table"):
        _flatten(inner_table)
    for table in soup.select("table"):
        _add_covered_cells(soup, table)
        header = table.find("tr")
        for cell in header.find_all("td") if header else []:
            cell.name = "th"
    # Neighbouring texts become one: a mark may be in two of them.
    soup.smooth()


def _flatten(table: Tag) -> None:
    """Turn a table in a cell into words: Markdown has no tables in tables."""
    for cell in table.select("td, th"):
        cell.insert_after(" ")
        cell.name = "span"
    for row in table.select("tr"):
        row.name = "p"
    table.name = "div"


def _add_covered_cells(soup: BeautifulSoup, table: Tag) -> None:
    """Add the empty cells that a merged cell leaves in the rows below its first one."""
    # How many further rows a merged cell covers in a column.
    rows_left_by_column: dict[int, int] = {}
    for row in table.select("tr"):
        column = 0
        # None stands for the end of the row, where covered columns may follow the last cell.
        for cell in [*row.select("td, th"), None]:
            while rows_left_by_column.get(column):
                rows_left_by_column[column] -= 1
                column += 1
                empty_cell = soup.new_tag("td")
                if cell is None:
                    row.append(empty_cell)
                else:
                    cell.insert_before(empty_cell)
            if cell is None:
                continue
            width = min(int(str(cell.get("colspan", "1"))), _MOST_COLUMNS)
            cell["colspan"] = str(width)
            height = int(str(cell.get("rowspan", "1")))
            for covered_column in range(column, column + width):
                rows_left_by_column[covered_column] = height - 1
            column += width
