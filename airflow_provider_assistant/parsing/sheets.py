"""What is hidden or merged in a sheet of Excel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import NamedTuple

_ON = frozenset({"1", "true"})
# A damaged file may have more.
_MOST_RANGES = 100_000


class _Range(NamedTuple):
    """Merged cells. Rows and columns begin at 1."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int


class SheetLayout:
    """
    Tells which rows, columns and cells of a sheet are shown.

    :param xml: The sheet.
    :ivar left_out: Number of rows and columns with text that are hidden, by unit, reason and whether that is expected.
        Complete after the last row.
    """

    def __init__(self, xml: bytes) -> None:
        self.left_out: Counter[tuple[str, str, bool]] = Counter()
        self._hidden_rows: set[int] = set()
        self._hidden_columns: list[range] = []
        self._merged: list[_Range] = []
        self._has_filter = False
        # Most sheets have neither.
        if b"hidden" in xml or b"mergeCell" in xml:
            self._read(xml)
        # The last one is the first to begin.
        self._merged.sort(reverse=True)

    def _read(self, xml: bytes) -> None:
        from lxml import etree
        from openpyxl.utils.cell import range_boundaries

        row = 0
        tags = ("{*}row", "{*}col", "{*}mergeCell", "{*}filterColumn")
        for _, element in etree.iterparse(BytesIO(xml), tag=tags):
            attributes = element.attrib
            kind = etree.QName(element).localname
            if kind == "row":
                row = int(float(attributes.get("r", row + 1)))
                if attributes.get("hidden") in _ON:
                    self._hidden_rows.add(row)
            elif kind == "col" and attributes.get("hidden") in _ON:
                self._hidden_columns.append(range(int(attributes["min"]), int(attributes["max"]) + 1))
            elif kind == "mergeCell" and len(self._merged) < _MOST_RANGES:
                first_column, first_row, last_column, last_row = range_boundaries(attributes["ref"])
                self._merged.append(_Range(first_row, last_row, first_column, last_column))
            elif kind == "filterColumn":
                self._has_filter = True
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]

    def shown(self, rows: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield the rows that are not hidden, without hidden columns and what is behind a merged cell."""
        columns_with_text: set[int] = set()
        open_ranges: list[_Range] = []
        for number, row in enumerate(rows, 1):
            while self._merged and self._merged[-1].first_row <= number:
                open_ranges.append(self._merged.pop())
            open_ranges = [merged for merged in open_ranges if merged.last_row >= number]
            if number in self._hidden_rows:
                if any(row):
                    self.left_out[self._hidden_row] += 1
                continue
            for merged in open_ranges:
                _clear(row, merged, is_first=number == merged.first_row)
            shown = []
            for column, text in enumerate(row, 1):
                if not any(column in hidden for hidden in self._hidden_columns):
                    shown.append(text)
                elif text:
                    columns_with_text.add(column)
            yield shown
        if columns_with_text:
            self.left_out["column of a sheet", "is hidden", True] += len(columns_with_text)

    @property
    def _hidden_row(self) -> tuple[str, str, bool]:
        # Somebody may have forgotten to clear the filter.
        if self._has_filter:
            return ("row of a sheet", "is hidden by a filter", False)
        return ("row of a sheet", "is hidden", True)


def _clear(row: list[str], merged: _Range, *, is_first: bool) -> None:
    """Remove what is behind a merged cell, which has the text of its first cell."""
    first = merged.first_column + is_first
    for column in range(first, min(merged.last_column, len(row)) + 1):
        row[column - 1] = ""
