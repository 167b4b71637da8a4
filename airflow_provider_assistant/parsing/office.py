"""Files of PowerPoint and Excel as Markdown, and the check of all Office files."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Any

from airflow_provider_assistant.parsing.limits import LARGEST_ARCHIVE, MOST_MEMBERS, Text, UnreadableFileError
from airflow_provider_assistant.parsing.markdown import escaped, heading, table
from airflow_provider_assistant.parsing.sheets import SheetLayout

# The format forbids document type definitions, with which a few bytes of XML become gigabytes.
_DOCTYPES = tuple("<!DOCTYPE".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
_MIDNIGHT = " 00:00:00"


# Shapes of a slide that repeat on every one, or change from day to day: date, footer, header, number.
_REPEATED_PLACEHOLDERS = frozenset({"dt", "ftr", "hdr", "sldNum"})


def parse_pptx(content: bytes) -> dict[str, Any]:
    """
    Return title and text of a PowerPoint file. Each slide is a section; hidden slides and notes are left out.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    import pptx

    presentation = pptx.Presentation(checked_archive(content))
    text = Text()
    hidden = 0
    for slide in presentation.slides:
        # python-pptx has no other access to it.
        if slide._element.get("show") in {"0", "false"}:  # noqa: SLF001
            hidden += 1
        else:
            _add_slide(slide, text)
    return {
        "title": presentation.core_properties.title,
        "text": str(text),
        "left_out": [("slide", "is hidden", True, hidden)] if hidden else [],
    }


def _add_slide(slide: Any, text: Text) -> None:
    title_shape = slide.shapes.title
    title = ""
    if title_shape is not None:
        title = title_shape.text_frame.text
    text.add(heading(title, 2))
    for shape in _ungrouped_shapes(slide.shapes):
        if title_shape is not None and shape.shape_id == title_shape.shape_id:
            continue
        if not _REPEATED_PLACEHOLDERS.isdisjoint(shape.element.xpath(".//p:nvPr/p:ph/@type")):
            continue
        if shape.has_text_frame:
            # python-pptx returns a line break within a paragraph as a vertical tab.
            text.add(escaped(shape.text_frame.text.replace("\v", "\n")))
        elif getattr(shape, "has_table", False):
            text.add(table(_table_rows(shape.table)))
    for relation in slide.part.rels.values():
        if relation.reltype.endswith("/diagramData"):
            text.add(escaped("\n".join(_diagram_texts(relation.target_part.blob))))


def _table_rows(shape_table: Any) -> Iterator[list[str]]:
    for row in shape_table.rows:
        # The cells that a merged cell covers may have kept their text.
        yield ["" if cell.is_spanned else cell.text for cell in row.cells]


def _diagram_texts(content: bytes) -> Iterator[str]:
    """Yield the texts of a diagram, which python-pptx does not read."""
    from lxml import etree

    for paragraph in etree.fromstring(content).iter("{*}p"):
        text = "".join(part.text or "" for part in paragraph.iter("{*}t"))
        if text.strip():
            yield text


def _ungrouped_shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    for shape in shapes:
        is_group = hasattr(shape, "shapes")
        if is_group:
            yield from _ungrouped_shapes(shape.shapes)
        else:
            yield shape


def parse_xlsx(content: bytes) -> dict[str, Any]:
    """
    Return title and text of an Excel file. Each sheet is a section with a table; what is hidden is left out.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    import openpyxl

    workbook = openpyxl.load_workbook(checked_archive(content), read_only=True, data_only=True)
    text = Text()
    left_out: Counter[tuple[str, str, bool]] = Counter()
    for sheet in workbook.worksheets:
        if sheet.sheet_state != "visible":
            left_out["sheet", "is hidden", True] += 1
            continue
        # A file may declare a sheet of a million rows, which would be filled up with empty ones.
        sheet.reset_dimensions()
        text.add(heading(sheet.title, 2))
        with sheet._get_source() as source:  # noqa: SLF001 (openpyxl does not read these in this mode)
            layout = SheetLayout(source.read())
        rows = ([_cell_text(value) for value in row] for row in sheet.iter_rows(values_only=True))
        text.add(table(layout.shown(rows)))
        left_out += layout.left_out
    return {
        "title": workbook.properties.title,
        "text": str(text),
        "left_out": [(*what, count) for what, count in left_out.items()],
    }


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, date | datetime):
        # openpyxl reads a date as a datetime at midnight.
        return str(value).removesuffix(_MIDNIGHT)
    return str(value)


def checked_archive(content: bytes) -> io.BytesIO:
    """
    Check the archive that an Office file is, and pack it again.

    The libraries unpack members in one piece. A member that declares a false size would need the memory of its true
    size, so they get an archive of what was read here.

    :return: The archive, not compressed.
    :raises UnreadableFileError: It is not an archive, has too many members, is too large, or has a document type
        definition.
    """
    packed = io.BytesIO()
    try:
        with (
            zipfile.ZipFile(io.BytesIO(content)) as original,
            zipfile.ZipFile(packed, "w") as copy,
        ):
            members = original.infolist()
            if len(members) > MOST_MEMBERS:
                raise UnreadableFileError(f"is an archive of more than {MOST_MEMBERS:,} members")
            if sum(member.file_size for member in members) > LARGEST_ARCHIVE:
                raise UnreadableFileError(f"is an archive of more than {LARGEST_ARCHIVE:,} bytes")
            for member in members:
                with original.open(member) as file:
                    # read() with a size unpacks no more than these bytes.
                    data = file.read(member.file_size)
                is_xml = member.filename.endswith((".xml", ".rels"))
                if is_xml and any(doctype in data for doctype in _DOCTYPES):
                    raise UnreadableFileError("has a document type definition, which the format forbids")
                copy.writestr(member.filename, data)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise UnreadableFileError(f"is damaged or encrypted ({type(error).__name__})") from None
    packed.seek(0)
    return packed
