"""Sections of a Markdown text, and the blocks of each: paragraphs, lists, tables, code."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from airflow_provider_assistant.knowledge.headings import (
    ATTRIBUTES,
    LONGEST_HEADING,
    plain_text,
)
from airflow_provider_assistant.knowledge.markdown import block_parser, reference_rule
from airflow_provider_assistant.texts import has_words

TABLE = "table"
CODE = ("fence", "code_block")
LISTS = ("bullet_list", "ordered_list")
CONTAINERS = (*LISTS, "list_item", "blockquote")
# Blocks whose lines are kept as they are.
BY_LINES = ("html_block", "math_block")
_WITHOUT_WORDS = ("hr", "definition")

_BLANK_LINES = re.compile(r"\n{3,}")
_INDENTATION = re.compile(r"[ \t]*")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
# The titles of the notes and tabs of Python-Markdown, such as `!!! note "Title"` and `=== "Linux"`.
_NOTE = re.compile(r'(?:!!!|\?{3}\+?|={3}[+!]*) +(?P<kind>[\w-]{0,30})(?: [\w -]{0,60})?(?:(?<= )"(?P<title>[^"]*)")?')
_NOTE_INDENTATIONS = ("    ", "\t")
_NOTE_MARKS = ("!!! ", "??? ", "???+ ", "===")
_DEEPEST_NOTE = 20
# Lines that only steer a generator: attributes, a target of MyST, a table of contents, tags of a template.
_STEERING = re.compile(
    rf"(?>{ATTRIBUTES} | \([\w\ .:-]+\)= | \[\[?_?toc_?\]?\] | \s+)++",
    re.IGNORECASE | re.VERBOSE,
)
_MARKUP = frozenset("[({<")
_TARGET = r"(?:\([^()]*\)|\[[^\[\]]*\])"
_LINKED_IMAGE = re.compile(rf"\[!\[[^\[\]]*\]{_TARGET}\]{_TARGET}")
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\(([^()]*)\)")
_LINK_TARGET = re.compile(rf"\]{_TARGET}")
_HTML_IMAGE = re.compile(r'<img\b([^<>]*?)\balt="([^"<>]*)"([^<>]*)>')
_TAG = re.compile(r"<[!/a-zA-Z][^<>]*>")
# Parts of the address of an image that shows the state of a build.
_BADGES = ("badge", "shields.io")


@dataclass(frozen=True)
class Block:
    """
    A part of a Markdown text that belongs together.

    :param kind: Its name in markdown-it-py, such as ``paragraph``, ``bullet_list`` or ``fence``.
    :param lines: Its lines, with one way to write white space.
    :param tokens: Its tokens, the opening one first.
    :param offset: Number of its first line in the text that the tokens count lines of.
    """

    kind: str
    lines: list[str]
    tokens: Sequence[Token]
    offset: int = 0

    @property
    def text(self) -> str:
        """The block as Markdown."""
        text = "\n".join(self.lines)
        if self.kind in CONTAINERS:
            text = _BLANK_LINES.sub("\n\n", text)
        return text

    def has_words(self) -> bool:
        """Return whether the block has something to read: not only a rule, targets of links, badges or tags."""
        if self.kind in _WITHOUT_WORDS:
            return False
        if self.kind in CODE:
            return has_words(self.tokens[0].content)
        text = self.text
        if _MARKUP.isdisjoint(text):
            return has_words(text)
        is_steering = self.kind == "paragraph" and _STEERING.fullmatch(text)
        return not is_steering and has_visible_words(text)

    def parts(self) -> list[Block]:
        """Return the blocks in a list, an item of a list or a quotation."""
        parts = []
        inner = self.tokens[0].level + 1
        for tokens in _top_level(self.tokens[1:-1], inner):
            first, after = tokens[0].map or (0, 0)
            lines = self.lines[first - self.offset : after - self.offset]
            parts.append(Block(_kind(tokens[0]), lines, tokens, first))
        return parts


def has_visible_words(markdown: str) -> bool:
    """Return whether a text has words other than those in tags, addresses and badges."""
    text = _HTML_IMAGE.sub(r"![\2](\1\3)", markdown)
    text = _TAG.sub("", _LINKED_IMAGE.sub("", text))
    if has_words(_LINK_TARGET.sub("]", _IMAGE.sub("", text))):
        return True
    for description, address in _IMAGE.findall(text):
        is_badge = any(part in address for part in _BADGES)
        if has_words(description) and not is_badge:
            return True
    return False


@dataclass(frozen=True)
class Section:
    """
    The blocks between two headings.

    :param headings: The headings above, the outermost first, as plain text. Empty before the first heading.
    :param blocks: Without the headings.
    :param is_leaf: Whether the section begins with a heading, and no deeper heading follows.
    :param has_page_heading: Whether the outermost heading is of level 1.
    """

    headings: tuple[str, ...]
    blocks: Sequence[Block]
    is_leaf: bool
    has_page_heading: bool


@dataclass(frozen=True)
class _Heading:
    level: int
    text: str


def sections_of(markdown: str) -> Iterator[Section]:
    """
    Split a Markdown text at its headings. A heading in a list or a quotation is text of its section.

    A heading that spans several lines, or has more than 200 characters, is text as well.

    :return: The sections with white space at the ends of lines removed; also those without blocks.
    """
    lines = [line.rstrip() for line in markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    if any(mark in markdown for mark in _NOTE_MARKS):
        lines = _with_flat_notes(lines)
    env: dict[str, Any] = {}
    tokens = _parser().parse("\n".join(lines), env)
    above: list[_Heading] = []
    blocks: list[Block] = []
    for block_tokens in _top_level(tokens, 0):
        heading = _heading(block_tokens, env)
        if heading is None:
            _add(blocks, block_tokens, lines)
            continue
        is_leaf = bool(above) and heading.level <= above[-1].level
        yield _section(above, blocks, is_leaf=is_leaf)
        # A heading ends the sections of the same level and of deeper levels.
        above = [outer for outer in above if outer.level < heading.level]
        above.append(heading)
        blocks = []
    yield _section(above, blocks, is_leaf=bool(above))


def _with_flat_notes(lines: list[str]) -> list[str]:
    """
    Return lines in which the notes and tabs of Python-Markdown are paragraphs below a bold title.

    Their text is indented, so CommonMark takes it for code, or for a part of the title.
    """
    for _ in range(_DEEPEST_NOTE):
        if not any(_NOTE.fullmatch(line.strip()) for line in lines):
            break
        # Only paragraphs: code may show how to write a note.
        titles = set()
        for token in _parser().parse("\n".join(lines)):
            if token.type == "paragraph_open" and token.map and _is_title(lines, token.map[0]):
                titles.add(token.map[0])
        if not titles:
            break
        lines = _flattened(lines, titles)
    return lines


def _is_title(lines: Sequence[str], number: int) -> bool:
    """Return whether a line is the title of a note: what follows it is indented."""
    line = lines[number]
    if not _NOTE.fullmatch(line.strip()):
        return False
    following = next((line for line in lines[number + 1 : number + 4] if line), "")
    return _is_below(following, indentation_of(line))


def _is_below(line: str, indentation: str) -> bool:
    """Return whether a line is the text of a note with an indentation."""
    return line.startswith((f"{indentation}    ", f"{indentation}\t"))


def _flattened(lines: Sequence[str], titles: Container[int]) -> list[str]:
    """Return lines with notes as paragraphs; a note in a note is the text of one then."""
    flat: list[str] = []
    # That of the note that the lines are in.
    indentation: str | None = None
    for number, line in enumerate(lines):
        is_below = indentation is not None and _is_below(line, indentation)
        if number in titles or (indentation is not None and not is_below and _is_title(lines, number)):
            indentation = indentation_of(line)
            flat += ["", indentation + _shown_title(line.strip()), ""]
        elif indentation is None or not line:
            flat.append(line)
        elif is_below:
            text = line.removeprefix(indentation)
            flat.append(indentation + (text[1:] if text.startswith("\t") else text[4:]))
        else:
            indentation = None
            flat += ["", line]
    return flat


def _shown_title(line: str) -> str:
    """Return the title of a note or tab as people see it: that of a note without one is its kind."""
    found = _NOTE.fullmatch(line)
    title = ""
    if found:
        title = found["kind"].capitalize() if found["title"] is None else found["title"]
    return f"**{title}**" if title else ""


def _section(above: Sequence[_Heading], blocks: Sequence[Block], *, is_leaf: bool) -> Section:
    headings = tuple(heading.text for heading in above if heading.text)
    has_page_heading = bool(above) and above[0].level == 1
    return Section(headings, blocks, is_leaf and bool(above[-1].text), has_page_heading)


def _heading(tokens: Sequence[Token], env: dict[str, Any]) -> _Heading | None:
    if tokens[0].type != "heading_open":
        return None
    # The token after the one that opens a heading has its text.
    content = tokens[1].content
    if "\n" in content or len(content) > 20 * LONGEST_HEADING:
        return None
    text = plain_text(content, env)
    if len(text) > LONGEST_HEADING:
        return None
    return _Heading(int(tokens[0].tag.removeprefix("h")), text)


def _top_level(tokens: Sequence[Token], level: int) -> Iterator[Sequence[Token]]:
    """Yield the tokens of each block of a level, the opening token first."""
    start = 0
    for number, token in enumerate(tokens):
        if token.level == level and token.nesting >= 0:
            start = number
        if token.level == level and token.nesting <= 0 and tokens[start].map:
            yield tokens[start : number + 1]


def _kind(token: Token) -> str:
    return token.type.removesuffix("_open")


def _add(blocks: list[Block], tokens: Sequence[Token], lines: list[str]) -> None:
    """Add a block; targets of links that follow each other are one."""
    block = _block(tokens, lines)
    if block.kind == "definition" and blocks and blocks[-1].kind == "definition":
        blocks[-1].lines.extend(block.lines)
    else:
        blocks.append(block)


def _block(tokens: Sequence[Token], lines: list[str]) -> Block:
    """Return a block with one way to write its white space, so that a formatter of Markdown does not change it."""
    opening = tokens[0]
    kind = _kind(opening)
    first, after = opening.map or (0, 0)
    lines = lines[first:after]
    while lines and not lines[-1]:
        lines = lines[:-1]
    if kind == "fence":
        lines = fenced(opening, opening.content.removesuffix("\n").split("\n"))
    elif kind == "code_block":
        lines = indented(opening.content.rstrip("\n").split("\n"))
    elif kind == TABLE:
        lines = table_lines(lines)
    elif kind in CONTAINERS:
        lines = _dedented(lines)
    elif kind == "hr":
        lines = ["---"]
    elif kind not in BY_LINES:
        lines = [line.strip() for line in lines]
    return Block(kind, lines, tokens, first)


def fenced(token: Token, lines: Sequence[str]) -> list[str]:
    """Return lines of code between the fences of a block of code."""
    return [token.markup + token.info, *lines, token.markup]


def indented(lines: Sequence[str]) -> list[str]:
    """Return lines of code with the indentation that marks code."""
    return ["    " + line if line else "" for line in lines]


def table_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines of a table with one space around each cell."""
    written = []
    for number, line in enumerate(lines):
        cells = [cell.strip() for cell in cells_of(line)]
        if number == 1:
            cells = [re.sub("-+", "---", cell) for cell in cells]
        written.append("| " + " | ".join(cells) + " |")
    return written


def cells_of(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return _CELL_BORDER.split(inner)


def _dedented(lines: Sequence[str]) -> list[str]:
    """Return lines without the indentation of the first one."""
    indentation = len(indentation_of(lines[0]))
    return [line[min(indentation, len(indentation_of(line))) :] for line in lines]


def indentation_of(line: str) -> str:
    """Return the spaces and tabs before the text of a line."""
    found = _INDENTATION.match(line)
    return found[0] if found else ""


@cache
def _parser() -> MarkdownIt:
    """Return a parser that only looks for blocks, and tells where link definitions are."""
    parser = block_parser().enable(["table", "reference"])
    parser.block.ruler.at("reference", reference_rule)
    parser.options["inline_definitions"] = True
    return parser
