"""What mammoth does not read in the XML of a Word file, as what it reads."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from typing import Any

from lxml import etree

_ON = frozenset({None, "1", "on", "true"})
_UNWRAPPED = ("bdo", "customXml", "dir", "fldSimple", "moveTo", "oMathPara", "ruby", "rubyBase")
# What was moved away, reading aids above words, which repeat them, and places where a word may be divided.
_REMOVED = ("moveFrom", "rt", "softHyphen")
# Other spaces and line breaks.
_RENAMED = {"cr": "br", "ptab": "tab"}
# What is between the parts of a formula.
_MARK_BY_PART = {"den": "/", "sub": "_", "sup": "^"}


def readable(file: io.BytesIO, styles: Styles) -> tuple[io.BytesIO, int]:
    """
    Return a Word file without hidden text, with text boxes, formulas and fields as mammoth reads them.

    :return: The file, and the number of hidden passages.
    """
    changed = io.BytesIO()
    hidden = 0
    with zipfile.ZipFile(file) as original, zipfile.ZipFile(changed, "w") as copy:
        for name in original.namelist():
            content = original.read(name)
            if name.startswith("word/") and name.endswith((".xml", ".XML")):
                root = etree.fromstring(content)
                if _local(root) in {"document", "endnotes", "footnotes"}:
                    hidden += _change(root, styles)
                    content = etree.tostring(root, xml_declaration=True, encoding="UTF-8")
            copy.writestr(name, content)
    changed.seek(0)
    return changed, hidden


class Styles:
    """
    The styles of a Word file.

    :ivar name_by_id: Names by their id.
    """

    def __init__(self, file: io.BytesIO) -> None:
        self.name_by_id: dict[str, str] = {}
        self._base_by_id: dict[str, str] = {}
        self._vanish_by_id: dict[str, bool | None] = {}
        with zipfile.ZipFile(file) as archive:
            if "word/styles.xml" not in archive.namelist():
                return
            root = etree.fromstring(archive.read("word/styles.xml"))
        for style in root.iterfind("{*}style"):
            style_id = _value(style, "styleId") or ""
            self.name_by_id[style_id] = _value_of(style, "name") or ""
            self._base_by_id[style_id] = _value_of(style, "basedOn") or ""
            self._vanish_by_id[style_id] = _vanishes(style)

    def chain(self, style_id: str | None) -> Iterable[str]:
        """Return a style and those on which it is based; styles of a damaged file may be based on each other."""
        chain: dict[str, None] = {}
        while style_id in self.name_by_id and style_id not in chain:
            chain[style_id] = None
            style_id = self._base_by_id[style_id]
        return chain

    def hides(self, style_id: str | None) -> bool:
        """Return whether text of a style is hidden."""
        known = [self._vanish_by_id[base] for base in self.chain(style_id)]
        return next((vanishes for vanishes in known if vanishes is not None), False)


def _change(root: Any, styles: Styles) -> int:
    hidden = _remove_hidden(root, styles)
    for tag in _REMOVED:
        for element in list(root.iter(f"{{*}}{tag}")):
            _remove(element)
    for tag, known in _RENAMED.items():
        for element in root.iter(f"{{*}}{tag}"):
            element.tag = f"{{{_namespace(element)}}}{known}"
    for choices in list(root.iter("{*}AlternateContent")):
        _choose(choices)
    for drawing in list(root.iter("{*}drawing")):
        _show_text_boxes(drawing)
    for formula in list(root.iter("{*}oMath")):
        _write_formula(formula)
    for tag in _UNWRAPPED:
        for element in list(root.iter(f"{{*}}{tag}")):
            _unwrap(element)
    return hidden


def _remove_hidden(root: Any, styles: Styles) -> int:
    hidden = 0
    for run in list(root.iter("{*}r")):
        vanishes = _vanishes(run)
        if vanishes is None:
            paragraph = next(run.iterancestors("{*}p"), None)
            vanishes = styles.hides(_value_of(run, "rPr/{*}rStyle")) or (
                paragraph is not None and styles.hides(_value_of(paragraph, "pPr/{*}pStyle"))
            )
        if vanishes:
            hidden += any(text.text for text in run.iter("{*}t"))
            _remove(run)
    return hidden


def _vanishes(element: Any) -> bool | None:
    """Return whether a run or a style says that its text is hidden; None if it says nothing."""
    vanish = element.find("{*}rPr/{*}vanish")
    return None if vanish is None else _value(vanish, "val") in _ON


def _choose(choices: Any) -> None:
    """Let mammoth, which reads the fallback, read the first choice if the fallback has no text."""
    fallback = choices.find("{*}Fallback")
    if fallback is not None and _has_text(fallback):
        return
    choice = choices.find("{*}Choice")
    if choice is not None and _has_text(choice):
        if fallback is not None:
            _remove(fallback)
        choice.tag = f"{{{_namespace(choice)}}}Fallback"


def _show_text_boxes(drawing: Any) -> None:
    boxes = [box for box in drawing.iter("{*}txbxContent") if _is_outermost(box, drawing)]
    if boxes and drawing.getparent() is not None:
        picture = etree.Element(f"{{{_namespace(boxes[0])}}}pict")
        picture.extend(boxes)
        drawing.getparent().replace(drawing, picture)


def _is_outermost(box: Any, drawing: Any) -> bool:
    outer = next(box.iterancestors("{*}txbxContent", "{*}drawing"), None)
    return outer is drawing


def _write_formula(formula: Any) -> None:
    text = ""
    for part in formula.iter():
        text += _MARK_BY_PART.get(_local(part), "")
        if _local(part) == "t":
            text += part.text or ""
    around = next(formula.iterancestors("{*}p", "{*}body"), None)
    if around is not None and formula.getparent() is not None:
        space = f"{{{_namespace(around)}}}"
        run = etree.Element(f"{space}r")
        etree.SubElement(run, f"{space}t").text = text
        formula.getparent().replace(formula, run)


def _has_text(element: Any) -> bool:
    return next(element.iter("{*}t"), None) is not None


def _unwrap(element: Any) -> None:
    parent = element.getparent()
    if parent is not None:
        at = parent.index(element)
        parent[at : at + 1] = list(element)


def _remove(element: Any) -> None:
    if element.getparent() is not None:
        element.getparent().remove(element)


def _value_of(element: Any, path: str) -> str | None:
    found = element.find(f"{{*}}{path}")
    return None if found is None else _value(found, "val")


def _value(element: Any, name: str) -> str | None:
    value: str | None = element.get(f"{{{_namespace(element)}}}{name}")
    return value


def _namespace(element: Any) -> str:
    return etree.QName(element).namespace or ""


def _local(element: Any) -> str:
    # Comments have a function in place of a tag.
    return etree.QName(element).localname if isinstance(element.tag, str) else ""
