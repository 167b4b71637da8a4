"""
Comments and links in Markdown.

markdown-it-py finds code and links, so what only looks like one of them, or is in code, stays as it is. The text is
never rendered: parts of the source are replaced, and everything else stays as it was written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urljoin

from markdown_it import MarkdownIt
from markdown_it.helpers import parseLinkDestination, parseLinkLabel
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_inline import StateInline, backtick, image, link

_LINE_END = re.compile(r"\r\n?|\n")
# What begins a comment and what ends it: of HTML, MDX, Liquid, Jinja, Hugo and kramdown. It may have blank lines.
_COMMENTS = {
    r"<!--": r"-->",
    r"\{/\*": r"\*/\s*\}",
    r"\{%-?\s*comment\b": r"\{%-?\s*endcomment\s*-?%\}",
    r"\{#(?=[\s-])": r"#\}",
    r"\{\{[%<-]?\s*/\*": r"\*/\s*[%>-]?\}\}",
    r"\{::comment\}": r"\{:/(?:comment)?\}",
}
_COMMENT_START = re.compile(r"(?<!\\)(?:" + "|".join(f"({start})" for start in _COMMENTS) + ")")
_COMMENT_ENDS = tuple(re.compile(end) for end in _COMMENTS.values())
# What is before the target of a reference.
_LABEL = re.compile(r"\[(?:[^\[\]\\]|\\.)*\]:\s*", re.DOTALL)
# The notes and tabs of Python-Markdown. Their text is indented, so CommonMark takes it for code.
_NOTES = ("!!!", "???", "===")
_DEEPEST_NOTE = 20
# A site generator replaces these before it reads the Markdown.
_TEMPLATES = ("{{", "{%")


class Span(NamedTuple):
    """The place of a part in a text."""

    start: int
    end: int


def without_comments(markdown: str) -> str:
    """
    Return a Markdown text without comments. Those in code are shown to readers, so they stay.

    A comment of HTML that begins a block and has no end goes to the end of the block, as in browsers.
    """
    # The marks of comments and of the definitions that hide them. The pattern is slower than these.
    if not any(mark in markdown for mark in ("<!--", "{", "]:")):
        return markdown
    if not _COMMENT_START.search(markdown) and "]:" not in markdown:
        return markdown
    finder = _Finder(markdown, _parser())
    edits = [(comment, "") for comment in _comments(markdown, finder)]
    return _replaced(markdown, edits)


def has_open_comment(markdown: str) -> bool:
    """Return whether a comment without an end hides the rest of a text."""
    if markdown.rfind("<!--") <= markdown.rfind("-->"):
        return False
    return bool(_Finder(markdown, _parser()).unfinished_comments)


def _comments(text: str, finder: _Finder) -> Iterator[Span]:
    code = Spans(finder.code)
    unfinished = Spans(finder.unfinished_comments)
    yield from finder.hidden_definitions
    ends_without_match = set()
    position = 0
    while start := _COMMENT_START.search(text, position):
        position = start.end()
        block = unfinished.at(start.start())
        end = None
        if block:
            end = block.end
        elif not code.at(start.start()) and start.lastindex not in ends_without_match:
            end = _comment_end(text, start, code)
            if end is None:
                # The rest of the text is searched once.
                ends_without_match.add(start.lastindex)
        if end is not None:
            yield Span(start.start(), end)
            position = end


def _comment_end(text: str, start: re.Match[str], code: Spans) -> int | None:
    ends = _COMMENT_ENDS[(start.lastindex or 1) - 1].finditer(text, start.end())
    return next((end.end() for end in ends if not code.at(end.start())), None)


def absolute_links(markdown: str, address_of: Callable[[str], str]) -> str:
    """
    Return a Markdown text whose links and images have absolute addresses.

    :param address_of: Function that returns the absolute address of a target.
    """
    if "](" not in markdown and "]:" not in markdown:
        return markdown
    edits = []
    for span in _Finder(markdown, _parser()).targets:
        target = markdown[span.start : span.end]
        if target and not any(mark in target for mark in _TEMPLATES):
            edits.append((span, address_of(target)))
    return _replaced(markdown, edits)


def code_of_mdx(text: str) -> list[Span]:
    """Return where code is in a text of MDX, in which neither indentation marks code nor tags begin blocks of HTML."""
    return _Finder(text, _parser(is_mdx=True)).code


def joined(base: str, target: str) -> str:
    """Return the absolute address of a target; the target itself if it is not an address."""
    try:
        return urljoin(base, target)
    except ValueError:  # such as "http://[", which is no address
        return target


def block_parser() -> MarkdownIt:
    """Return a parser that only looks for blocks: those of CommonMark, and formulas between lines of ``$$``."""
    parser = MarkdownIt("commonmark").disable(["inline", "reference"])
    may_interrupt: RuleOptionsType = {"alt": ["paragraph", "blockquote", "list"]}
    parser.block.ruler.before("fence", "math_block", _math_block, may_interrupt)
    return parser


def _math_block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Read a formula. A line of ``$$`` that no other one ends is text."""
    if state.is_code_block(first) or not _line(state, first).startswith("$$"):
        return False
    last = first
    text = _line(state, first).removeprefix("$$").rstrip()
    starts_alone = not text
    while not text.endswith("$$"):
        last += 1
        if "$$" in text or last >= end:
            return False
        text = _line(state, last).rstrip()
        # A line that is indented less than the first one ends the list or quotation.
        ends_block = state.sCount[last] < state.blkIndent or not (text or starts_alone)
        if ends_block:
            return False
    if not silent:
        state.line = last + 1
        token = state.push("math_block", "math", 0)
        token.map = [first, state.line]
        token.content = state.getLines(first, state.line, state.blkIndent, keepLastLF=True)
    return True


def _line(state: StateBlock, number: int) -> str:
    """Return a line without its indentation."""
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def line_starts(text: str) -> list[int]:
    """Return where each line begins, as markdown-it-py counts them, and where the text ends."""
    ends = [found.end() for found in _LINE_END.finditer(text)]
    return [0, *ends, len(text)]


def _replaced(text: str, edits: Iterable[tuple[Span, str]]) -> str:
    parts = []
    end_of_last = 0
    for span, replacement in sorted(edits):
        parts.append(text[end_of_last : span.start])
        parts.append(replacement)
        end_of_last = span.end
    parts.append(text[end_of_last:])
    return "".join(parts)


class Spans:
    """Parts of a text that do not overlap."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = sorted(spans)

    def at(self, position: int) -> Span | None:
        """Return the part that contains a position."""
        index = bisect_right(self._spans, position, key=lambda span: span.start) - 1
        if index >= 0 and position < self._spans[index].end:
            return self._spans[index]
        return None


class _Finder:
    """
    Finds parts of a Markdown text.

    :ivar code: Blocks and parts of lines that are code.
    :ivar unfinished_comments: Blocks of HTML that are a comment without an end.
    :ivar hidden_definitions: Definitions of references that are comments, such as ``[//]: # (text)``.
    :ivar targets: Targets of links, images and references.
    """

    def __init__(self, markdown: str, parser: MarkdownIt) -> None:
        self.code: list[Span] = []
        self.unfinished_comments: list[Span] = []
        self.hidden_definitions: list[Span] = []
        self.targets: list[Span] = []
        self._parser = parser
        self._text = markdown.replace("\0", "\ufffd")  # as the parser does
        self._starts = line_starts(markdown)
        self._parse(markdown, 0, 0)

    def _parse(self, markdown: str, offset: int, level: int) -> None:
        """Parse the text, or the part of it that is a note and begins at the line with the number ``offset``."""
        env: dict[str, Any] = {}
        paragraph = ""
        for token in self._parser.parse(markdown, env):
            if token.map is None:
                continue
            first_of_part, line_after = token.map
            first = first_of_part + offset
            start = self._starts[first]
            end = self._starts[line_after + offset]
            if token.type == "inline":
                paragraph = token.content
                self._add_inline(paragraph, first, env)
            elif token.type == "definition":
                self._add_definition(start, end, is_comment=_is_comment(**token.meta))
            elif token.type == "html_block":
                if token.content.lstrip().startswith("<!--") and "-->" not in token.content:
                    block = self._text[start:end].rstrip()
                    self.unfinished_comments.append(Span(start, start + len(block)))
            elif token.type == "code_block" and paragraph.startswith(_NOTES) and level < _DEEPEST_NOTE:
                self._parse(token.content, first, level + 1)
            elif token.type in {"code_block", "fence"}:
                self.code.append(Span(start, end))

    def _add_definition(self, start: int, end: int, *, is_comment: bool) -> None:
        label = _LABEL.search(self._text, start, end)
        if not label:
            return
        if is_comment:
            self.hidden_definitions.append(Span(label.start(), end))
        else:
            self.targets.append(_target(self._text, label.end(), end))

    def _add_inline(self, content: str, first: int, env: dict[str, Any]) -> None:
        """Add what the text of a paragraph or a heading has, which begins at a line of the source."""
        code: list[Span] = []
        targets: list[Span] = []
        env.update(code=code, targets=targets)
        self._parser.inline.parse(content, self._parser, env, [])
        if code or targets:
            in_source = self._places(content, first)
            self.code += map(in_source, code)
            self.targets += map(in_source, targets)

    def _places(self, content: str, first: int) -> Callable[[Span], Span]:
        """
        Return a function that finds a part of a paragraph in the source.

        The parser has taken from each line what belongs to lists and quotations, and some of the spaces around it.
        """
        columns: list[int] = []
        places: list[int] = []
        column = 0
        for number, line in enumerate(content.split("\n"), first):
            text = line.strip()
            # The last place: what lists and quotations put before the text may contain it, too.
            place = self._text.rfind(text, self._starts[number], self._starts[number + 1])
            columns.append(column)
            places.append(place - line.find(text))
            column += len(line) + 1

        def place_of(position: int) -> int:
            line = bisect_right(columns, position) - 1
            return places[line] + position - columns[line]

        def in_source(span: Span) -> Span:
            return Span(place_of(span.start), place_of(span.end))

        return in_source


def _is_comment(*, label: str, title: str, url: str, **_: Any) -> bool:
    """Return whether a definition is a comment: nothing can refer to it, and its title is the text."""
    return label.startswith("//") or bool(title and url in {"", "#"})


@cache
def _parser(*, is_mdx: bool = False) -> MarkdownIt:
    """Return a parser that tells where code and targets are."""
    parser = MarkdownIt("commonmark", {"inline_definitions": True})
    parser.disable(["inline", "lheading", "emphasis", "entity", "balance_pairs", "fragments_join"])
    parser.block.ruler.at("reference", reference_rule)
    parser.inline.ruler.at("backticks", _backticks)
    parser.inline.ruler.at("link", _link)
    parser.inline.ruler.at("image", _image)
    if is_mdx:
        parser.disable(["code", "html_block"])
    return parser


def reference_rule(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Leave footnotes, which begin like references, to the rule for paragraphs."""
    start = state.bMarks[first] + state.tShift[first]
    if state.src.startswith("[^", start):
        return False
    return reference(state, first, end, silent)


def _backticks(state: StateInline, silent: bool) -> bool:
    start = state.pos
    tokens_before = len(state.tokens)
    is_read = backtick(state, silent)
    # Backticks that nothing closes are text.
    if any(token.type == "code_inline" for token in state.tokens[tokens_before:]):
        state.env["code"].append(Span(start, state.pos))
    return is_read


def _link(state: StateInline, silent: bool) -> bool:
    start = state.pos
    is_link = link(state, silent)
    if is_link and not silent:
        _add_target(state, start, is_image=False)
    return is_link


def _image(state: StateInline, silent: bool) -> bool:
    start = state.pos
    code_before = len(state.env["code"])
    targets_before = len(state.env["targets"])
    is_image = image(state, silent)
    if is_image and not silent:
        # The description is parsed as a text of its own, so the places in it are not places in this one.
        del state.env["code"][code_before:]
        del state.env["targets"][targets_before:]
        _add_target(state, start + 1, is_image=True)
    return is_image


def _add_target(state: StateInline, start: int, *, is_image: bool) -> None:
    """Add the target of what has just been parsed, unless it is that of a reference."""
    if state.src[state.pos - 1] == ")":
        end = parseLinkLabel(state, start, not is_image)
        state.env["targets"].append(_target(state.src, end + len("]("), state.pos))


def _target(text: str, start: int, end: int) -> Span:
    """Return where the target is that begins here, after spaces."""
    while text[start].isspace():
        start += 1
    line_end = _LINE_END.search(text, start, end)
    if line_end:
        end = line_end.start()
    destination = parseLinkDestination(text, start, end)
    if text[start] == "<":
        # Without the angle brackets.
        return Span(start + 1, destination.pos - 1)
    return Span(start, destination.pos)


with_absolute_links = absolute_links
