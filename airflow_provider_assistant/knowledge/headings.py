"""Sections of a Markdown text: what is below each heading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# The patterns begin with a line break instead of ^, because Python searches for a character much faster. Headings that
# are underlined with = or - count as text of their section.
HEADING = re.compile(r"\n {0,3}(#{1,6})(?:[ \t]+(.*))?$", re.MULTILINE)
# A line that begins or ends a block of code, in which a line with # is a comment.
FENCE = re.compile(r"\n {0,3}(`{3,}|~{3,})(.*)")


class Section(NamedTuple):
    """
    The text between two headings.

    :param headings: The headings above the text, the outermost first. Empty before the first heading.
    :param text: The text, without the headings.
    """

    headings: tuple[str, ...]
    text: str


def sections_of(markdown: str) -> Iterator[Section]:
    """
    Split a Markdown text at its headings.

    :param markdown: The text.
    :return: The sections that have a text.
    """
    markdown = f"\n{markdown}"
    headings: list[tuple[int, str]] = []
    start = 0
    for first, last in outside_code(markdown):
        for line in HEADING.finditer(markdown, first, last):
            yield from _section(headings, markdown[start : line.start()])
            level = len(line[1])
            headings = [outer for outer in headings if outer[0] < level]
            headings.append((level, heading_text(line[2] or "")))
            start = line.end()
    yield from _section(headings, markdown[start:])


def outside_code(markdown: str) -> Iterator[tuple[int, int]]:
    """
    Find the parts of a Markdown text that are not in fenced blocks of code.

    :param markdown: The text, after a line break.
    :return: Start and end of each part.
    """
    start, fence = 0, ""
    for line in FENCE.finditer(markdown):
        if not fence:
            yield start, line.start()
            fence = line[1]
        elif line[1].startswith(fence) and not line[2].strip():
            start, fence = line.end(), ""
    if not fence:
        yield start, len(markdown)


def heading_text(text: str) -> str:
    """
    Return the text of a heading without a closing sequence of ``#``.

    :param text: What follows the opening sequence on the line.
    :return: The text; may be empty.
    """
    text = text.strip()
    opened = text.rstrip("#")
    return opened.rstrip() if opened[-1:] in {"", " ", "\t"} else text


def _section(headings: list[tuple[int, str]], text: str) -> Iterator[Section]:
    if text.strip():
        yield Section(tuple(heading for _, heading in headings if heading), text.strip())
