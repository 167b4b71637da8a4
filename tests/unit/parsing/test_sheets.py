"""Excel as Markdown: cells as they are shown."""

from __future__ import annotations

import io
from datetime import date, datetime, time, timedelta

import pytest
from lxml import etree

from airflow_provider_assistant.parsing.number_formats import codes_of, formatted, shown
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.parsing.sheets import page
from tests.unit.parsing.samples import repacked, saved, xlsx


def test_sheets_are_tables_without_hidden_ones():
    from openpyxl import load_workbook

    rows = [["Day", None, "<From>"], ["Monday", None, 9], [], [True, None, "a|b\n# c"]]
    workbook = load_workbook(io.BytesIO(xlsx(Hours=rows, Empty=[], Salaries=[["secret"]])))
    workbook["Salaries"].sheet_state = "hidden"
    workbook["Salaries"]["A1"].hyperlink = workbook["Hours"]["A2"].hyperlink = "https://x.org/a b"
    workbook.properties.title = "Plan"
    found = page(saved(workbook))
    assert found.fields == {"title": "Plan"}
    assert (
        found.text
        == """## Hours

| Day | \\<From> |
| --- | --- |
| [Monday](https://x.org/a%20b) | 9 |
| TRUE | a\\|b \\# c |

## Empty"""
    )
    assert found.notes == [Note("word", "on a hidden sheet", is_expected=True, count=1)]


@pytest.mark.promise(
    "sources of documents", "Cells of an Excel file are read as Excel shows them, or as plain numbers."
)
@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (1067, "00000", "01067"), (0.15, "0%", "15%"), (0.155, r"0.0\ %", "15.5 %"), (0.1 + 0.2, "General", "0.3"),
        (1234567.891, "#,##0.00", "1,234,567.89"), (1234567, "#,##0,", "1234567"), (0.125, "0.00", "0.13"),
        (12.5, '"AMT "0.00', "AMT 12.50"), (-12.5, "0.00;(0.00)", "-12.50"), (-0.001, "0.0", "0.0"),
        (-3, '[Red]-0" kg"', "--3 kg"), (3, "[$€-407]\\ #,##0.00", "€ 3.00"), (3, '_(* #,##0_);_(* "-"_)', "3"),
        (0, '0;-0;"none"', "0"), (1, ";;;", ""), (5, "0.##", "5"), (7, '"yes"', "7"), (0.5, "#.#", "0.5"),
        (0.5, "# ?/?", "0.5"), (12345, "0.0E+00", "12345"), (5, "[<10]0.0", "5.0"),
        (123456789, "000-00-0000", "123456789"),
        (123456789012345678, "General", "123456789012346000"), (1e-12, "General", "1e-12"),
        (15, '0"%"', "15%"), (15, r"0\%", "15%"), (0.5, '0" %"%', "50 %%"), (3, "[$£-en-GB]0.00", "£3.00"),
        (3, "0 [$€-x-euro2]", "3 €"),
        (2, 'General" pcs"', "2"), (5, "0." + "0" * 30, "5." + "0" * 30), (1, "0" + "%" * 900, "1"),
    ],
)  # fmt: skip
def test_numbers_are_read_as_they_are_shown(value, code, shown):
    """Some formats are not understood, and their numbers are plain."""
    assert formatted(value, code) == shown


def test_dates_are_read_in_iso_format():
    from openpyxl import Workbook

    workbook = Workbook()
    cells = {
        date(2026, 11, 22): "dd.mm.yyyy", datetime(2026, 11, 1): "[$-de-DE]mmm yy",  # noqa: DTZ001
        datetime(2026, 11, 22, 8, 30): "d/m/yy h:mm",  # noqa: DTZ001
        time(9, 5): "h:mm AM/PM", timedelta(hours=26): "[h]:mm", -1: "dd.mm.yyyy",
    }  # fmt: skip
    for value, code in cells.items():
        workbook.active.append([value])
        workbook.active.cell(workbook.active.max_row, 1).number_format = code
    lines = page(saved(workbook)).text.split("\n")[2:]
    assert [line.strip("| ") for line in lines if "---" not in line] == [
        "2026-11-22", "2026-11", "2026-11-22 08:30:00", "09:05:00", "1 day, 2:00:00", "1899-12-29",
    ]  # fmt: skip


def test_formats_of_east_asia_are_dates():
    styles = "".join(f'<xf numFmtId="{number}"/>' for number in (27, 36, 50, 58))
    for code in codes_of(etree.fromstring(f"<styleSheet><cellXfs>{styles}</cellXfs></styleSheet>")):
        assert shown("45352", code, starts_in_1904=False) == "2024-03-01"


def test_a_superscript_has_a_mark():
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont

    cells = [CellRichText(text, TextBlock(InlineFont(vertAlign=f"{kind}script"), "6"))
             for text, kind in (("10", "super"), ("C", "sub"))]  # fmt: skip
    assert page(xlsx(A=[cells])).text == "## A\n\n| 10^6^ | C~6~ |\n| --- | --- |"


def test_what_a_filter_hides_is_not_expected_and_a_number_that_its_format_hides_is():
    from openpyxl import Workbook

    workbook = Workbook()
    sheet = workbook.active
    for row in (["Day"], ["Monday"], [7]):
        sheet.append(row)
    sheet["A3"].number_format = ";;;"
    sheet.row_dimensions[2].hidden = True
    sheet.auto_filter.ref = "A1:A3"
    sheet.auto_filter.add_filter_column(0, ["7"])
    found = page(saved(workbook))
    assert found.text == "## Sheet\n\n| Day |\n| --- |"
    assert found.notes == [
        Note("word", "in a row that a filter hides", is_expected=False, count=1),
        Note("word", "in a cell whose format shows nothing", is_expected=True, count=1),
    ]


def test_text_boxes_are_read():
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/"
    box = (
        f'<d:wsDr xmlns:d="{drawing}spreadsheetDrawing" xmlns:a="{drawing}main"><a:p><a:t>in a box</a:t></a:p></d:wsDr>'
    )
    relation = '<Relationship Id="x" Type="http://x.org/drawing" Target="../theme/theme1.xml"/>'

    def change(name, content):
        if name == "xl/theme/theme1.xml":
            return box.encode()
        return (
            f"<Relationships xmlns='urn:r'>{relation}</Relationships>".encode()
            if name == "docProps/app.xml"
            else content
        )

    content = repacked(xlsx(A=[["x"]]), change, {"docProps/app.xml": "xl/worksheets/_rels/sheet1.xml.rels"})
    assert page(content).text == "## A\n\n| x |\n| --- |\n\nin a box"


def test_rows_and_cells_without_numbers_and_styles_that_are_not_valid():
    def change(name, content):
        content = content.replace(b' r="A1"', b"").replace(b' r="B2"', b"").replace(b' r="2"', b"")
        return content.replace(b"<fonts", b'<colors rgb="no color"/><fonts') if name == "xl/styles.xml" else content

    assert (
        page(repacked(xlsx(A=[["a", "b"], ["c", "d"]]), change)).text == "## A\n\n| a | b |\n| --- | --- |\n| c | d |"
    )
