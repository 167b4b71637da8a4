"""
The package that an Office file is: parts in XML, relations between them, and the words that stay in them.

A parser reads parts with :meth:`Package.tree` and names what it leaves out of them. :meth:`Package.page` counts the
words of all other parts, so that each word of a file is in its text or in a note.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from lxml import etree

from airflow_provider_assistant.parsing.child import (
    LARGEST_ARCHIVE,
    MOST_MEMBERS,
    UnreadableFileError,
    library_call,
)
from airflow_provider_assistant.parsing.markdown import escaped
from airflow_provider_assistant.parsing.pages import Note, Page, count_words

# Values of attributes that stand for yes.
ON = frozenset({"1", "on", "true"})
# The format forbids document type definitions, with which a few bytes of XML become gigabytes.
_DOCTYPES = tuple("<!DOCTYPE".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
# The first bytes of the formats before 2007, and of the envelope of an encrypted file.
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# What stands between the words of XML, by the local name of an element.
_MARKS = {"br": "\n", "cr": "\n", "den": "/", "p": "\n", "pt": "\n", "si": "\n", "tab": " ", "text": "\n"}
_HAS_WORDS = re.compile(rb"<(?:\w+:)?(?:t|pt|text)[ />]")
# Why the words of a part are not read, by the kind of a relation to it. Those that are expected come first.
_EXPECTED = {
    "comments": "in a comment",
    "footer": "in a footer",
    "glossaryDocument": "in a template",
    "handoutMaster": "in a template",
    "header": "in a header",
    "notesMaster": "in a template",
    "notesSlide": "in the notes of a slide",
    "slideLayout": "in a template",
    "slideMaster": "in a template",
    "threadedComment": "in a comment",
}
_UNEXPECTED = {"chart": "in a chart", "chartEx": "in a chart", "diagramData": "in a diagram", "drawing": "in a drawing"}
# The picture of a diagram has the words of its data.
_COPY = "diagramDrawing"


class Relation(NamedTuple):
    """
    What a part uses.

    :param kind: Such as ``hyperlink``.
    :param target: Name of another part, or an address outside.
    """

    kind: str
    target: str


class Package:
    """
    An Office file.

    :ivar parts: Its parts in XML, by name. Pictures have no words.
    :ivar main: Name of the part in which the file begins.
    :raises UnreadableFileError: It is not an archive, has too many members, is too large, or has a document type
        definition.
    """

    def __init__(self, content: bytes) -> None:
        self.parts = _parts(content)
        self._read: set[str] = set()
        self._left_out: Counter[tuple[str, bool]] = Counter()
        mains = self.related("", "officeDocument")
        if not mains:
            raise UnreadableFileError("is damaged (it has no document)")
        self.main = mains[0]

    def tree(self, name: str) -> Any:
        """
        Return the XML of a part. The caller reads its words, or leaves them out.

        :raises UnreadableFileError: It is not XML.
        """
        self._read.add(name)
        return _tree(self.parts[name])

    def relations(self, name: str) -> dict[str, Relation]:
        """
        Return the relations of a part, by their id.

        :param name: Empty for those of the file itself.
        """
        folder, file = posixpath.split(name)
        content = self.parts.get(posixpath.join(folder, "_rels", f"{file}.rels"))
        relations = {}
        for element in _tree(content) if content else ():
            target = element.get("Target", "")
            if element.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            relations[element.get("Id", "")] = Relation(posixpath.basename(element.get("Type", "")), target)
        return relations

    def related(self, name: str, kind: str) -> list[str]:
        """Return the names of the parts that a part uses in one way."""
        targets = [relation.target for relation in self.relations(name).values() if relation.kind == kind]
        return [target for target in targets if target in self.parts]

    def leave_out(self, text: str, reason: str, *, is_expected: bool = True) -> None:
        """
        Count words that are not in the text of the file.

        :param reason: Where they are, such as ``in a hidden row``.
        """
        self._left_out[reason, is_expected] += count_words(text)

    def remove(self, element: Any, reason: str) -> None:
        """Remove an element from its part, and count its words."""
        if element.getparent() is not None:
            self.leave_out(text_of(element), reason)
            element.getparent().remove(element)

    def drawn_text(self, name: str) -> Iterator[str]:
        """Yield the paragraphs of the text boxes and diagrams that belong to a part."""
        for part in [*self.related(name, "drawing"), *self.related(name, "diagramData")]:
            for paragraph in self.tree(part).iter("{*}p"):
                yield escaped(text_of(paragraph).strip())

    def page(self, blocks: Iterable[str]) -> Page:
        """
        Return the file.

        :param blocks: Its text as blocks of Markdown. Blank ones are left out.
        """
        page = Page(text="\n\n".join(block.strip("\n") for block in blocks if block.strip()))
        embedded = self._leave_out_rest()
        page.notes = [Note("word", *reason, count) for reason, count in self._left_out.items() if count]
        if embedded:
            page.notes.append(Note("passage", "is an embedded file", is_expected=False, count=embedded))
        for name in self.related("", "core-properties"):
            title = (_tree(self.parts[name]).findtext("{*}title") or "").strip()
            if title:
                page.fields["title"] = title
        return page

    def _leave_out_rest(self) -> int:
        """Count the words of the parts that were not read. Return the number of embedded files."""
        embedded = 0
        kind_by_part = {}
        for name in self.parts:
            for relation in self.relations(name).values():
                kind_by_part[relation.target] = relation.kind
                embedded += relation.kind == "aFChunk"
        for name in (self.parts.keys() & kind_by_part.keys()) - self._read:
            kind = kind_by_part[name]
            if kind != _COPY and _HAS_WORDS.search(self.parts[name]):
                reason = _UNEXPECTED.get(kind, f"in an unknown part ({kind})")
                text = text_of(_tree(self.parts[name]))
                self.leave_out(text, _EXPECTED.get(kind, reason), is_expected=kind in _EXPECTED)
        return embedded


def relation_of(element: Any, relations: dict[str, Relation]) -> Relation | None:
    """Return the relation that an element names, if any."""
    for attribute, value in element.attrib.items():
        # Other attributes named "id" have no namespace.
        if attribute.endswith("}id"):
            return relations.get(value)
    return None


def text_of(element: Any) -> str:
    """Return the text of some XML, with a mark at superscripts, subscripts and fractions."""
    found = []
    for part in element.iter():
        name = etree.QName(part).localname
        found.append(_MARKS.get(name, ""))
        if name in {"t", "v", "text"}:
            mark = _script_mark(part)
            found.append(f"{mark}{part.text or ''}{mark}")
    return "".join(found)


def _script_mark(text: Any) -> str:
    """Return the mark around a superscript or a subscript of a slide, a cell or a formula."""
    run = text.getparent()
    # In a formula, the element around the run says it; on a slide, the height in the properties of the run; in a cell,
    # their alignment.
    around = run.getparent()
    name = "" if around is None else etree.QName(around).localname
    properties = run.find("{*}rPr")
    baseline = "" if properties is None else properties.get("baseline", "")
    alignment = None if properties is None else properties.find("{*}vertAlign")
    name = name if alignment is None else alignment.get("val", "")[:3]
    if name == "sup" or baseline.strip("0").isdigit():
        return "^"
    return "~" if name == "sub" or baseline.startswith("-") else ""


def _tree(content: bytes) -> Any:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    with library_call():
        return etree.fromstring(content, parser)


def _parts(content: bytes) -> dict[str, bytes]:
    if content.startswith(_OLE):
        raise UnreadableFileError("is encrypted, or of a version before 2007")
    parts = {}
    with library_call(), zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise UnreadableFileError(f"is an archive of more than {MOST_MEMBERS:,} members")
        if sum(member.file_size for member in members) > LARGEST_ARCHIVE:
            raise UnreadableFileError(f"is an archive of more than {LARGEST_ARCHIVE:,} bytes")
        for member in members:
            if member.filename.lower().endswith((".xml", ".rels")):
                with archive.open(member) as file:
                    # read() with a size unpacks no more than these bytes, whatever the archive holds.
                    part = file.read(member.file_size)
                if any(doctype in part for doctype in _DOCTYPES):
                    raise UnreadableFileError("has a document type definition, which the format forbids")
                parts[member.filename] = part
    return parts
