"""
Edits of Markdown: comments, links, and the notes of Python-Markdown.

:func:`masked` is the only function that knows what code is. Each edit finds its places in the masked text, so that code
stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from markdown_it import MarkdownIt

from airflow_provider_assistant.parsing.pages import Note, notes_of

_LINE_END = re.compile(r"\r\n?|\n")
_NOT_LINE_END = re.compile(r"[^\r\n]")
# What may begin code in a line, and what takes precedence over it.
_INLINE = re.compile(r"\\.|<!--|`+", re.DOTALL)
_LONGEST_INLINE_CODE = 10_000
# A comment without an end begins a block: nothing but the marks of quotations is before it.
_OPEN_COMMENT = re.compile(r"^[ \t>]*<!--", re.MULTILINE)
# The target of a reference that nothing refers to, whose title is a comment, such as `[//]: # (a comment)`.
_COMMENT_TEXT = r"(?:.|\n(?![ \t>]*(?:\n|\[)))*?"
_COMMENT_TARGET = re.compile(
    rf"""^[ \t>]*(?P<comment>\[(?://|_?comment)[^\[\]\n]{{0,99}}\]:[ \t]*(?:\#|<\#?>)[ \t]*
    (?:\({_COMMENT_TEXT}\) | "{_COMMENT_TEXT}" | '{_COMMENT_TEXT}'))[ \t]*$""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
# The target of a link or an image, and that of a reference. Footnotes begin like references.
_TARGET = re.compile(
    r"""
    (?<!\\) \]\(\s* (?: <(?P<quoted>[^<>\n]*)> | (?P<plain>(?:[^\s()<>\\] | \\. | \([^\s()]*\))+) )
    (?= \s*\) | \s+["'(] )
    | ^[ \t>]* \[(?!\^)(?:[^\[\]\\]|\\.){1,999}\]: \s* <?(?P<reference>[^\s<>]+)>? (?= [ \t]*(?:$|["'(]) )
    """,
    re.MULTILINE | re.VERBOSE,
)
# A site generator replaces these before it reads the Markdown.
_TEMPLATES = ("{{", "{%")
# The title of a note or a tab of Python-Markdown, such as `!!! note "Title"` and `=== "Linux"`.
_NOTE = re.compile(
    r"^(?P<indent>[ \t]{0,40})(?:!!!|\?{3}\+?|={3}[+!]*) +(?P<kind>[\w-]{0,30})(?: [\w -]{0,60})?"
    r'(?:(?<= )"(?P<title>[^"\n]*)")?[ \t]*\n',
    re.MULTILINE,
)
_DEEPEST_NOTE = 5
_NOTE_MARKS = ("!!! ", "??? ", "???+ ", "===")


def masked(text: str, *, has_indented_code: bool = True) -> str:
    """
    Return a text of the same length, in which each character of code is NUL.

    Code is what CommonMark takes for it: between fences, indented, or between backticks. Line ends stay.

    :param has_indented_code: Whether indentation marks code. In MDX, it does not.
    """
    line_starts = [0, *(found.end() for found in _LINE_END.finditer(text)), len(text)]
    parts = []
    position = 0
    for token in _parser(has_indented_code).parse(text):
        if token.map is None:
            continue
        start, end = (line_starts[number] for number in token.map)
        spans: Iterable[tuple[int, int]] = ()
        if token.type in {"fence", "code_block"}:
            spans = [(start, end)]
        elif token.type == "inline":
            spans = _inline_code(text, start, end)
        for span_start, span_end in spans:
            parts.append(text[position:span_start])
            parts.append(_NOT_LINE_END.sub("\0", text[span_start:span_end]))
            position = span_end
    return "".join(parts) + text[position:]


@cache
def _parser(has_indented_code: bool) -> MarkdownIt:
    """Return a parser that only looks for blocks."""
    parser = MarkdownIt("commonmark").disable(["inline", "reference"])
    if not has_indented_code:
        parser.disable(["code", "html_block"])
    return parser


def _inline_code(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where code is in a paragraph or a heading."""
    position = start
    while mark := _INLINE.search(text, position, end):
        position = mark.end()
        if mark[0].startswith("\\"):
            continue
        is_comment = mark[0] == "<!--"
        closing = re.compile("-->" if is_comment else rf"(?<!`){mark[0]}(?!`)")
        if found := closing.search(text, position, min(end, position + _LONGEST_INLINE_CODE)):
            position = found.end()
            if not is_comment:
                yield mark.start(), position


def without_comments(text: str, opening: str = "<!--", closing: str = "-->", mask: str = "") -> tuple[str, list[Note]]:
    """
    Return a Markdown text without comments, and the count of their words. Those in code are text.

    A comment of HTML that begins a block and has no end hides the rest of the text, as in browsers.

    :param mask: What :func:`masked` returns. Default: the text is masked as Markdown.
    """
    if opening not in text:
        return text, []
    mask = mask or masked(text)
    kept = []
    notes = []
    position = 0
    while (start := mask.find(opening, position)) >= 0:
        end = mask.find(closing, start + len(opening) - 2)
        if text[start - 1 : start] == "\\":
            # It is escaped.
            start = end = start + len(opening)
        elif end >= 0:
            end += len(closing)
            notes += notes_of(text[start:end], "in a comment", is_expected=True)
        elif opening == "<!--" and (
            hidden := _OPEN_COMMENT.search(mask, max(position, mask.rfind("\n", 0, start) + 1))
        ):
            start, end = hidden.end() - len(opening), len(text)
            notes += notes_of(text[start:], "in a comment without an end", is_expected=False)
        else:
            break
        kept.append(text[position:start])
        position = end
    kept.append(text[position:])
    return "".join(kept), notes


def without_comment_targets(text: str) -> tuple[str, list[Note]]:
    """Return a Markdown text without comments such as ``[//]: # (a comment)``, and the count of their words."""
    if not _COMMENT_TARGET.search(text):
        return text, []
    kept = []
    notes = []
    position = 0
    for found in _COMMENT_TARGET.finditer(masked(text)):
        start, end = found.span("comment")
        kept.append(text[position:start])
        notes += notes_of(text[start:end], "in a comment", is_expected=True)
        position = end
    return "".join(kept) + text[position:], notes


def with_absolute_links(text: str, of_link: Callable[[str], str]) -> str:
    """
    Return a Markdown text with other targets of links, images and references.

    :param of_link: Function that returns the absolute address of a target.
    """
    if "](" not in text and "]:" not in text:
        return text
    mask = masked(text)
    parts = []
    position = 0
    for found in _TARGET.finditer(mask):
        start, end = found.span(found.lastgroup or 0)
        target = text[start:end]
        is_template = any(mark in target for mark in _TEMPLATES)
        if is_template or "\0" in found[0] or _is_escaped(mask, found.start()):
            continue
        parts.append(text[position:start])
        parts.append(of_link(target))
        position = end
    return "".join(parts) + text[position:]


def _is_escaped(text: str, position: int) -> bool:
    """Return whether the bracket that opens the text of a link, before a position, is escaped."""
    opening = text.rfind("[", max(0, position - 1000), position)
    return opening > 0 and text[opening - 1] == "\\" and text[opening - 2 : opening] != "\\\\"


def plain_notes(text: str) -> str:
    """
    Return a Markdown text in which the notes and tabs of Python-Markdown are paragraphs below a bold title.

    Their text is indented, so CommonMark takes it for code, or for a part of the title.
    """
    if not any(mark in text for mark in _NOTE_MARKS):
        return text
    # A note in a note is found after the outer one has lost its indentation.
    for _ in range(_DEEPEST_NOTE):
        before = text
        text = _without_outer_notes(text)
        if text == before:
            break
    return text


def _without_outer_notes(text: str) -> str:
    mask = masked(text, has_indented_code=False)
    parts = []
    position = 0
    for note in _NOTE.finditer(mask):
        if note.start() < position:
            continue
        indent = note["indent"]
        line = rf"{indent}(?: {{4}}|\t)"
        # At most two blank lines are above the text.
        content = re.compile(rf"(?:[ \t]*\n){{0,2}}(?:{line}.*(?:\n|\Z)(?:[ \t]*\n)*+)++").match(text, note.end())
        if not content:
            continue
        title = note["kind"].capitalize() if note["title"] is None else text[slice(*note.span("title"))]
        shown = f"{indent}**{title}**\n" if title else ""
        inner = re.sub(f"(?m)^{line}", indent, content[0])
        parts += [text[position : note.start()], f"\n{shown}\n{inner}\n"]
        position = content.end()
    return "".join(parts) + text[position:]
