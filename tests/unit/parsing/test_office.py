"""PowerPoint and Excel as Markdown, and archives that are made to break a parser."""

from __future__ import annotations

import io
import random
import re
import struct
import zipfile
import zlib
from collections import Counter
from datetime import date, datetime

import pytest
from lxml import etree

from airflow_provider_assistant.parsing.limits import MOST_MEMBERS, UnreadableFileError
from airflow_provider_assistant.parsing.office import checked_archive, parse_pptx, parse_xlsx
from tests.unit.parsing.samples import docx, pptx, repacked, saved, xlsx

SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWINGS = "http://schemas.openxmlformats.org/drawingml/2006/main"
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
        "left_out": [("sheet", "is hidden", True, 1)],
        "title": "Plan",
        "text": """## Hours

| Day | From |
| --- | --- |
| Monday | 9 |
| 2026-11-22 | 9.5 |
| 2026-01-01 08:00:00 | True |

## Empty""",
    }


@pytest.mark.parametrize("seed", range(2))
def test_hidden_rows_and_columns_are_counted_and_merged_cells_read_once(seed):
    """Each cell has a word of its own."""
    from openpyxl import Workbook
    from openpyxl.utils import get_column_letter

    dice = random.Random(seed)
    workbook = Workbook()
    shown, left_out = set(), Counter()
    for sheet in (workbook.active, workbook.create_sheet("Second")):
        height, width = dice.randint(5, 9), dice.randint(4, 7)
        hidden_rows = set(dice.sample(range(1, height + 1), 2))
        hidden_columns = set(dice.sample(range(1, width + 1), dice.randint(1, 2)))
        row, column = dice.randint(1, height - 1), dice.randint(1, width - 1)
        covered = {(row, column + 1), (row + 1, column), (row + 1, column + 1)}
        for number in range(1, height + 1):
            for place in range(1, width + 1):
                sheet.cell(number, place).value = word = f"{sheet.title}_{number}_{place}"
                if number not in hidden_rows and place not in hidden_columns and (number, place) not in covered:
                    shown.add(word)
        for number in hidden_rows:
            sheet.row_dimensions[number].hidden = True
        for place in hidden_columns:
            sheet.column_dimensions[get_column_letter(place)].hidden = True
        has_filter = dice.random() < 0.5
        if has_filter:
            sheet.auto_filter.ref = f"A1:C{height}"
            sheet.auto_filter.add_filter_column(0, ["a"])
        row_reason = ("is hidden by a filter", False) if has_filter else ("is hidden", True)
        left_out["row of a sheet", *row_reason] += 2
        left_out["column of a sheet", "is hidden", True] += len(hidden_columns)
        # Other programs keep what a merged cell covers.
        sheet.merged_cells.add(f"{get_column_letter(column)}{row}:{get_column_letter(column + 1)}{row + 1}")
    parsed = parse_xlsx(saved(workbook))
    assert sorted(re.findall(r"\w+_\d+_\d+", parsed["text"])) == sorted(shown)
    assert Counter({tuple(what): count for *what, count in parsed["left_out"]}) == left_out


def test_a_diagram_and_a_merged_cell_on_a_slide_are_read_and_the_footer_is_not():
    from pptx import Presentation
    from pptx.opc.package import Part
    from pptx.opc.packuri import PackURI

    presentation = Presentation(io.BytesIO(pptx(("Steps", "First this"))))
    slide = presentation.slides[0]
    table = slide.shapes.add_table(1, 2, 0, 0, 9, 9).table
    table.cell(0, 0).text, table.cell(0, 1).text = "wide", "behind"
    cell = table.cell(0, 1)._tc
    table.cell(0, 0)._tc.set("gridSpan", "2")
    cell.set("hMerge", "1")
    footer = slide.shapes.add_textbox(0, 0, 9, 9)
    footer.text_frame.text = "Page 1"
    footer.element.xpath(".//p:nvPr")[0].append(etree.fromstring(f'<p:ph xmlns:p="{SLIDES}" type="sldNum"/>'))
    xml = f'<d:pts xmlns:d="urn:d" xmlns:a="{DRAWINGS}"><a:p><a:r><a:t>Then</a:t></a:r><a:t> that</a:t></a:p></d:pts>'
    part = Part(PackURI("/ppt/diagrams/data1.xml"), "application/xml", slide.part.package, xml.encode())
    slide.part.relate_to(part, "http://schemas.openxmlformats.org/officeDocument/2006/relationships/diagramData")
    text = parse_pptx(saved(presentation))["text"]
    assert text == "## Steps\n\nFirst this\n\n| wide |\n| --- |\n\nThen that"


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
