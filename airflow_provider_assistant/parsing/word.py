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
from bs4 import BeautifulSoup
from lxml import etree

from airflow_provider_assistant.parsing import writer
from airflow_provider_assistant.parsing.child import library_call
from airflow_provider_assistant.parsing.office import Package, text_of, words
from airflow_provider_assistant.parsing.pages import Page

_HEADING = re.compile(r"title|heading ([1-9])", re.IGNORECASE)
_ON = frozenset({None, "1", "on", "true"})
# Elements whose content mammoth reads only without them.
_UNWRAPPED = ("bdo", "customXml", "dir", "fldSimple", "moveTo", "oMathPara", "ruby", "rubyBase")
# Elements whose words are not content, and where these words are.
_REMOVED = {"moveFrom": "at a place from which text was moved", "rt": "in a reading aid"}
# Elements without words: pictures, which may be missing in a file, and places where a word may be divided.
_WORDLESS = ("blip", "imagedata", "softHyphen")
# Tags within a paragraph, and other tags.
_INLINE, _TAG = re.compile(r"</?(?:a|em|s|span|strong|sub|sup)\b[^>]*>"), re.compile(r"<[^>]*>")
# A title is not bold, and links within the file lead nowhere.
_UNWRAPPED_TAGS = 'strong, em, s, sup:has(> a[href^="#"]), a[href^="#"], a:not([href])'
_REMOVED_TAGS = 'img, a[href^="#footnote-ref"], a[href^="#endnote-ref"]'


class _Style(NamedTuple):
    """What a style of paragraphs or characters says, itself or by a style on which it is based."""

    is_hidden: bool
    is_contents: bool


def page(content: bytes) -> Page:
    """
    Return a Word file: headings, paragraphs, lists, links, tables, text boxes, footnotes and formulas.

    Hidden text and the table of contents, which repeats the headings, are left out.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    package = Package(content)
    name_by_kind = {"document": package.main}
    for kind in ("styles", "numbering", "footnotes", "endnotes"):
        for name in package.related(package.main, kind):
            name_by_kind[kind] = name
    root_by_kind = {kind: package.tree(name) for kind, name in name_by_kind.items()}
    styles = _read_styles(root_by_kind["styles"]) if "styles" in root_by_kind else {}
    bodies = [root_by_kind[kind] for kind in ("document", "footnotes", "endnotes") if kind in root_by_kind]
    for body in bodies:
        _remove_unshown(package, body, styles)
        _simplify(body)
    # mammoth finds parts of these names.
    files = {f"word/{kind}.xml": etree.tostring(root) for kind, root in root_by_kind.items()}
    for kind, name in name_by_kind.items():
        files[f"word/_rels/{kind}.xml.rels"] = package.relations_part(name)
    converted = _converted(files)
    lost = Counter(words("\n".join(map(text_of, bodies)))) - Counter(words(_text_of_html(converted)))
    package.leave_out(" ".join(lost.elements()), "in an unknown element", is_expected=False)
    soup = BeautifulSoup(converted, "lxml")
    _clean(soup)
    return package.page([writer.markdown(soup), *package.drawn_text(package.main)])


def _read_styles(root: Any) -> dict[str | None, _Style]:
    """Return the styles by their ids. Styles that are based on a heading get its name, which mammoth knows."""
    elements = {_value(style, "styleId"): style for style in root.iterfind("{*}style")}
    return {style_id: _read_style(style_id, elements) for style_id in elements}


def _read_style(style_id: str | None, elements: dict[str | None, Any]) -> _Style:
    style = elements[style_id]
    bases = []
    # Styles of a damaged file may be based on each other.
    while style_id in elements and elements[style_id] not in bases:
        bases.append(elements[style_id])
        style_id = _value_of(bases[-1], "basedOn")
    names = [_value_of(base, "name") or "" for base in bases]
    headings = [found for found in map(_HEADING.fullmatch, names) if found]
    if headings:
        # The style "Title" has no number.
        level = min(int(headings[0][1] or 1), 6)
        for name in style.iterfind("{*}name"):
            name.set(_beside(name, "val"), f"heading {level}")
    if _value(style, "type") is None:
        style.set(_beside(style, "type"), "paragraph")
    hidden = [_vanishes(base) for base in bases]
    return _Style(
        is_hidden=next((vanishes for vanishes in hidden if vanishes is not None), False),
        is_contents=any(name.lower().startswith("toc ") for name in names),
    )


def _remove_unshown(package: Package, body: Any, styles: dict[str | None, _Style]) -> None:
    for alternatives in list(body.iter("{*}AlternateContent")):
        # They have the same text, for programs of different ages.
        choices = [*alternatives.iterfind("{*}Choice"), *alternatives.iterfind("{*}Fallback")]
        with_text = [choice for choice in choices if text_of(choice).strip()]
        _replace(alternatives, [part for choice in with_text[:1] for part in choice])
    for tag, reason in _REMOVED.items():
        for element in list(body.iter(f"{{*}}{tag}")):
            package.remove(element, reason)
    no_style = _Style(is_hidden=False, is_contents=False)
    for paragraph in list(body.iter("{*}p")):
        style = styles.get(_value_of(paragraph, "pPr/{*}pStyle"), no_style)
        if style.is_contents:
            package.remove(paragraph, "in the table of contents")
            continue
        for run in list(paragraph.iter("{*}r")):
            run_style = styles.get(_value_of(run, "rPr/{*}rStyle"), no_style)
            vanishes = _vanishes(run)
            if vanishes or (vanishes is None and (style.is_hidden or run_style.is_hidden)):
                package.remove(run, "in hidden text")


def _simplify(body: Any) -> None:
    """Replace what mammoth does not read."""
    for element in list(body.iter(*[f"{{*}}{tag}" for tag in _WORDLESS])):
        element.getparent().remove(element)
    for drawing in list(body.iter("{*}drawing", "{*}pict", "{*}object")):
        boxes = [box for box in drawing.iter("{*}txbxContent") if _is_outermost(box, drawing)]
        if boxes:
            picture = etree.Element(_beside(boxes[0], "pict"))
            picture.extend(boxes)
            _replace(drawing, [picture])
    for formula in list(body.iter("{*}oMath")):
        paragraph = next(formula.iterancestors("{*}p"), None)
        if paragraph is not None:
            run = etree.Element(_beside(paragraph, "r"))
            etree.SubElement(run, _beside(paragraph, "t")).text = text_of(formula)
            _replace(formula, [run])
    for element in list(body.iter(*[f"{{*}}{tag}" for tag in _UNWRAPPED])):
        _replace(element, list(element))


def _is_outermost(box: Any, drawing: Any) -> bool:
    outer = next(box.iterancestors("{*}txbxContent", "{*}drawing", "{*}pict", "{*}object"), None)
    return outer is drawing


def _converted(files: dict[str, bytes]) -> str:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        for name, content in files.items():
            if content:
                target.writestr(name, content)
    archive.seek(0)
    with library_call():
        return str(mammoth.convert_to_html(archive).value)


def _text_of_html(text: str) -> str:
    return html.unescape(_TAG.sub(" ", _INLINE.sub("", text)))


def _clean(soup: BeautifulSoup) -> None:
    for tag in soup.select(_REMOVED_TAGS):
        tag.decompose()
    for tag in soup.select(_UNWRAPPED_TAGS):
        tag.unwrap()
    for inner_table in soup.select("table table"):
        # Markdown has no tables in tables.
        for cell in inner_table.select("td, th"):
            cell.insert_after(" ")
            cell.name = "span"
        inner_table.name = "div"
    for header in soup.select("table > tr:first-child > td, table > tbody > tr:first-child > td"):
        header.name = "th"
    # Neighbouring texts become one: a mark may be in two of them.
    soup.smooth()


def _replace(element: Any, others: list[Any]) -> None:
    parent = element.getparent()
    if parent is not None:
        at = parent.index(element)
        parent[at : at + 1] = others


def _vanishes(element: Any) -> bool | None:
    """Return whether a run or a style says that its text is hidden; None if it says nothing."""
    vanish = element.find("{*}rPr/{*}vanish")
    return None if vanish is None else _value(vanish, "val") in _ON


def _value_of(element: Any, path: str) -> str | None:
    found = element.find(f"{{*}}{path}")
    return None if found is None else _value(found, "val")


def _value(element: Any, name: str) -> str | None:
    value: str | None = element.get(_beside(element, name))
    return value


def _beside(element: Any, name: str) -> str:
    """Return a name of the namespace of an element, which is also that of its attributes."""
    return f"{{{etree.QName(element).namespace}}}{name}"
