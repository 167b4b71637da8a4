"""
Chunks of documents, with keys that an edit elsewhere does not change.

A key contains no position: it consists of the parent, the headings above the chunk, and the hash of its text. Neither
the title of the page nor its first heading of level 1 is in it, so with another title, each chunk keeps its key and has
new content: the load knows which document it replaces. Each section is split on its own, so an edit moves no boundary
in another section.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.blocks import (
    BY_LINES,
    CODE,
    CONTAINERS,
    LISTS,
    TABLE,
    Block,
    Section,
    cells_of,
    fenced,
    has_visible_words,
    indentation_of,
    indented,
    sections_of,
    table_lines,
)
from airflow_provider_assistant.knowledge.cutting import cut, most, with_words_after
from airflow_provider_assistant.knowledge.documents import DocumentRow, DocumentRows
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount
from airflow_provider_assistant.texts import has_words

SEPARATOR = " > "


def split_documents(
    rows: Iterable[DocumentRow],
    size: int = 2000,
    *,
    length: Callable[[str], int] | None = None,
) -> DocumentRows:
    """
    Split documents at their Markdown headings, and long sections between paragraphs, lists, tables and blocks of code.

    A section that fits is one chunk. What is longer than a chunk is split, too: a table after rows, with its header in
    each chunk; code after lines, with fences in each chunk; a list after items; text at sentences, lines or words.

    The title of a chunk is the title of the document and the headings above the chunk, as plain text. A heading
    without text below is a chunk that contains the heading. Equal texts below the same headings of one document are one
    chunk, and what has no words, such as a rule or a picture without a description, is no chunk; the account counts
    both. A row without key stays as it is, so that a load rejects it.

    :param rows: The documents.
    :param size: Maximum length of a chunk's text, in characters or what ``length`` counts. Default: 2,000.
    :param length: Function that returns the length of a text, for example in tokens. Default: characters.
    :return: The chunks.
    :raises AssistantInputError: ``size`` is less than 1.
    """
    if size < 1:
        raise AssistantInputError(f"size must be at least 1, not {size}", field="size")
    packer = _Packer(size, length or len)

    def chunks(account: SourceAccount) -> Iterator[DocumentRow]:
        for row in rows:
            if not (row["key"] or "").strip():
                account.read("chunk")
                yield DocumentRow(**{**row, "key": None})
            else:
                yield from _chunks(row, packer, account)

    return AccountedRows(chunks, source=rows)


def _chunks(row: DocumentRow, packer: _Packer, account: SourceAccount) -> Iterator[DocumentRow]:
    name = row["key"] or ""
    yielded_keys: set[str] = set()
    if not row["content"].strip():
        account.leave_out("page", "has no text", name, is_expected=False)
    page_heading: str | None = None
    for section in sections_of(row["content"]):
        if page_heading is None and section.has_page_heading:
            page_heading = "".join(section.headings[:1])
        # The title of the page stands above its text, too.
        titles = _without_first(section.headings, row["title"])
        title = SEPARATOR.join(filter(None, (row["title"], *titles))) or None
        headings = _without_first(section.headings, page_heading)
        for text in packer.texts(section):
            if not text:
                account.leave_out("chunk", "has no words", title or name, is_expected=True)
                continue
            key = chunk_key(row["key"], headings, text)
            if key in yielded_keys:
                account.leave_out("chunk", "repeats an equal chunk of its page", title or name, is_expected=True)
                continue
            yielded_keys.add(key)
            account.read("chunk")
            parent = row["parent"] or row["key"]
            yield DocumentRow(**{**row, "key": key, "parent": parent, "title": title, "content": text})


def _without_first(headings: tuple[str, ...], first: str | None) -> tuple[str, ...]:
    return headings[1:] if headings[:1] == (first,) else headings


def chunk_key(parent: str | None, headings: tuple[str, ...], text: str) -> str:
    """
    Return the key of a chunk.

    :param headings: The headings above the chunk, the outermost first.
    :return: The parent, the headings and a hash of 64 bits of the text. White space has no influence on it.
    """
    digest = hashlib.blake2b(" ".join(text.split()).encode(), digest_size=8).hexdigest()
    return "#".join((parent or "", SEPARATOR.join(headings), digest))


@dataclass(frozen=True)
class _Unit:
    """
    A text that stays in one chunk.

    :param has_words: Whether it has something to read. Otherwise it needs a neighbour.
    :param is_inner: Whether it continues the list or quotation of the unit before it.
    :param is_nested: Whether it is part of a list, so that its indentation means nothing at the start of a chunk.
    """

    text: str
    has_words: bool = True
    is_inner: bool = False
    is_nested: bool = False

    @property
    def introduces(self) -> bool:
        """Whether the text needs what follows, such as a question or a bold title."""
        is_bold = self.text.startswith("**") and self.text.endswith("**")
        return is_bold or self.text.endswith((":", "?", "：", "？"))  # noqa: RUF001

    def may_end_before(self, following: _Unit) -> bool:
        """Return whether a chunk may end between two units."""
        return self.has_words and following.has_words and not self.introduces


class _Packer:
    """Makes chunks of the blocks of a section."""

    def __init__(self, size: int, length: Callable[[str], int]) -> None:
        self._size = size
        self._length = length

    def _fits(self, text: str) -> bool:
        return self._length(text) <= self._size

    def texts(self, section: Section) -> Iterator[str]:
        """Yield the texts of the chunks of a section. An empty text stands for one that has no words."""
        blocks = section.blocks
        if any(block.has_words() for block in blocks):
            text = "\n\n".join(block.text for block in blocks)
            if self._fits(text):
                yield text
            else:
                yield from self._packed(self._all_units(blocks))
            return
        if section.is_leaf and has_words(section.headings[-1]):
            yield from cut(section.headings[-1], self._fits)
        elif section.is_leaf or blocks:
            yield ""

    def _packed(self, units: Sequence[_Unit]) -> Iterator[str]:
        def fit(some: Sequence[_Unit]) -> bool:
            return self._fits(_joined(some))

        start = 0
        while start < len(units):
            end = start + max(1, most(units, start, fit))
            chosen = end
            while start < chosen < len(units) and not units[chosen - 1].may_end_before(units[chosen]):
                chosen -= 1
            if chosen == start:
                # Nothing of it may be parted, and together it does not fit.
                chosen = end
            chunk = units[start:chosen]
            start = chosen
            if any(unit.has_words for unit in chunk):
                yield _joined(chunk)
            else:
                yield ""

    def _all_units(self, blocks: Sequence[Block]) -> list[_Unit]:
        units: list[_Unit] = []
        for block in blocks:
            introduction = ""
            if units and units[-1].introduces:
                introduction = units[-1].text
            units += self._units(block, introduction)
        return units

    def _units(self, block: Block, introduction: str = "") -> list[_Unit]:
        """
        Return the block, or its parts if it does not fit.

        :param introduction: Text above the block that belongs to its first part.
        """
        text = block.text
        has_words = block.has_words()
        if self._fits(text) or not has_words:
            return [_Unit(text, has_words)]
        if block.kind in CONTAINERS:
            return self._units_of_container(block)
        if block.kind in CODE:
            return list(self._parts_of_code(block, introduction))
        if block.kind == TABLE:
            return list(self._parts_of_table(block, introduction))
        pieces = cut(text, self._fits, by_lines=block.kind in BY_LINES)
        return [_Unit(piece, has_visible_words(piece), is_inner=number > 0) for number, piece in enumerate(pieces)]

    def _units_of_container(self, block: Block) -> list[_Unit]:
        units: list[_Unit] = []
        for part in block.parts():
            for number, unit in enumerate(self._units(part)):
                # The items of a list follow each other without an empty line.
                is_inner = unit.is_inner if number else bool(units) and block.kind in LISTS
                units.append(_Unit(unit.text.rstrip("\n"), unit.has_words, is_inner, is_nested=True))
        return units

    def _parts_of_code(self, block: Block, introduction: str) -> Iterator[_Unit]:
        """Yield lines of code, each time between fences, or with the indentation that marks code."""
        token = block.tokens[0]
        # An opening line that is as long as a chunk has no place in one.
        is_fenced = block.kind == "fence" and self._fits("\n".join(fenced(token, ["."])))

        def written(lines: Sequence[str]) -> str:
            if block.kind == "code_block":
                lines = indented(lines)
            elif is_fenced:
                lines = fenced(token, lines)
            return "\n".join(lines)

        lines: list[str] = []
        for line in token.content.rstrip("\n").split("\n"):
            if self._fits(written([line])):
                lines.append(line)
            else:
                lines += cut(line, lambda piece: self._fits(written([piece])))
        yield from self._grouped(lines, written, introduction)

    def _parts_of_table(self, block: Block, introduction: str) -> Iterator[_Unit]:
        """Yield rows of a table, each time below its header. A row that is too long with it is a list of its cells."""
        # In a quotation, each line has its marks.
        header, rule, *rows = table_lines([line.lstrip(" \t>") for line in block.lines])

        def written(some: Sequence[str]) -> str:
            return "\n".join((header, rule, *some))

        together: list[str] = []
        for row in rows:
            if self._fits(written([row])):
                together.append(row)
                continue
            yield from self._grouped(together, written, introduction)
            yield from self._record(header, row)
            together = []
            introduction = ""
        yield from self._grouped(together, written, introduction)

    def _record(self, header: str, row: str) -> Iterator[_Unit]:
        """Yield a row of a table that is too long for a chunk, as a line for each cell with the name of its column."""
        names = cells_of(header)
        lines: list[str] = []
        for number, cell in enumerate(cells_of(row)):
            name = names[number].strip() if number < len(names) else ""
            label = f"{name}: " if name else ""
            line = f"{label}{cell.strip()}"
            if self._fits(line):
                lines.append(line)
            else:
                lines += cut(line, self._fits)
        yield from self._grouped(lines, "\n".join)

    def _grouped(
        self, lines: Sequence[str], written: Callable[[Sequence[str]], str], introduction: str = ""
    ) -> Iterator[_Unit]:
        """Yield as many lines at a time as fit, the first ones below an introduction."""

        def fit(some: Sequence[str]) -> bool:
            return self._fits(written(some))

        def fit_below(some: Sequence[str]) -> bool:
            return self._fits(f"{introduction}\n\n{written(some)}")

        start = 0
        while start < len(lines):
            count = most(lines, start, fit_below) if introduction and not start else 0
            count = with_words_after(lines, start, count or most(lines, start, fit))
            some = lines[start : start + count]
            yield _Unit(written(some), any(map(has_words, some)))
            start += count


def _joined(units: Sequence[_Unit]) -> str:
    texts = []
    for number, unit in enumerate(units):
        if number:
            texts.append("\n" if unit.is_inner else "\n\n")
        texts.append(unit.text)
    lines = "".join(texts).split("\n")
    if units[0].is_nested:
        # Four spaces before the first item of a chunk would make it code.
        indentation = indentation_of(lines[0])
        for number, line in enumerate(lines):
            if line and not line.startswith(indentation):
                break
            lines[number] = line.removeprefix(indentation)
    return "\n".join(lines).strip("\n")
