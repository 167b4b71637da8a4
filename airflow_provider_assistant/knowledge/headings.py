"""Sections of a Markdown text: what is below each heading."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt

from airflow_provider_assistant.knowledge.markdown import block_parser, line_starts


class Section(NamedTuple):
    """
    The text between two headings.

    :param headings: The headings above the text, the outermost first. Empty before the first heading.
    :param text: Without the headings.
    """

    headings: tuple[str, ...]
    text: str


class _Heading(NamedTuple):
    """A heading, and where its line starts and ends in the source."""

    level: int
    text: str
    start: int
    end: int


def sections_of(markdown: str) -> Iterator[Section]:
    """
    Split a Markdown text at its headings. A heading in a list or a quotation is text of its section.

    :return: The sections that have a text.
    """
    above: list[_Heading] = []
    start = 0
    for heading in _headings(markdown):
        yield from _section(above, markdown[start : heading.start])
        # A heading ends the sections of its own level and of deeper ones.
        above = [outer for outer in above if outer.level < heading.level]
        above.append(heading)
        start = heading.end
    yield from _section(above, markdown[start:])


def first_heading(markdown: str) -> str | None:
    """Return the first heading of a Markdown text, if nothing but blank lines is above it."""
    first_line = markdown.lstrip().partition("\n")[0]
    heading = next(_headings(first_line), None)
    if heading is None:
        return None
    return heading.text or None


def _section(above: list[_Heading], text: str) -> Iterator[Section]:
    text = text.strip()
    if text:
        headings = tuple(heading.text for heading in above if heading.text)
        yield Section(headings, text)


def _headings(markdown: str) -> Iterator[_Heading]:
    starts = line_starts(markdown)
    # The token after the one that opens a heading has its text.
    for token, next_token in pairwise(_parser().parse(markdown)):
        if token.type == "heading_open" and token.level == 0 and token.map:
            first_line, line_after = token.map
            yield _Heading(
                level=int(token.tag.removeprefix("h")),
                text=next_token.content,
                start=starts[first_line],
                end=starts[line_after],
            )


@cache
def _parser() -> MarkdownIt:
    """Return a parser for which headings that are underlined are text of their section."""
    return block_parser().disable(["lheading"])
