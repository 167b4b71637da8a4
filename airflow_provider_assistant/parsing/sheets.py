"""Excel files as Markdown: each sheet is a section with a table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from airflow_provider_assistant.parsing.child import MOST_CHARACTERS, UnreadableFileError
from airflow_provider_assistant.parsing.markdown import escaped, heading, table, target
from airflow_provider_assistant.parsing.number_formats import codes_of, shown
from airflow_provider_assistant.parsing.office import ON, Package, relation_of, text_of
from airflow_provider_assistant.parsing.pages import Page

_CELL = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7})")
_BOOLEANS = {"0": "FALSE", "1": "TRUE"}


def page(content: bytes) -> Page:
    """
    Return an Excel file, with its cells as Excel shows them, but dates in ISO format. What is hidden is left out.

    :raises UnreadableFileError: The file is damaged, encrypted or too large.
    """
    package = Package(content)
    return package.page(_blocks(package))


def _blocks(package: Package) -> Iterator[str]:
    workbook = package.tree(package.main)
    values = _Values(package, workbook)
    relations = package.relations(package.main)
    for reference in workbook.iterfind("{*}sheets/{*}sheet"):
        relation = relation_of(reference, relations)
        # A sheet may also be a chart.
        if relation and relation.kind == "worksheet" and relation.target in package.parts:
            sheet = _Sheet(package, relation.target)
            if reference.get("state", "visible") == "visible":
                yield heading(reference.get("name", ""), 2)
                yield table(sheet.rows(values))
                yield from package.drawn_text(relation.target)
            else:
                sheet.address_by_place.clear()
                blocks = [table(sheet.rows(values)), *package.drawn_text(relation.target)]
                package.leave_out("\n".join(blocks), "on a hidden sheet")


class _Values:
    """Knows what cells show: strings are in another part than their cells, and so are the formats of numbers."""

    def __init__(self, package: Package, workbook: Any) -> None:
        self._strings: list[str] = []
        for name in package.related(package.main, "sharedStrings"):
            self._strings += map(_string, package.tree(name).iterfind("{*}si"))
        self._codes: list[str] = []
        for name in package.related(package.main, "styles"):
            self._codes += codes_of(package.tree(name))
        properties = workbook.find("{*}workbookPr")
        self._starts_in_1904 = properties is not None and properties.get("date1904") in ON

    def text(self, cell: Any) -> str:
        kind = cell.get("t", "n")
        value = cell.findtext("{*}v") or ""
        if kind == "s":
            number = _number(value, len(self._strings))
            return self._strings[number] if number < len(self._strings) else ""
        if kind == "inlineStr":
            return "".join(map(_string, cell.iterfind("{*}is")))
        if kind == "b":
            return _BOOLEANS.get(value, value)
        if kind != "n":
            return value
        style = _number(cell.get("s"), 0)
        code = self._codes[style] if style < len(self._codes) else "General"
        return shown(value, code, starts_in_1904=self._starts_in_1904)


class _Sheet:
    """
    A sheet.

    :ivar address_by_place: Addresses of links, by row and column, which begin at 1.
    """

    def __init__(self, package: Package, name: str) -> None:
        self._package, self._root = package, package.tree(name)
        columns = [column for column in self._root.iter("{*}col") if column.get("hidden") in ON]
        self._hidden_columns = [
            range(_number(column.get("min"), 0), _number(column.get("max"), 0) + 1) for column in columns
        ]
        self._has_filter = next(self._root.iter("{*}filterColumn"), None) is not None
        relations = package.relations(name)
        self.address_by_place: dict[tuple[int, int], str] = {}
        for element in self._root.iter("{*}hyperlink"):
            relation = relation_of(element, relations)
            for place in _places(element.get("ref"))[:1]:
                self.address_by_place[place] = relation.target if relation else ""

    def rows(self, values: _Values) -> list[list[str]]:
        """Return the rows that are shown, without blank columns."""
        covered = self._covered_columns()
        rows: list[dict[int, str]] = []
        characters = number = 0
        for row in self._root.iterfind("{*}sheetData/{*}row"):
            # Numbers may be left out.
            number = _number(row.get("r"), number + 1)
            column = 0
            texts = {}
            for cell in row.iterfind("{*}c"):
                places = _places(cell.get("r"))
                column = places[0][1] if places else column + 1
                text = values.text(cell)
                characters += len(text)
                if not text:
                    self._package.leave_out(cell.findtext("{*}v") or "", "in a cell whose format shows nothing")
                elif any(column in columns for columns in covered[number]):
                    self._package.leave_out(text, "behind a merged cell")
                elif self._is_shown(row, column, text):
                    address = self.address_by_place.get((number, column))
                    texts[column] = f"[{escaped(text)}]({target(address)})" if address else escaped(text)
            # Many cells may show one long string.
            if characters > MOST_CHARACTERS:
                raise UnreadableFileError(f"has more than {MOST_CHARACTERS:,} characters of text")
            rows.append(texts)
        columns = sorted(set().union(*rows))
        return [[texts.get(column, "") for column in columns] for texts in rows]

    def _is_shown(self, row: Any, column: int, text: str) -> bool:
        """Return whether a cell is shown, and count the words of one that is hidden."""
        if row.get("hidden") in ON and self._has_filter:
            # Somebody may have forgotten to clear the filter.
            self._package.leave_out(text, "in a row that a filter hides", is_expected=False)
        elif row.get("hidden") in ON:
            self._package.leave_out(text, "in a hidden row")
        elif any(column in columns for columns in self._hidden_columns):
            self._package.leave_out(text, "in a hidden column")
        else:
            return bool(text.strip())
        return False

    def _covered_columns(self) -> dict[int, list[range]]:
        """Return the columns behind merged cells, by row. The first cell has the text that is shown."""
        covered = defaultdict(list)
        for element in self._root.iter("{*}mergeCell"):
            places = _places(element.get("ref"))
            for (first_row, first), (last_row, last) in pairwise(places):
                for number in range(first_row, last_row + 1):
                    covered[number].append(range(first + (number == first_row), last + 1))
        return covered


def _string(element: Any) -> str:
    # Reading aids above the words repeat them.
    for aid in element.findall("{*}rPh"):
        element.remove(aid)
    return text_of(element).strip("\n")


def _places(reference: str | None) -> list[tuple[int, int]]:
    """Return row and column of each cell in a reference such as ``A1:B2``."""
    places = []
    for letters, row in _CELL.findall(reference or ""):
        column = 0
        for letter in letters:
            column = 26 * column + ord(letter) - ord("A") + 1
        places.append((int(row), column))
    return places


def _number(text: str | None, default: int) -> int:
    return int(text) if text and re.fullmatch("[0-9]{1,9}", text) else default
