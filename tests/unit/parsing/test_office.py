"""PowerPoint and Excel as Markdown, and archives that are made to break a parser."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from datetime import date, datetime

import pytest

from airflow_provider_assistant.parsing.limits import MOST_MEMBERS, UnreadableFileError
from airflow_provider_assistant.parsing.office import checked_archive, parse_pptx, parse_xlsx
from tests.unit.parsing.samples import docx, pptx, repacked, saved, xlsx

ENTITIES = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
BOMB = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "boom">{ENTITIES}]><x>&a9;</x>'


def archive(*members: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members:
            target.writestr(name, content)
    return file.getvalue()


def declared(content: bytes, size: int) -> bytes:
    """Return an archive whose first member declares another size."""
    at = content.index(b"PK\x01\x02") + 24
    return content[:at] + struct.pack("<L", size) + content[at + 4 :]


def test_slides_are_sections_without_hidden_ones():
    from pptx import Presentation

    presentation = Presentation(io.BytesIO(pptx(("Hours", "From 9\nto 5"), ("", "No title"), ("Salaries", "hidden"))))
    presentation.slides[2]._element.set("show", "0")
    presentation.slides[0].notes_slide.notes_text_frame.text = "a note"
    frame = presentation.slides[0].shapes.add_table(2, 1, 0, 0, 9, 9).table
    frame.cell(0, 0).text, frame.cell(1, 0).text = "Day", "Monday"
    group = presentation.slides[1].shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "in a group"
    assert parse_pptx(saved(presentation))["text"] == (
        "## Hours\n\nFrom 9\nto 5\n\n| Day |\n| --- |\n| Monday |\n\n##\n\nNo title\n\nin a group"
    )


def test_sheets_are_tables_without_hidden_ones():
    from openpyxl import load_workbook

    rows = [["Day", "From", None], ["Monday", 9, None], [], [date(2026, 11, 22), 9.5], [datetime(2026, 1, 1, 8), True]]  # noqa: DTZ001 (Excel has no zones)
    workbook = load_workbook(io.BytesIO(xlsx(Hours=rows, Empty=[], Salaries=[["secret"]])))
    workbook["Salaries"].sheet_state = "hidden"
    workbook.properties.title = "Plan"
    assert parse_xlsx(saved(workbook)) == {
        "title": "Plan",
        "text": """## Hours

| Day | From |
| --- | --- |
| Monday | 9 |
| 2026-11-22 | 9.5 |
| 2026-01-01 08:00:00 | True |

## Empty""",
    }


def test_a_sheet_that_declares_a_million_rows_is_as_long_as_it_is():
    def change(name, content):
        return content.replace(b'<dimension ref="A1:A1"', b'<dimension ref="A1:XFD1048576"')

    assert parse_xlsx(repacked(xlsx(A=[["x"]]), change))["text"] == "## A\n\n| x |\n| --- |"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (lambda: declared(archive(("a", b"x")), 400_000_001), "an archive of more than 400,000,000 bytes"),
        (lambda: declared(archive(("a", bytes(50_000_000))), 10), r"is damaged or encrypted \(BadZipFile\)"),
        (lambda: archive(*[(str(n), b"") for n in range(MOST_MEMBERS + 1)]), "more than 10,000 members"),
        (lambda: archive(("word/document.xml", BOMB.encode())), "has a document type definition"),
        (lambda: archive(("word/_rels/document.xml.rels", BOMB.encode("utf-16"))), "has a document type definition"),
        (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(5000), r"is damaged or encrypted \(BadZipFile\)"),
        (lambda: archive(("a", b"x"))[:30], r"is damaged or encrypted \(BadZipFile\)"),
        (lambda: b"", r"is damaged or encrypted \(BadZipFile\)"),
    ],
    ids=["large", "false size", "members", "entities", "entities in UTF-16", "encrypted", "cut", "empty"],
)
def test_an_archive_is_refused_before_it_is_parsed(content, problem):
    with pytest.raises(UnreadableFileError, match=problem):
        checked_archive(content())


def test_a_member_is_unpacked_up_to_its_declared_size():
    """Even if the checksum is that of the declared part, the library gets no more than was checked."""
    content = archive(("a.bin", b"x" * 10 + bytes(50_000_000)))
    sizes = declared(content, 10)
    at = sizes.index(b"PK\x01\x02") + 16
    forged = sizes[:at] + struct.pack("<L", zlib.crc32(b"x" * 10)) + sizes[at + 4 :]
    with zipfile.ZipFile(checked_archive(forged)) as found:
        assert (found.infolist()[0].file_size, found.read("a.bin")) == (10, b"x" * 10)


@pytest.mark.parametrize("suffix", [".docx", ".pptx", ".xlsx"])
def test_another_archive_is_refused(suffix, parse):
    assert f"not a {suffix} file" in parse(suffix, archive(("a.txt", b"x")))["problem"]


def test_deeply_nested_tables_end(parse):
    def change(name, content):
        if name != "word/document.xml":
            return content
        deep = b"<w:tbl><w:tr><w:tc>" * 50_000 + b"</w:tc></w:tr></w:tbl>" * 50_000
        return content.replace(b"<w:body>", b"<w:body>" + deep)

    assert "problem" in parse(".docx", repacked(docx(lambda document: document.add_paragraph("x")), change))
