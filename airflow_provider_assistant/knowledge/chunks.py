"""
Chunks of documents, with keys that an edit elsewhere does not change.

A page has sections, which begin at headings, and a section has blocks. What is too long for a chunk becomes units:
paragraphs, items, rows, lines, sentences, in the end parts of words. Each chunk takes as many units as fit.

A key contains no position: it consists of the parent, the headings above the chunk, and the hash of its text. Neither
the title of the page nor its first heading of level 1 is in it, so with another title, each chunk keeps its key and has
new content: the load knows which document it replaces. Each section is split on its own, so an edit moves no boundary
in another section.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from textwrap import indent

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.rows import DocumentRow, DocumentRows
from airflow_provider_assistant.knowledge.sections import (
    CONTAINERS,
    Block,
    Heading,
    Section,
    cells_of,
    inner_blocks_of,
    sections,
)
from airflow_provider_assistant.parsing.pages import count_words
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount
from airflow_provider_assistant.texts import has_words

SEPARATOR = " > "
# Lists and quotations in each other that are taken apart.
_DEEPEST = 10

_FENCE = re.compile(r"^[ \t>]*(?:`{3,}[^`\n]*|~{3,}.*)$", re.MULTILINE)
# Where a text may be cut, the best places first: behind sentences, lines, words. A link, or code, is one word.
_CLOSING = "\"'”’»)\\]*_」』）】》"  # noqa: RUF001
_ENDS = (
    re.compile(
        rf"(?:(?<=[^\s.]{{2}})[.!?…؟।॥۔።][{_CLOSING}]*(?=\s)|[。！？｡．][{_CLOSING}]*)\s*+(?![a-z])"  # noqa: RUF001
    ),
    re.compile(r"\n+"),
    re.compile(r"(?>\[[^\[\]]{1,300}\]\([^()\s]*\)|`[^`]{1,300}`|[^\s、，；：])+[、，；：]*\s*"),  # noqa: RUF001
    re.compile(r"\S+\s*"),
)
_JOINER = "\u200d"
# A picture in the text itself. Its data would be hundreds of chunks without a word.
_PICTURE = re.compile(r"data:image/[\w.+;=-]+;base64,[A-Za-z0-9+/=]+", re.IGNORECASE)
# What readers do not see, or cannot use alone.
_MARKUP = frozenset("[({<")
_TARGET = r"(?:\([^()]*\)|\[[^\[\]]*\])"
_NOT_READ = re.compile(
    rf"""
    \[!\[[^\[\]]*\]{_TARGET}\]{_TARGET}  # a linked image
    | !\[[^\[\]]*\]\([^()]*(?:badge|shields\.io)[^()]*\)
    | (?<=\]){_TARGET}
    | <(?!https?: | mailto: | [^\s<>@]+@ | img\b(?![^<>]*badge)[^<>]*\balt="[^"<>]*\w)[!/?a-zA-Z][^<>]*>
    | ^\[(?!\^)[^\[\]]+\]:\s.*$  # the target of a reference
    | ^\{{[:\#.%][^{{}}]*\}}$ | ^\([\w .:-]+\)=$ | ^\[\[?_?toc_?\]?\]$
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
Fits = Callable[[str], bool]


def split_documents(
    rows: Iterable[DocumentRow],
    size: int = 2000,
    *,
    length: Callable[[str], int] = len,
    cite: str | None = None,
) -> DocumentRows:
    """
    Split documents at their Markdown headings, and long sections between paragraphs, lists, tables and blocks of code.

    A section that fits is one chunk. What is longer than a chunk is split, too: a table after rows, with its header in
    each chunk; code after lines, with fences in each chunk; a list after items; text at sentences, lines or words.

    The title of a chunk is the title of the document and the headings above the chunk, as plain text. A heading
    without text below is a chunk that contains the heading. What readers cannot read, such as a rule or a badge, is no
    chunk; its words are counted. A row with a blank key is returned without one, so that a load rejects it.

    :param rows: The documents.
    :param size: Maximum length of a chunk's text, in characters or what ``length`` counts. Default: 2,000.
    :param length: Function that returns the length of a text, for example in tokens. Default: characters.
    :param cite: Line below each chunk, in which ``{url}`` is the address of its document, such as ``Source: {url}``, so
        that an answer can name it. Documents without an address have none. Default: None, no line.
    :return: The chunks.
    :raises AssistantInputError: ``size`` is less than 1, or ``cite`` has no ``{url}``.
    """
    if size < 1:
        raise AssistantInputError(f"size must be at least 1, not {size}", field="size")
    if cite is not None and "{url}" not in cite:
        raise AssistantInputError(f"cite must contain '{{url}}', not {cite!r}", field="cite")

    def chunks(account: SourceAccount) -> Iterator[DocumentRow]:
        # By the hash of the key, which takes less memory.
        repetitions: Counter[int] = Counter()
        for row in rows:
            if not (row["key"] or "").strip():
                account.read("chunk")
                yield {**row, "key": None}
                continue
            citation = f"\n\n{cite.replace('{url}', row['url'])}" if cite and row["url"] else ""
            if 2 * length(citation) > size:
                account.leave_out("citation", f"is too long for a size of {size}", row["url"] or "", is_expected=False)
                citation = ""
            fits = partial(_is_short_enough, size=size, length=length, citation=citation)
            for chunk in _chunks(row, fits, account):
                account.read("chunk")
                key = chunk["key"] or ""
                repetitions[hash(key)] += 1
                number = repetitions[hash(key)]
                if number > 1:
                    # It repeats an equal chunk below the same headings.
                    key = f"{key}#{number}"
                yield {**chunk, "key": key, "content": chunk["content"] + citation}

    return AccountedRows(chunks, source=rows)


def _is_short_enough(text: str, *, size: int, length: Callable[[str], int], citation: str) -> bool:
    return length(text.strip("\n").rstrip() + citation) <= size


@dataclass(frozen=True)
class _Unit:
    """
    A text that stays in one chunk.

    :param text: With the white space behind it.
    :param is_readable: Whether it has something to read. Otherwise it needs a neighbour.
    :param indentation: Number of spaces before its lines, because it is part of an item of a list.
    :param wrapping: What is above and below it in each chunk, such as fences or the header of a table. Units that
        follow each other and have the same object share it.
    """

    text: str
    is_readable: bool
    indentation: int = 0
    wrapping: tuple[str, str] = ("", "")

    def may_end_before(self, following: _Unit) -> bool:
        """Return whether a chunk may end between two units: not behind a question or a bold title."""
        text = self.text.rstrip()
        is_bold = text.startswith("**") and text.endswith("**")
        introduces = is_bold or text.endswith((":", "?", "：", "？"))  # noqa: RUF001
        return self.is_readable and following.is_readable and not introduces


def _chunks(row: DocumentRow, fits: Fits, account: SourceAccount) -> Iterator[DocumentRow]:
    name = row["key"] or ""
    if not row["content"].strip():
        account.leave_out("page", "has no text", name, is_expected=False)
    page_heading = ""
    above: list[Heading] = []
    # Headings that are in the title of a chunk.
    shown: set[Heading] = set()
    # An empty address keeps the Markdown around it as it is.
    for section in [*sections(_PICTURE.sub("data:,", row["content"])), Section([])]:
        ended = [heading for heading in above if heading not in section.headings and heading.text]
        if ended and ended[-1] not in shown:
            # No text was below this heading: it is a chunk itself.
            shown.update(above)
            for text in cut(ended[-1].text, fits):
                yield _chunk(row, above, page_heading, text)
        above = section.headings
        if above and above[-1].left_out:
            reason = "in attributes and images of a heading"
            account.leave_out("word", reason, name, is_expected=True, count=above[-1].left_out)
        if above and above[0].level == 1:
            page_heading = page_heading or above[0].text
        for units in _packed(list(_units(section.blocks, fits)), fits):
            text = _written(units)
            if any(unit.is_readable for unit in units) or is_readable(text):
                shown.update(above)
                yield _chunk(row, above, page_heading, text)
            elif count := count_words(text):
                account.leave_out("word", "in badges, tags and addresses alone", name, is_expected=True, count=count)


def _chunk(row: DocumentRow, above: Sequence[Heading], page_heading: str, text: str) -> DocumentRow:
    headings = [heading.text for heading in above if heading.text]
    # The title of the page stands above its text, too.
    titles = [row["title"], *_without_first(headings, row["title"])]
    # White space has no influence on the key.
    digest = hashlib.blake2b(" ".join(text.split()).encode(), digest_size=8).hexdigest()
    parent = row["parent"] or row["key"] or ""
    key = "#".join((parent, SEPARATOR.join(_without_first(headings, page_heading)), digest))
    title = SEPARATOR.join(filter(None, titles)) or None
    return {**row, "key": key, "parent": parent, "title": title, "content": text}


def _without_first(headings: list[str], first: str | None) -> list[str]:
    return headings[1:] if headings[:1] == [first] else headings


def _packed(units: Sequence[_Unit], fits: Fits) -> Iterator[Sequence[_Unit]]:
    """Yield the units of each chunk: as many as fit."""
    start = 0
    while start < len(units):
        end = start + max(1, _most(units, start, fits))
        last = end
        while start < last < len(units) and not units[last - 1].may_end_before(units[last]):
            last -= 1
        if last == start:
            # Nothing of it may be parted, and together it does not fit.
            last = end
        yield units[start:last]
        start = last


def _most(units: Sequence[_Unit], start: int, fits: Fits) -> int:
    """Return how many units fit, with few calls."""
    left = len(units) - start
    fitting, too_many = 0, 1
    while too_many <= left and fits(_written(units[start : start + too_many])):
        fitting, too_many = too_many, 2 * too_many
    too_many = min(too_many, left + 1)
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fits(_written(units[start : start + middle])):
            fitting = middle
        else:
            too_many = middle
    return fitting


def _written(units: Sequence[_Unit]) -> str:
    """Return the text of a chunk. Its first line is not indented: four spaces would make it code."""
    parts = []
    for (_, indentation), some in groupby(units, key=lambda unit: (id(unit.wrapping), unit.indentation)):
        group = list(some)
        before, behind = group[0].wrapping
        text = "".join(unit.text for unit in group)
        if behind and not text.endswith("\n"):
            # A part of a line.
            text += "\n"
        parts.append(indent(before + text + behind, " " * (indentation - units[0].indentation)))
    return "".join(parts).strip("\n").rstrip()


def _units(blocks: Iterable[Block], fits: Fits, indentation: int = 0, depth: int = 0) -> Iterator[_Unit]:
    """Yield each block, or its parts if it does not fit."""
    for block in blocks:
        text = "\n".join(block.lines)
        readable = is_readable(text, is_code=block.kind == "fence")
        behind = "\n" if block.kind == "list_item" else "\n\n"
        is_container = block.kind in CONTAINERS and depth < _DEEPEST
        # The end of an item may be that of its code, which has no fence then.
        is_whole = not is_container or len(_FENCE.findall(text)) % 2 == 0
        if not readable or (is_whole and fits(text)):
            units = [_Unit(text, readable)]
        elif is_container:
            units = [
                unit for inner, width in inner_blocks_of(block) for unit in _units([inner], fits, width, depth + 1)
            ]
        elif block.kind == "fence":
            units = list(_units_of_code(block.lines, fits))
        elif block.kind == "table":
            units = list(_units_of_table(block.lines, fits))
        else:
            units = [_Unit(part, is_readable(part) and has_words(part)) for part in cut(text, fits)]
        for unit in units[:-1]:
            yield replace(unit, indentation=indentation + unit.indentation)
        for unit in units[-1:]:
            unit_text = unit.text.rstrip("\n") + ("\n" if unit.wrapping[1] else behind)
            yield replace(unit, text=unit_text, indentation=indentation + unit.indentation)


def _units_of_code(lines: Sequence[str], fits: Fits) -> Iterator[_Unit]:
    """Yield lines of code, which are between fences in each chunk."""
    before, behind = f"{lines[0]}\n", f"{lines[-1]}\n\n"
    if not fits(f"{before}.\n{behind}"):
        # A first line that is as long as a chunk has no place in one.
        before = behind = ""
    wrapping = (before, behind)
    for line in lines[1:-1]:
        for part in cut(f"{line}\n", lambda part: fits(f"{before}{part}\n{behind}")):
            yield _Unit(part, has_words(part), wrapping=wrapping)


def _units_of_table(lines: Sequence[str], fits: Fits) -> Iterator[_Unit]:
    """Yield rows, which are below the header in each chunk. A row that is too long with it is a list of its cells."""
    header, rule, *rows = lines
    wrapping = (f"{header}\n{rule}\n", "\n")
    names = cells_of(header)
    for row in rows or [header]:
        if rows and fits(f"{header}\n{rule}\n{row}"):
            yield _Unit(f"{row}\n", is_readable(row), wrapping=wrapping)
            continue
        for number, cell in enumerate(cells_of(row)):
            name = names[number] if rows and number < len(names) else ""
            line = f"{name}: {cell}" if name else cell
            for part in cut(f"{line}\n", fits):
                yield _Unit(part, is_readable(part))


def cut(text: str, fits: Fits, ends: Sequence[re.Pattern[str]] = _ENDS) -> Iterator[str]:
    """Yield parts of a text that fit: sentences, or lines, words, parts of a word. Together, they are the text."""
    if len(text) < 2 or fits(text):
        yield text
        return
    places = [found.end() for found in ends[0].finditer(text)] if ends else [_middle_of(text)]
    for start, end in pairwise([0, *places, len(text)]):
        if start < end:
            yield from cut(text[start:end], fits, ends[1:])


def _middle_of(text: str) -> int:
    """Return the middle of a text, but not inside of a character that people see as one."""
    middle = len(text) // 2
    for place in range(middle, min(len(text), middle + 20)):
        is_joined = _JOINER in text[place - 1 : place + 1]
        if not is_joined and not unicodedata.category(text[place]).startswith("M"):
            return place
    return middle


def is_readable(text: str, *, is_code: bool = False) -> bool:
    """Return whether a Markdown text has something to read: not only rules, tags, badges and targets of links."""
    if is_code:
        return bool(_FENCE.sub("", text).strip())
    if not _MARKUP.isdisjoint(text):
        text = _NOT_READ.sub(" ", text)
    return any(char.isalnum() or unicodedata.category(char) in {"So", "Sc"} for char in text)
