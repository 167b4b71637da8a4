"""Small files of each format."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any


def saved(document: Any) -> bytes:
    """Return the bytes of a document that writes itself to a file."""
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def pdf(*pages: str, objects: tuple[bytes, ...] = (), catalog: bytes = b"", info: bytes = b"") -> bytes:
    """Return a PDF file with the lines of each page, and further objects, which begin at number 100."""
    kids = b" ".join(b"%d 0 R" % (10 + 2 * number) for number in range(len(pages)))
    found = {
        1: b"<< /Type /Catalog /Pages 2 0 R %s >>" % catalog,
        2: b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        4: b"<< %s >>" % info,
    }
    for number, text in enumerate(pages):
        drawn = " ".join(f"({line}) Tj T*" for line in text.split("\n")).encode("latin-1")
        stream = b"BT /F1 12 Tf 14 TL 72 720 Td %s ET" % drawn
        found[10 + 2 * number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            b"/Contents %d 0 R >>" % (11 + 2 * number)
        )
        found[11 + 2 * number] = b"<< /Length %d >> stream\n%s\nendstream" % (len(stream), stream)
    found |= dict(enumerate(objects, start=100))
    return file_of(found)


def file_of(objects: dict[int, bytes]) -> bytes:
    """Return a PDF file with these objects, the first of which is its catalog and the fourth its properties."""
    content, positions = b"%PDF-1.7\n", {}
    for number, text in objects.items():
        positions[number] = len(content)
        content += b"%d 0 obj\n%s\nendobj\n" % (number, text)
    table = b"".join(b"%d 1\n%010d 00000 n \n" % found for found in positions.items())
    trailer = b"trailer << /Root 1 0 R /Info 4 0 R /Size %d >>" % (max(objects) + 1)
    return content + b"xref\n%s%s\nstartxref\n%d\n%%%%EOF\n" % (table, trailer, len(content))


def docx(write: Callable[[Any], None], template: io.BytesIO | None = None) -> bytes:
    """Return a Word file, which begins with what a template has."""
    from docx import Document

    document = Document(template)
    write(document)
    return saved(document)


def pptx(*slides: tuple[str, str]) -> bytes:
    """Return a PowerPoint file with the title and the text of each slide."""
    from pptx import Presentation

    presentation = Presentation()
    for title, text in slides:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, text
    return saved(presentation)


def xlsx(**sheets: list[list[Any]]) -> bytes:
    """Return an Excel file with the rows of each sheet."""
    from openpyxl import Workbook

    workbook = Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return saved(workbook)


def repacked(
    content: bytes, change: Callable[[str, bytes], bytes], names: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """Return an archive in which the content of each member has been changed, and some have new names."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(names.get(name, name), change(name, source.read(name)))
    return file.getvalue()
