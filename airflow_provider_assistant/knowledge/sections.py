"""Sections of a Markdown text, and the blocks of each: paragraphs, lists, tables, code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from textwrap import dedent

from markdown_it import MarkdownIt
from markdown_it.token import Token

from airflow_provider_assistant.knowledge.markdown import count_words, masked, plain_notes

# A longer heading is a paragraph that somebody marked as one. A title that long would be of no use.
LONGEST_HEADING = 200
CONTAINERS = ("bullet_list", "ordered_list", "list_item", "blockquote")

_LINE_END = re.compile(r"\r\n?|\n")
_QUOTED = re.compile(r"^ {0,3}> ?")
_ITEM_MARK = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?: {1,4}(?! )| |$)")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_BLANK_LINES = re.compile(r"\n{3,}")
# A formula that begins with text has no blank line.
_FORMULA = re.compile(
    r"^(?P<before>[ \t>]*(?:[-*+] |\d{1,9}[.)] )?)\$\$"
    r"(?:[ \t]*\n(?:(?!\$\$).)*?|(?:(?!\$\$|\n[ \t>]*\n).)+?)\$\$[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_FORMULA_LINE = re.compile(r"^([ \t>]*).*$", re.MULTILINE)
# What site generators put into a heading: attributes, a tag of a template, a footnote, a link to the heading itself.
_ATTRIBUTES = re.compile(
    r"\{[ ]*(?:[#.:%-][^{}]*|/\*[^{}]*\*/|[\w-]+=(?:\"[^\"{}]*\"|'[^'{}]*')[^{}]*)\}"
    r"|\[[\^#][^\]\s]+\]|\s*[¶§🔗]\ufe0f?$"
)
_REFERENCE = re.compile(r"(?<!\w)\[([^\[\]]+)\]\[[^\[\]]*\]")
_ANCHOR = re.compile(r"\[[^\[\]\w]*\]\(#[^()]*\)")
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")


@dataclass(eq=False)
class Heading:
    """
    A heading.

    :param text: As people read it, without links, emphasis, tags, attributes and anchor marks.
    :param left_out: Number of words in its attributes and images.
    """

    level: int
    text: str
    left_out: int = 0


@dataclass
class Block:
    """
    A part of a section that belongs together.

    :param kind: Its name in markdown-it-py, such as ``paragraph``, ``bullet_list`` or ``fence``.
    :param lines: Its lines, with one way to write white space.
    """

    kind: str
    lines: list[str]
    heading: Heading | None = None


@dataclass
class Section:
    """
    The blocks between two headings.

    :param headings: The headings above, the outermost first.
    """

    headings: list[Heading]
    blocks: list[Block] = field(default_factory=list)


def sections(markdown: str) -> Iterator[Section]:
    """
    Split a Markdown text at its headings. A heading in a list or a quotation is text of its section.

    A heading that spans several lines, or has more than 200 characters, is text as well.
    """
    section = Section([])
    for block in blocks_of(_LINE_END.split(plain_notes(markdown))):
        heading = block.heading
        if heading is None:
            section.blocks.append(block)
            continue
        yield section
        # A heading ends the sections of the same level and of deeper levels.
        above = [outer for outer in section.headings if outer.level < heading.level]
        section = Section([*above, heading])
    yield section


def first_heading(markdown: str) -> str | None:
    """Return the first heading of a Markdown text, if nothing but blank lines is above it."""
    lines = markdown.removeprefix("\ufeff").lstrip().splitlines()
    # A heading has one line, or a second one that underlines it.
    for block in blocks_of(lines[:2]):
        return (block.heading and block.heading.text) or None
    return None


def blocks_of(lines: Iterable[str]) -> Iterator[Block]:
    """Yield the blocks of a Markdown text. Trailing blanks and the indentation of paragraphs have no meaning."""
    lines = [line.rstrip() for line in lines]
    text = "\n".join(lines)
    tokens = _parser().parse(_without_formulas(text))
    for token, following in pairwise([*tokens, None]):
        if token is None or token.level or token.nesting < 0 or token.map is None:
            continue
        heading = None
        if token.type == "heading_open" and following is not None:
            heading = _heading(token, following.content)
        # Indented code gets fences, so that indentation means nothing at the start of a chunk.
        kind = "fence" if token.type == "code_block" else token.type.removesuffix("_open")
        yield Block(kind, _plain_lines(kind, token, lines[slice(*token.map)]), heading)


def inner_blocks_of(block: Block) -> Iterator[tuple[Block, int]]:
    """Yield the blocks in a list, an item or a quotation, and the number of spaces before them."""
    if block.kind == "blockquote":
        yield from ((inner, 0) for inner in blocks_of(_QUOTED.sub("", line) for line in block.lines))
    elif block.kind != "list_item":
        for token in _parser().parse("\n".join(block.lines)):
            if token.type == "list_item_open" and token.level == 1 and token.map:
                yield Block("list_item", "\n".join(block.lines[slice(*token.map)]).rstrip("\n").split("\n")), 0
    else:
        mark = _ITEM_MARK.match(block.lines[0])
        width = mark.end() if mark else 0
        lines = [line[min(width, len(line) - len(line.lstrip())) :] for line in block.lines]
        lines[0] = block.lines[0][width:]
        for number, inner in enumerate(blocks_of(lines)):
            if mark and number == 0 and inner.kind == "paragraph":
                inner.lines[0] = mark[0] + inner.lines[0]
                yield inner, 0
            else:
                yield inner, width


def _plain_lines(kind: str, token: Token, lines: list[str]) -> list[str]:
    """Return the lines of a block with one way to write its white space, so that a formatter does not change it."""
    while lines and not lines[-1]:
        lines = lines[:-1]
    if kind == "fence":
        fence = token.markup or "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", token.content))])
        lines = [fence + token.info, *token.content.removesuffix("\n").split("\n"), fence]
    elif kind == "table":
        cells_of_rows = [cells_of(line) for line in lines]
        cells_of_rows[1] = [re.sub("-+", "---", cell) for cell in cells_of_rows[1]]
        lines = [f"| {' | '.join(cells)} |" for cells in cells_of_rows]
    elif kind in CONTAINERS:
        lines = _BLANK_LINES.sub("\n\n", dedent("\n".join(lines))).split("\n")
    elif kind == "hr":
        lines = ["---"]
    elif kind != "html_block":
        lines = [line.strip() for line in lines]
    return lines


def _heading(token: Token, content: str) -> Heading | None:
    if "\n" in content or len(content) > 20 * LONGEST_HEADING:
        return None
    # A link from a heading to itself, such as `[#](#hours)`, is not in its text.
    inline = _inline_parser().parseInline(_ANCHOR.sub("", content))[0].children or []
    text = _plain(inline)
    left_out = count_words(_plain(inline, has_all=True)) - count_words(text)
    return Heading(int(token.tag[1:]), text, left_out) if len(text) <= LONGEST_HEADING else None


def _plain(tokens: Iterable[Token], *, has_all: bool = False) -> str:
    """
    Return the text of a heading as people read it.

    :param has_all: Whether it has attributes, footnotes and the descriptions of images.
    """
    texts = []
    images = []
    for token in tokens:
        if token.type == "text":
            texts.append(token.content if has_all else _REFERENCE.sub(r"\1", _ATTRIBUTES.sub("", token.content)))
        elif token.type == "image":
            images.append(_plain(token.children or [], has_all=has_all))
        elif token.type == "html_inline":
            # As in HTML files: an exponent must not join the number before it.
            texts.append("^" if token.content.lower().startswith(("<sup", "</sup")) else "")
        else:
            texts.append(" " if token.type in {"softbreak", "hardbreak"} else token.content)
    text = "".join(texts)
    if has_all or not text.strip():
        # A heading may be only an image, such as a logo.
        text = " ".join((text, *images))
    return " ".join(_INVISIBLE.sub("", text).split())


def cells_of(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip() for cell in _CELL_BORDER.split(inner)]


def _without_formulas(text: str) -> str:
    """Return a text of the same lines in which formulas between ``$$`` are paragraphs, whatever is in them."""
    if "$$" not in text:
        return text
    parts = []
    position = 0
    for formula in _FORMULA.finditer(masked(text)):
        start = formula.end("before") + len("$$")
        parts.append(text[position:start])
        parts.append(_FORMULA_LINE.sub(r"\1x", text[start : formula.end()]))
        position = formula.end()
    return "".join(parts) + text[position:]


@cache
def _parser() -> MarkdownIt:
    """Return a parser that only looks for blocks."""
    return MarkdownIt("commonmark").disable(["inline", "reference"]).enable("table")


@cache
def _inline_parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("strikethrough")
