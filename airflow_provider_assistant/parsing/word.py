"""
Files of Word as Markdown.

mammoth converts a file to HTML, and the HTML becomes Markdown. It reads content controls, smart tags, footnotes and
nested tables, which python-docx has no access to.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_provider_assistant.parsing.html import to_markdown
from airflow_provider_assistant.parsing.markdown import escaped
from airflow_provider_assistant.parsing.office import checked_archive

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

# mammoth leaves out the text of these fields, so their tags are removed and the text stays.
_FIELD_TAG = re.compile(rb'</?w:fldSimple\b(?:[^>"]|"[^"]*")*>')
_HEADING = re.compile(r"title|heading ([1-9])", re.IGNORECASE)
# Namespaces as lxml writes them.
_WORD_NAMESPACE = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TITLE_TAG = "{http://purl.org/dc/elements/1.1/}title"
# A title is not bold, and links within the file lead nowhere.
_UNWRAPPED = 'strong, em, s, sup, sub, a[href^="#"], a:not([href])'
_REMOVED = 'img, a[href^="#footnote-ref"], a[href^="#endnote-ref"]'
_MOST_COLUMNS = 1000


def parse_docx(content: bytes) -> dict[str, str | None]:
    """
    Return title and text of a Word file: headings, paragraphs, lists, links, tables and footnotes.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    import mammoth
    from bs4 import BeautifulSoup

    file = checked_archive(content, _without_field_tags)
    with zipfile.ZipFile(file) as archive:
        title = _title(archive)
        style_map = "\n".join(_heading_styles(archive))
    # Without this, mammoth writes the images themselves into the HTML.
    no_image = mammoth.images.img_element(lambda _: {})
    converted = mammoth.convert_to_html(file, style_map=style_map, convert_image=no_image)
    soup = BeautifulSoup(converted.value, "lxml")
    _clean(soup)
    # Two spaces at the end of a line are a line break of Markdown.
    markdown = to_markdown(soup).replace("  \n", "\n")
    return {"title": title, "text": markdown}


def _without_field_tags(name: str, member: bytes) -> bytes:
    if not name.startswith("word/"):
        return member
    return _FIELD_TAG.sub(b"", member)


def _title(archive: zipfile.ZipFile) -> str | None:
    from lxml import etree

    if "docProps/core.xml" not in archive.namelist():
        return None
    properties = etree.fromstring(archive.read("docProps/core.xml"))
    title: str | None = properties.findtext(_TITLE_TAG)
    return title


def _heading_styles(archive: zipfile.ZipFile) -> Iterator[str]:
    """Return a line of mammoth's style map for each style that is, or is based on, one of Word's headings."""
    from lxml import etree

    if "word/styles.xml" not in archive.namelist():
        return
    name_by_id: dict[str, str] = {}
    base_by_id: dict[str, str] = {}
    styles = etree.fromstring(archive.read("word/styles.xml"))
    for style in styles.iter(f"{_WORD_NAMESPACE}style"):
        style_id = style.get(f"{_WORD_NAMESPACE}styleId", "")
        for child in style.iter(f"{_WORD_NAMESPACE}name"):
            name_by_id[style_id] = child.get(f"{_WORD_NAMESPACE}val", "")
        for child in style.iter(f"{_WORD_NAMESPACE}basedOn"):
            base_by_id[style_id] = child.get(f"{_WORD_NAMESPACE}val", "")
    for style_id, name in name_by_id.items():
        level = _heading_level(style_id, name_by_id, base_by_id)
        if level and name.isprintable():
            quoted = name.replace("\\", "\\\\").replace("'", "\\'")
            yield f"p[style-name='{quoted}'] => h{level}:fresh"


def _heading_level(
    style_id: str,
    name_by_id: dict[str, str],
    base_by_id: dict[str, str],
) -> int | None:
    seen_ids: set[str] = set()
    # Styles of a damaged file may be based on each other.
    while style_id not in seen_ids:
        heading = _HEADING.fullmatch(name_by_id.get(style_id, ""))
        if heading:
            number = heading[1]
            if number is None:  # the style "Title"
                return 1
            return min(int(number), 6)
        seen_ids.add(style_id)
        # A style without a base is its own, which ends the loop.
        style_id = base_by_id.get(style_id, style_id)
    return None


def _clean(soup: BeautifulSoup) -> None:
    for tag in soup.select(_REMOVED):
        tag.decompose()
    for tag in soup.select(_UNWRAPPED):
        tag.unwrap()
    for inner_table in soup.select("table table"):
        _flatten(inner_table)
    for table in soup.select("table"):
        _add_covered_cells(soup, table)
        for cell in table.select("tr:first-child td"):
            cell.name = "th"  # the header
    # Neighbouring texts become one: a mark may be in two of them.
    soup.smooth()
    for text in soup.find_all(string=True):
        plain = escaped(text)
        if text.find_parent("table"):
            plain = plain.replace("|", "\\|")
        text.replace_with(plain)


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
