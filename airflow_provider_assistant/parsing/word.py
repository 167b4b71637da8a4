"""
Word files as Markdown.

mammoth converts a file to HTML, and the HTML becomes Markdown. mammoth reads lists, links, footnotes, merged cells and
content controls. What it does not read is changed before.
"""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections import Counter
from typing import Any, NamedTuple

import mammoth
from bs4 import BeautifulSoup, Tag
from lxml import etree

from airflow_provider_assistant.parsing import writer
from airflow_provider_assistant.parsing.child import library_call
from airflow_provider_assistant.parsing.office import ON, Package, text_of
from airflow_provider_assistant.parsing.pages import Page

_HEADING = re.compile(r"title|heading ([1-9])", re.IGNORECASE)
# Elements whose content mammoth reads only without them.
_UNWRAPPED = ("{*}bdo", "{*}customXml", "{*}dir", "{*}fldSimple", "{*}moveTo", "{*}oMathPara", "{*}ruby", "{*}rubyBase")
# Elements whose words are not content, and where these words are.
_REMOVED = {"{*}moveFrom": "at a place from which text was moved", "{*}rt": "in a reading aid"}
# Elements without words: pictures, which a file may lack, and places where a word may be divided.
_WORDLESS = ("{*}blip", "{*}imagedata", "{*}softHyphen")
# Other line breaks and blanks.
_RENAMED = {"{*}cr": "br", "{*}ptab": "tab"}
_DRAWINGS = ("{*}drawing", "{*}pict", "{*}object")
_WORD = re.compile(r"\w+")
# Tags within a paragraph, and other tags.
_INLINE, _TAG = re.compile(r"</?(?:a|em|s|span|strong|sub|sup)\b[^>]*>"), re.compile(r"<[^>]*>")


class _Style(NamedTuple):
    """What a style says, or else the one on which it is based."""

    is_hidden: bool = False
    is_contents: bool = False


def page(content: bytes) -> Page:
    """
    Return a Word file: headings, paragraphs, lists, links, tables, text boxes, footnotes and formulas.

    Hidden text and the table of contents, which repeats the headings, are left out.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    package = Package(content)
    roots = {}
    styles: dict[str | None, _Style] = {}
    for name in package.related(package.main, "styles"):
        roots[name] = package.tree(name)
        styles = _read_styles(roots[name])
    for name in package.related(package.main, "numbering"):
        roots[name] = package.tree(name)
    bodies = []
    for name in [package.main, *package.related(package.main, "footnotes"), *package.related(package.main, "endnotes")]:
        roots[name] = package.tree(name)
        bodies.append(roots[name])
        _remove_unshown(package, roots[name], styles)
        _simplify(roots[name])
    converted = _converted(package, roots)
    lost = _lost_words("\n".join(map(text_of, bodies)), converted)
    package.leave_out(lost, "in an unknown element", is_expected=False)
    soup = BeautifulSoup(converted, "lxml")
    _clean(soup)
    return package.page([writer.written(soup), *package.drawn_text(package.main)])


def _read_styles(root: Any) -> dict[str | None, _Style]:
    """Return the styles by their ids. Styles that are based on a heading get its name, which mammoth knows."""
    style_by_id = {_value(style, "styleId"): style for style in root.iterfind("{*}style")}
    read = {}
    for style_id, style in style_by_id.items():
        # mammoth needs both.
        style.set(_beside(style, "type"), _value(style, "type") or "paragraph")
        style.set(_beside(style, "styleId"), style_id or "")
        chain: list[Any] = []
        base = style_id
        # Styles of a damaged file may be based on each other.
        while base in style_by_id and style_by_id[base] not in chain:
            chain.append(style_by_id[base])
            base = _value_of(chain[-1], "basedOn")
        names = [_value_of(each, "name") or "" for each in chain]
        headings = [found for found in map(_HEADING.fullmatch, names) if found]
        for name in style.iterfind("{*}name") if headings else ():
            # The style "Title" has no number.
            name.set(_beside(name, "val"), f"heading {min(int(headings[0][1] or 1), 6)}")
        hidden = [vanishes for vanishes in map(_vanishes, chain) if vanishes is not None]
        read[style_id] = _Style(True in hidden[:1], any(name.lower().startswith("toc ") for name in names))
    return read


def _remove_unshown(package: Package, body: Any, styles: dict[str | None, _Style]) -> None:
    for alternatives in list(body.iter("{*}AlternateContent")):
        # They have the same text, for programs of different ages.
        choices = [*alternatives.iterfind("{*}Choice"), *alternatives.iterfind("{*}Fallback")]
        choice = next((choice for choice in choices if text_of(choice).strip()), ())
        _replace(alternatives, list(choice))
    for tag, reason in _REMOVED.items():
        for element in list(body.iter(tag)):
            package.remove(element, reason)
    for paragraph in list(body.iter("{*}p")):
        style = styles.get(_value_of(paragraph, "pPr/{*}pStyle"), _Style())
        if style.is_contents:
            package.remove(paragraph, "in the table of contents")
            continue
        for run in list(paragraph.iter("{*}r")):
            run_style = styles.get(_value_of(run, "rPr/{*}rStyle"), _Style())
            vanishes = _vanishes(run)
            if vanishes or (vanishes is None and (style.is_hidden or run_style.is_hidden)):
                package.remove(run, "in hidden text")


def _simplify(body: Any) -> None:
    """Replace what mammoth does not read."""
    for element in list(body.iter(*_WORDLESS)):
        element.getparent().remove(element)
    for tag, known in _RENAMED.items():
        for element in body.iter(tag):
            element.tag = _beside(element, known)
    for drawing in list(body.iter(*_DRAWINGS)):
        boxes = [box for box in drawing.iter("{*}txbxContent") if next(box.iterancestors(*_DRAWINGS)) is drawing]
        if boxes:
            picture = etree.Element(_beside(boxes[0], "pict"))
            picture.extend(boxes)
            _replace(drawing, [picture])
    for formula in list(body.iter("{*}oMath")):
        for paragraph in list(formula.iterancestors("{*}p"))[:1]:
            run = etree.Element(_beside(paragraph, "r"))
            etree.SubElement(run, _beside(paragraph, "t")).text = text_of(formula)
            _replace(formula, [run])
    for element in list(body.iter(*_UNWRAPPED)):
        _replace(element, list(element))


def _converted(package: Package, roots: dict[str, Any]) -> str:
    """
    Return the HTML that mammoth makes of a document.

    :param roots: The changed XML of its parts, by name. Other parts, such as pictures, are left out.
    """
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        for name, content in package.parts.items():
            if name in roots:
                target.writestr(name, etree.tostring(roots[name]))
            elif name.endswith(".rels"):
                target.writestr(name, content)
    archive.seek(0)
    with library_call():
        return str(mammoth.convert_to_html(archive).value)


def _lost_words(text: str, converted: str) -> str:
    found = html.unescape(_TAG.sub(" ", _INLINE.sub("", converted)))
    return " ".join((Counter(_WORD.findall(text)) - Counter(_WORD.findall(found))).elements())


def _clean(soup: BeautifulSoup) -> None:
    for tag in soup.find_all(["em", "img", "s", "strong"]):
        # A title is not bold. Pictures have no words.
        tag.unwrap()
    for link in soup.find_all("a"):
        address = str(link.get("href", ""))
        if address.startswith(("#footnote-ref", "#endnote-ref")):
            link.decompose()
        elif address.startswith("#") or not address:
            # It leads nowhere outside the file. The mark of a note is in brackets.
            if link.parent is not None and link.parent.name == "sup":
                link.parent.unwrap()
            link.unwrap()
    for table in soup.find_all("table"):
        if table.find_parent("table") is not None:
            _flatten(table)
            continue
        header = table.find("tr")
        for cell in header.find_all("td", recursive=False) if header else []:
            cell.name = "th"
    # Neighbouring texts become one: a mark may be in two of them.
    soup.smooth()


def _flatten(table: Tag) -> None:
    """Turn a table in a cell into words: Markdown has no tables in tables."""
    for cell in table.find_all(["td", "th"]):
        cell.insert_after(" ")
        cell.name = "span"
    table.name = "div"


def _replace(element: Any, others: list[Any]) -> None:
    parent = element.getparent()
    if parent is not None:
        at = parent.index(element)
        parent[at : at + 1] = others


def _vanishes(element: Any) -> bool | None:
    """Return whether a run or a style says that its text is hidden; None if it says nothing."""
    vanish = element.find("{*}rPr/{*}vanish")
    return None if vanish is None else (_value(vanish, "val") or "1") in ON


def _value_of(element: Any, path: str) -> str | None:
    found = element.find(f"{{*}}{path}")
    return None if found is None else _value(found, "val")


def _value(element: Any, name: str) -> str | None:
    value: str | None = element.get(_beside(element, name))
    return value


def _beside(element: Any, name: str) -> str:
    """Return a name of the namespace of an element, which is also that of its attributes."""
    return f"{{{etree.QName(element).namespace}}}{name}"
