"""
The package that an Office file is: its parts in XML, the relations between them, and the words that stay in them.

A parser of a format reads parts with :meth:`Package.tree` and names what it leaves out of them. :meth:`Package.page`
counts the words of all other parts, so that each word of a file is in its text or in its notes.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from lxml import etree

from airflow_provider_assistant.parsing.child import UnreadableFileError, library_call
from airflow_provider_assistant.parsing.markdown import escaped
from airflow_provider_assistant.parsing.pages import Note, Page

# Bytes of all members of the archive, and how many there may be.
LARGEST_ARCHIVE, MOST_MEMBERS = 400_000_000, 10_000
# The format forbids document type definitions, with which a few bytes of XML become gigabytes.
_DOCTYPES = tuple("<!DOCTYPE".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
# The first bytes of the formats before 2007, and of the envelope of an encrypted file.
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# What stands between the words of XML, by the local name of an element.
_MARKS = {"br": "\n", "cr": "\n", "den": "/", "p": "\n", "pt": "\n", "si": "\n", "tab": " ", "text": "\n"}
_HAS_WORDS = re.compile(rb"<(?:\w+:)?(?:t|pt|text)[ />]")
_WORD = re.compile(r"[^\W_]+")
# Why the words of a part are not read, and whether that is expected, by the kind of a relation to it.
_TEMPLATE, _COMMENT = ("in a template", True), ("in a comment", True)
_UNREAD = {
    "chart": ("in a chart", False),
    "chartEx": ("in a chart", False),
    "comments": _COMMENT,
    "commentsExtended": _COMMENT,
    "diagramData": ("in a diagram", False),
    "drawing": ("in a drawing", False),
    "footer": ("in a footer", True),
    "glossaryDocument": _TEMPLATE,
    "handoutMaster": _TEMPLATE,
    "header": ("in a header", True),
    "notesMaster": _TEMPLATE,
    "notesSlide": ("in the notes of a slide", True),
    "slideLayout": _TEMPLATE,
    "slideMaster": _TEMPLATE,
    "threadedComment": _COMMENT,
}
# The picture of a diagram has the words of its data.
_COPIES = frozenset({"diagramDrawing"})


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

    :param content: The file.
    :raises UnreadableFileError: It is not an archive, has too many members, is too large, or has a document type
        definition.
    """

    def __init__(self, content: bytes) -> None:
        self.parts = _parts(content)
        self._read: set[str] = set()
        self._left_out: Counter[tuple[str, bool]] = Counter()
        self._relations = {}
        for name in self.parts:
            if name.endswith(".rels"):
                folder, file = posixpath.split(name.removesuffix(".rels"))
                source = posixpath.join(posixpath.dirname(folder), file)
                self._relations[source] = self._relations_of(name, posixpath.dirname(folder))

    def relations(self, name: str) -> dict[str, Relation]:
        """
        Return the relations of a part, by their id.

        :param name: Empty for those of the file itself.
        """
        return self._relations.get(name, {})

    def relations_part(self, name: str) -> bytes:
        """Return the part with the relations of another one; empty if it has none."""
        folder, file = posixpath.split(name)
        return self.parts.get(posixpath.join(folder, "_rels", f"{file}.rels"), b"")

    def used(self, name: str, element: Any) -> Relation | None:
        """Return the relation of a part that one of its elements names, if any."""
        for attribute, value in element.attrib.items():
            # Its prefix is free, and other attributes named "id" have none.
            if attribute.endswith("}id"):
                return self.relations(name).get(value)
        return None

    def related(self, name: str, kind: str) -> list[str]:
        """Return the names of the parts that a part uses in one way."""
        return [
            relation.target
            for relation in self.relations(name).values()
            if relation.kind == kind and relation.target in self.parts
        ]

    @property
    def main(self) -> str:
        """
        Return the name of the part in which the file begins.

        :raises UnreadableFileError: There is none.
        """
        names = self.related("", "officeDocument")
        if not names:
            raise UnreadableFileError("is damaged: it has no document")
        return names[0]

    def content(self, name: str) -> bytes:
        """Return a part. The caller reads its words, or leaves them out."""
        self._read.add(name)
        return self.parts[name]

    def tree(self, name: str) -> Any:
        """
        Return the XML of a part. The caller reads its words, or leaves them out.

        :raises UnreadableFileError: It is not XML.
        """
        return _tree(self.content(name))

    def leave_out(self, text: str, reason: str, *, is_expected: bool = True) -> None:
        """
        Count words that are not in the text of the file.

        :param reason: Where they are, such as ``in a hidden row``.
        """
        self._left_out[reason, is_expected] += len(words(text))

    def remove(self, element: Any, reason: str) -> None:
        """Remove an element from its part and count its words. The text behind it does not exist in these formats."""
        if element.getparent() is not None:
            self.leave_out(text_of(element), reason)
            element.getparent().remove(element)

    def drawn_text(self, name: str) -> Iterable[str]:
        """Yield the paragraphs of the text boxes and diagrams that belong to a part."""
        for part in [*self.related(name, "drawing"), *self.related(name, "diagramData")]:
            for paragraph in self.tree(part).iter("{*}p"):
                yield escaped(text_of(paragraph).strip())

    def page(self, blocks: Iterable[str]) -> Page:
        """
        Return the file.

        :param blocks: Its text as blocks of Markdown. Blank ones are left out.
        """
        text = "\n\n".join(block.strip("\n") for block in blocks if block.strip())
        embedded = 0
        kinds = {}
        for relations in self._relations.values():
            embedded += sum(relation.kind == "aFChunk" for relation in relations.values())
            kinds |= {relation.target: relation.kind for relation in relations.values()}
        for name, kind in kinds.items():
            content = self.parts.get(name, b"")
            if name not in self._read and kind not in _COPIES and _HAS_WORDS.search(content):
                reason, is_expected = _UNREAD.get(kind, (f"in a part that is not read: {kind}", False))
                self.leave_out(text_of(_tree(content)), reason, is_expected=is_expected)
        notes = [Note("word", *reason, count) for reason, count in self._left_out.items() if count]
        if embedded:
            notes.append(Note("passage", "is an embedded file", is_expected=False, count=embedded))
        return Page({"title": self._title()} if self._title() else {}, text, notes)

    def _title(self) -> str:
        for name in self.related("", "core-properties"):
            return (_tree(self.parts[name]).findtext("{*}title") or "").strip()
        return ""

    def _relations_of(self, name: str, folder: str) -> dict[str, Relation]:
        found = {}
        for element in _tree(self.parts[name]).iterfind("{*}Relationship"):
            target = element.get("Target", "")
            if element.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            found[element.get("Id", "")] = Relation(posixpath.basename(element.get("Type", "")), target)
        return found


def words(text: str) -> list[str]:
    """Return the words of a text, as they are counted."""
    return _WORD.findall(text)


def text_of(element: Any) -> str:
    """
    Return the text of some XML.

    Superscripts and subscripts have their marks, and hidden copies of the text are left out.
    """
    found = []
    for part in element.iter():
        name = local_name(part)
        if name in _MARKS:
            found.append(_MARKS[name])
        if name in {"t", "v", "text"}:
            mark = _script_mark(part)
            found.append(f"{mark}{part.text or ''}{mark}")
    return "".join(found)


def _script_mark(element: Any) -> str:
    """Return the mark around the text of a superscript or subscript in a slide or a formula."""
    run = element.getparent()
    if run is None:
        return ""
    properties = run.find("{*}rPr")
    baseline = "0" if properties is None else properties.get("baseline", "0")
    script = local_name(run.getparent()) if run.getparent() is not None else ""
    if script == "sup" or (baseline.isdigit() and int(baseline)):
        return "^"
    if script == "sub" or baseline.startswith("-"):
        return "~"
    return ""


def local_name(element: Any) -> str:
    """Return the name of an element without its namespace."""
    return etree.QName(element).localname


def _tree(content: bytes) -> Any:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    with library_call():
        return etree.fromstring(content, parser)


def _parts(content: bytes) -> dict[str, bytes]:
    """Return the members of an archive that are XML, by their names. Pictures have no words."""
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
