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

# mammoth leaves out the text of these fields.
_FIELD = re.compile(rb'</?w:fldSimple\b(?:[^>"]|"[^"]*")*>')
_HEADING = re.compile(r"title|heading ([1-9])", re.IGNORECASE)
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
# A title is not bold, and links within the file lead nowhere.
_PLAIN = 'strong, em, s, sup, sub, a[href^="#"], a:not([href])'
_NOT_TEXT = 'img, a[href^="#footnote-ref"], a[href^="#endnote-ref"]'
_MOST_COLUMNS = 1000


def parse_docx(content: bytes) -> dict[str, str | None]:
    """
    Return title and text of a Word file: headings, paragraphs, lists, links, tables and footnotes.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    import mammoth
    from bs4 import BeautifulSoup

    archive = checked_archive(content, _without_fields)
    with zipfile.ZipFile(archive) as members:
        title = _title(members)
        headings = "\n".join(_headings(members))
    no_image = mammoth.images.img_element(lambda _: {})
    html = mammoth.convert_to_html(archive, style_map=headings, convert_image=no_image).value
    soup = BeautifulSoup(html, "lxml")
    _clean(soup)
    return {"title": title, "text": to_markdown(soup).replace("  \n", "\n")}


def _without_fields(name: str, member: bytes) -> bytes:
    return _FIELD.sub(b"", member) if name.startswith("word/") else member


def _title(members: zipfile.ZipFile) -> str | None:
    from lxml import etree

    if "docProps/core.xml" not in members.namelist():
        return None
    title: str | None = etree.fromstring(members.read("docProps/core.xml")).findtext(_TITLE)
    return title


def _headings(members: zipfile.ZipFile) -> Iterator[str]:
    """Return a line of mammoth's style map for each style that is, or is based on, one of Word's headings."""
    from lxml import etree

    if "word/styles.xml" not in members.namelist():
        return
    names: dict[str, str] = {}
    bases: dict[str, str] = {}
    for style in etree.fromstring(members.read("word/styles.xml")).iter(f"{_WORD}style"):
        identifier = style.get(f"{_WORD}styleId", "")
        for child in style.iter(f"{_WORD}name"):
            names[identifier] = child.get(f"{_WORD}val", "")
        for child in style.iter(f"{_WORD}basedOn"):
            bases[identifier] = child.get(f"{_WORD}val", "")
    for identifier, name in names.items():
        level = _level(identifier, names, bases)
        if level and name.isprintable():
            quoted = name.replace("\\", "\\\\").replace("'", "\\'")
            yield f"p[style-name='{quoted}'] => h{level}:fresh"


def _level(identifier: str, names: dict[str, str], bases: dict[str, str]) -> int | None:
    seen: set[str] = set()
    while identifier not in seen:  # styles of a damaged file may be based on each other
        heading = _HEADING.fullmatch(names.get(identifier, ""))
        if heading:
            return min(int(heading[1] or 1), 6)
        seen.add(identifier)
        identifier = bases.get(identifier, identifier)
    return None


def _clean(soup: BeautifulSoup) -> None:
    for tag in soup.select(_NOT_TEXT):
        tag.decompose()
    for tag in soup.select(_PLAIN):
        tag.unwrap()
    for table in soup.select("table table"):
        _flatten(table)
    for table in soup.select("table"):
        _fill(soup, table)
        for cell in table.select("tr:first-child td"):
            cell.name = "th"  # the header
    soup.smooth()
    for text in soup.find_all(string=True):
        plain = escaped(text)
        text.replace_with(plain.replace("|", "\\|") if text.find_parent("table") else plain)


def _flatten(table: Tag) -> None:
    """Turn a table in a cell into words: Markdown has no tables in tables."""
    for cell in table.select("td, th"):
        cell.insert_after(" ")
        cell.name = "span"
    for row in table.select("tr"):
        row.name = "p"
    table.name = "div"


def _fill(soup: BeautifulSoup, table: Tag) -> None:
    """Add the empty cells that a merged cell leaves in the rows below its first one."""
    rows_left: dict[int, int] = {}
    for row in table.select("tr"):
        column = 0
        for cell in [*row.select("td, th"), None]:
            while rows_left.get(column):
                rows_left[column] -= 1
                column += 1
                empty = soup.new_tag("td")
                if cell is None:
                    row.append(empty)
                else:
                    cell.insert_before(empty)
            if cell is not None:
                width = min(int(str(cell.get("colspan", "1"))), _MOST_COLUMNS)
                cell["colspan"] = str(width)
                rows = int(str(cell.get("rowspan", "1")))
                rows_left.update(dict.fromkeys(range(column, column + width), rows - 1))
                column += width
