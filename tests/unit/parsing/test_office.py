"""Office files: each word of a file is in its text or in a note, and an archive cannot break the parser."""

from __future__ import annotations

import contextlib
import io
import random
import re
import struct
import zipfile
import zlib
from collections import Counter
from xml.etree import ElementTree

import pytest

from airflow_provider_assistant.parsing import sheets, slides, word
from airflow_provider_assistant.parsing.child import MOST_MEMBERS, UnreadableFileError
from airflow_provider_assistant.parsing.office import Package
from tests.unit.parsing.samples import docx, pptx, repacked, saved, xlsx
from tests.unit.parsing.test_word import ELEMENTS, with_xml

ENTITIES = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
BOMB = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "boom">{ENTITIES}]><x>&a9;</x>'
PARSERS = {"docx": word, "pptx": slides, "xlsx": sheets}
# The words of the generated files, each of which is there once.
TOKEN = re.compile(r"w\d+x")


class Tokens:
    """Makes words, and knows which of them a reader sees."""

    def __init__(self, seed):
        self.dice, self.shown, self.number = random.Random(seed), set(), 0

    def new(self, *, is_shown=True):
        self.number += 1
        token = f"w{self.number}x"
        if is_shown:
            self.shown.add(token)
        return token


def word_file(tokens):
    def element(xml):
        shown, hidden = tokens.new(), tokens.new(is_shown=False)
        return xml.replace(">text<", f">{shown}<").replace(">gone<", f">{hidden}<")

    # Alternatives say the same words twice, and their test is in test_word.
    elements = [xml for xml in ELEMENTS if "Alternate" not in xml and ">text<" in xml]
    content = with_xml("".join(map(element, tokens.dice.choices(elements, k=20))))

    def write(document):
        document.sections[0].header.paragraphs[0].text = tokens.new(is_shown=False)
        document.sections[0].footer.paragraphs[0].text = tokens.new(is_shown=False)
        table = document.add_table(2, 2)
        table.cell(0, 0).merge(table.cell(1, 0)).text = tokens.new()
        table.cell(1, 1).text = tokens.new()

    return docx(write, io.BytesIO(content))


def slides_file(tokens):
    from pptx import Presentation
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    presentation = Presentation()
    for _ in range(8):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        is_shown = tokens.dice.random() < 0.7
        slide._element.set("show", str(int(is_shown)))
        slide.shapes.title.text = tokens.new(is_shown=is_shown)
        slide.placeholders[1].text = tokens.new(is_shown=is_shown)
        group = slide.shapes.add_group_shape()
        group.shapes.add_textbox(0, 0, 9, 9).text_frame.text = tokens.new(is_shown=is_shown)
        cells = slide.shapes.add_table(1, 2, 0, 0, 9, 9).table.rows[0].cells
        cells[0].text, cells[1].text = tokens.new(is_shown=is_shown), tokens.new(is_shown=False)
        cells[0]._tc.set("gridSpan", "2")
        cells[1]._tc.set("hMerge", "1")
        slide.notes_slide.notes_text_frame.text = tokens.new(is_shown=False)
        hidden = slide.shapes.add_textbox(0, 0, 9, 9)
        hidden.text_frame.text = tokens.new(is_shown=False)
        hidden.element.nvSpPr.cNvPr.set("hidden", "1")
    chart = CategoryChartData()
    chart.categories = [tokens.new(is_shown=False)]
    chart.add_series(tokens.new(is_shown=False), (7,))
    slide.shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, 9, 9, chart)
    return saved(presentation)


def sheets_file(tokens):
    from openpyxl import Workbook
    from openpyxl.comments import Comment
    from openpyxl.utils import get_column_letter

    workbook = Workbook()
    for sheet in (workbook.active, workbook.create_sheet(), workbook.create_sheet()):
        height, width = tokens.dice.randint(4, 9), tokens.dice.randint(4, 7)
        sheet.sheet_state = tokens.dice.choice(["visible", "visible", "hidden"])
        rows = set(tokens.dice.sample(range(1, height + 1), 2))
        columns = set(tokens.dice.sample(range(1, width + 1), 2))
        covered = {(1, 2), (2, 1), (2, 2)}
        for row in range(1, height + 1):
            sheet.row_dimensions[row].hidden = row in rows
            for column in range(1, width + 1):
                is_hidden = row in rows or column in columns or (row, column) in covered
                is_shown = sheet.sheet_state == "visible" and not is_hidden
                sheet.cell(row, column).value = tokens.new(is_shown=is_shown)
        for column in columns:
            sheet.column_dimensions[get_column_letter(column)].hidden = True
        # Unlike openpyxl, other programs keep the text of the cells that a merged cell covers.
        sheet.merged_cells.add("A1:B2")
        sheet.cell(3, 3).comment = Comment(tokens.new(is_shown=False), "x")
    workbook.active = workbook.worksheets.index(next(s for s in workbook if s.sheet_state == "visible"))
    return saved(workbook)


def words_of(content):
    """Return the number of words of an Office file, by the XML of its parts."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = [ElementTree.fromstring(archive.read(name)) for name in archive.namelist() if name.endswith("xml")]
    # The value of a cell is the number of a string, each of which is in one cell.
    texts = [element.text or "" for part in parts for element in part.iterfind(".//{*}t")]
    texts += [element.text or "" for part in parts for element in part.iterfind(".//{*}pt/{*}v")]
    return sum(len(re.findall(r"[^\W_]+", text)) for text in texts)


@pytest.mark.promise(
    "sources of documents", "Each word of an Office file is in its document or is counted with a reason."
)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("write", "parser"), [(word_file, word), (slides_file, slides), (sheets_file, sheets)])
def test_each_word_is_in_the_text_or_counted(write, parser, seed):
    tokens = Tokens(seed)
    content = write(tokens)
    page = parser.page(content)
    assert Counter(TOKEN.findall(page.text)) == Counter(tokens.shown)
    assert words_of(content) == len(tokens.shown) + sum(note.count for note in page.notes)
    assert all(note.is_expected for note in page.notes if note.reason != "in a chart")


@pytest.mark.parametrize("suffix", PARSERS)
def test_the_strict_form_of_the_formats_is_read_as_well(suffix):
    """Its namespaces and the types of its relations have other names."""
    sample = {
        "docx": docx(lambda file: file.add_heading("From 9.")),
        "pptx": pptx(("Hours", "From 9.")),
        "xlsx": xlsx(A=[["x"]]),
    }
    usual = rb"http://schemas\.openxmlformats\.org/(officeDocument|wordprocessingml|presentationml|spreadsheetml|drawingml)/2006/"

    def strict(_, content):
        return re.sub(usual, rb"http://purl.oclc.org/ooxml/\1/", content)

    assert PARSERS[suffix].page(repacked(sample[suffix], strict)) == PARSERS[suffix].page(sample[suffix])


def archive(*members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members:
            target.writestr(name, content)
    return file.getvalue()


def declared(content, size):
    """Return an archive whose first member declares another size."""
    at = content.index(b"PK\x01\x02") + 24
    return content[:at] + struct.pack("<L", size) + content[at + 4 :]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (lambda: declared(archive(("a", b"x")), 400_000_001), "an archive of more than 400,000,000 bytes"),
        (lambda: declared(archive(("a.xml", bytes(50_000_000))), 10), r"is damaged \(BadZipFile\)"),
        (lambda: archive(*[(str(n), b"") for n in range(MOST_MEMBERS + 1)]), "more than 10,000 members"),
        (lambda: archive(("word/document.xml", BOMB.encode())), "has a document type definition"),
        (lambda: archive(("word/_rels/document.xml.rels", BOMB.encode("utf-16"))), "has a document type definition"),
        (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(5000), "is encrypted, or of a version before 2007"),
        (lambda: archive(("a", b"x"))[:30], r"is damaged \(BadZipFile\)"),
        (lambda: b"", r"is damaged \(BadZipFile\)"),
        (lambda: archive(("a.xml", b"x")), r"is damaged \(it has no document\)"),
    ],
    ids=["large", "false size", "members", "entities", "entities in UTF-16", "encrypted", "cut", "empty", "other"],
)
def test_an_archive_is_refused_before_it_is_parsed(content, problem):
    with pytest.raises(UnreadableFileError, match=problem):
        Package(content())


def test_a_member_is_unpacked_up_to_its_declared_size():
    """Even if the checksum is that of the declared part, no more is unpacked than was checked."""
    original = xlsx(A=[["x"]])
    rels = zipfile.ZipFile(io.BytesIO(original)).read("_rels/.rels")
    content = declared(archive(("_rels/.rels", rels + bytes(50_000_000))), len(rels))
    at = content.index(b"PK\x01\x02") + 16
    forged = content[:at] + struct.pack("<L", zlib.crc32(rels)) + content[at + 4 :]
    with pytest.raises(UnreadableFileError, match="has no document"):
        Package(forged)


@pytest.mark.promise(
    "security", "A hostile Office file ends in an error or a text, within its limits of time and memory."
)
@pytest.mark.parametrize(
    ("suffix", "part", "change"),
    [
        (".docx", "word/document.xml", (b"<w:body>", b"<w:body>" + b"<w:tbl><w:tr><w:tc>" * 50_000)),
        (".docx", "word/document.xml", (b"<w:t>x", b"<w:t>" + b"x" * 100_000_000)),
        (".docx", "word/document.xml", (b"<w:body>", b"<w:body>" + b"<w:p/>" * 100_000)),
        (".pptx", "ppt/slides/slide1.xml", (b"<p:spTree>", b"<p:spTree>" + b"<p:grpSp>" * 100_000)),
        (".xlsx", "xl/worksheets/sheet1.xml", (b"</sheetData>", b'<row><c r="XFD1048576"/></row>' * 2_000_000)),
        (".xlsx", "xl/worksheets/sheet1.xml", (b"</sheetData>", b'</sheetData><mergeCell ref="A1:XFD1048576"/>' * 999)),
        (".xlsx", "xl/sharedStrings.xml", (b"x</t>", b"x" * 100_000_000 + b"</t>")),
    ],
    ids=["nested tables", "a line", "paragraphs", "nested groups", "rows", "merged cells", "string"],
)
def test_hostile_files_end(suffix, part, change, parse):
    samples = {".docx": docx(lambda file: file.add_paragraph("x")), ".pptx": pptx(("x", "x")), ".xlsx": xlsx(A=[["x"]])}
    content = repacked(samples[suffix], lambda name, old: old.replace(*change) if name == part else old)
    with contextlib.suppress(UnreadableFileError):
        assert len(parse(suffix, content).text) < 1000
