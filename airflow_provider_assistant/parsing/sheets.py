"""Excel files as Markdown: each sheet is a section with a table."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lxml import etree

from airflow_provider_assistant.parsing.child import MOST_CHARACTERS, UnreadableFileError, library_call
from airflow_provider_assistant.parsing.markdown import escaped, heading, link
from airflow_provider_assistant.parsing.number_formats import NumberFormats
from airflow_provider_assistant.parsing.office import Package, local_name, text_of
from airflow_provider_assistant.parsing.pages import Page
from airflow_provider_assistant.parsing.writer import table

_ON = frozenset({"1", "true"})
_BOOLEANS = {"0": "FALSE", "1": "TRUE"}
_CELL = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7})")
_TAGS = ("{*}row", "{*}col", "{*}mergeCell", "{*}hyperlink", "{*}filterColumn")


def sheets(content: bytes) -> Page:
    """
    Return an Excel file, with its cells as Excel shows them, but dates and times in ISO format.

    What is hidden is left out.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    package = Package(content)
    return package.page(_blocks(package))


def _blocks(package: Package) -> Iterator[str]:
    workbook = package.tree(package.main)
    strings = _shared_strings(package)
    formats = NumberFormats(
        [package.tree(name) for name in package.related(package.main, "styles")],
        starts_in_1904=any(properties.get("date1904") in _ON for properties in workbook.iter("{*}workbookPr")),
    )
    for reference in workbook.iterfind("{*}sheets/{*}sheet"):
        relation = package.used(package.main, reference)
        if relation is None or relation.kind != "worksheet" or relation.target not in package.parts:
            continue  # a chart, for example
        sheet = _Sheet(package, relation.target, strings, formats)
        if reference.get("state", "visible") == "visible":
            yield heading(reference.get("name", ""), 2)
            yield table(sheet.shown_rows())
            yield from package.drawn_text(relation.target)
        else:
            sheet.leave_out("on a hidden sheet")
            for text in package.drawn_text(relation.target):
                package.leave_out(text, "on a hidden sheet")


def _shared_strings(package: Package) -> list[str]:
    strings = []
    for name in package.related(package.main, "sharedStrings"):
        for string in package.tree(name).iterfind("{*}si"):
            strings.append(_string(string))
    return strings


def _string(element: Any) -> str:
    # Reading aids above the words, which repeat them.
    for aid in element.findall("{*}rPh"):
        element.remove(aid)
    return text_of(element)


@dataclass
class _Row:
    """A row. Its texts are by column, and both numbers begin at 1."""

    number: int
    is_hidden: bool
    texts: dict[int, str] = field(default_factory=dict)


class _Sheet:
    """
    A sheet, as it is shown.

    :param name: Name of the part.
    :param strings: The strings to which cells refer.
    """

    def __init__(self, package: Package, name: str, strings: list[str], formats: NumberFormats) -> None:
        self._package, self._strings, self._formats = package, strings, formats
        self._rows: list[_Row] = []
        self._hidden_columns: list[range] = []
        self._merged: list[tuple[int, int, int, int]] = []
        self._address_by_place: dict[tuple[int, int], str] = {}
        self._has_filter = False
        self._characters = 0
        self._read(name)

    def _read(self, name: str) -> None:
        content = io.BytesIO(self._package.content(name))
        elements = etree.iterparse(content, tag=_TAGS, resolve_entities=False, no_network=True, remove_comments=True)
        while True:
            with library_call():
                _, element = next(elements, (None, None))
            if element is None:
                return
            kind = local_name(element)
            if kind == "row":
                self._add_row(element)
                # The tree would need ten times the memory of the file.
                element.clear()
            elif kind == "col" and element.get("hidden") in _ON:
                self._hidden_columns.append(range(_number(element.get("min")), _number(element.get("max")) + 1))
            elif kind == "mergeCell":
                corners = _places(element.get("ref"))
                if len(corners) == 2:  # noqa: PLR2004 (the first and the last cell)
                    self._merged.append((*corners[0], *corners[1]))
            elif kind == "hyperlink":
                relation = self._package.used(name, element)
                for place in _places(element.get("ref"))[:1]:
                    self._address_by_place[place] = relation.target if relation else ""
            elif kind == "filterColumn":
                self._has_filter = True

    def _add_row(self, element: Any) -> None:
        # Numbers of rows and cells may be left out.
        previous = self._rows[-1].number if self._rows else 0
        row = _Row(_number(element.get("r"), previous + 1), element.get("hidden") in _ON)
        column = 0
        for cell in element.iterfind("{*}c"):
            places = _places(cell.get("r"))
            column = places[0][1] if places else column + 1
            text = self._text(cell)
            if text.strip():
                row.texts[column] = text
                self._characters += len(text)
        # Many cells may refer to one long string.
        if self._characters > MOST_CHARACTERS:
            raise UnreadableFileError(f"has a sheet of more than {MOST_CHARACTERS:,} characters")
        self._rows.append(row)

    def _text(self, cell: Any) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return "".join(_string(string) for string in cell.iterfind("{*}is"))
        value = cell.findtext("{*}v") or ""
        if kind == "s":
            number = _number(value, -1)
            return self._strings[number] if 0 <= number < len(self._strings) else ""
        if kind == "b":
            return _BOOLEANS.get(value, value)
        if kind == "n":
            shown = self._formats.shown(value, _number(cell.get("s")))
            if value and not shown:
                self._package.leave_out(value, "in a cell whose format hides numbers")
            return shown
        return value

    def leave_out(self, reason: str) -> None:
        """Count the words of the sheet."""
        for row in self._rows:
            self._leave_out(row, reason)

    def _leave_out(self, row: _Row, reason: str, *, is_expected: bool = True) -> None:
        self._package.leave_out("\n".join(row.texts.values()), reason, is_expected=is_expected)

    def shown_rows(self) -> list[list[str]]:
        """Return the rows without what is hidden, without blank columns, and with the addresses of links."""
        covered = self._covered_columns()
        shown = []
        for row in self._rows:
            if not row.is_hidden:
                shown.append(self._shown_texts(row, covered.get(row.number, [])))
            elif self._has_filter:
                # Somebody may have forgotten to clear the filter.
                self._leave_out(row, "in a row that a filter hides", is_expected=False)
            else:
                self._leave_out(row, "in a hidden row")
        columns = sorted(set().union(*shown))
        return [[texts.get(column, "") for column in columns] for texts in shown]

    def _covered_columns(self) -> dict[int, list[range]]:
        """Return which columns are behind a merged cell, by row."""
        numbers = {row.number for row in self._rows}
        covered: dict[int, list[range]] = {}
        for first_row, first_column, last_row, last_column in self._merged:
            for number in range(first_row, last_row + 1):
                if number in numbers:
                    # The cell has the text of its first one.
                    start = first_column + (number == first_row)
                    covered.setdefault(number, []).append(range(start, last_column + 1))
        return covered

    def _shown_texts(self, row: _Row, covered: list[range]) -> dict[int, str]:
        shown = {}
        for column, text in row.texts.items():
            if any(column in columns for columns in self._hidden_columns):
                self._package.leave_out(text, "in a hidden column")
            elif any(column in columns for columns in covered):
                self._package.leave_out(text, "behind a merged cell")
            else:
                shown[column] = escaped(text)
                address = self._address_by_place.get((row.number, column))
                if address:
                    shown[column] = link(shown[column], address)
        return shown


def _places(reference: str | None) -> list[tuple[int, int]]:
    """Return row and column of each cell in a reference such as ``A1:B2``."""
    return [(int(row), _column(letters)) for letters, row in _CELL.findall(reference or "")]


@lru_cache(maxsize=20_000)
def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _number(text: str | None, default: int = 0) -> int:
    """Return a number of the file, or the default if it is damaged."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else default  # noqa: PLR2004
