"""Headings of a Markdown text, as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from airflow_provider_assistant.texts import has_words

# A longer one is a paragraph that somebody marked as a heading. A title that long would be of no use.
LONGEST_HEADING = 200

# What several site generators put behind a heading: {#id}, { .class }, {: #id key="value" }, {-}, {/* #id */},
# and what a template puts there: {% include version.html %}.
# Atomic groups, here and where it is repeated: with others, a text of many of them could take exponential time.
ATTRIBUTES = r"""
    \{(?>
        \s*(?>[#.][^\s{}]+ | [\w-]+=(?>"[^"{}]*"|'[^'{}]*') | -)[^{}]*
        | :[^{}]*
        | \s+(?>[\w-]+=[^\s{}]+ | data-[\w-]+)[^{}]*
        | /\*[^{}]*\*/
        | %[^{}%]*%
    )\}
"""
_ATTRIBUTES = re.compile(ATTRIBUTES, re.VERBOSE)
# A heading of these characters only is plain text already.
_PLAIN = re.compile(r"[\w ,.?'()/-]*", re.ASCII)
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]")
# A link whose target is elsewhere, such as that of another page.
_UNKNOWN_REFERENCE = re.compile(r"(?<!\w)\[([^\[\]]+)\]\[[^\[\]]*\]")
# Characters without width that a page puts into a heading as a mark or a place to break the line.
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
# The sign of a link to the heading itself, at its end.
_ANCHOR_MARK = re.compile(r"\s*[¶§🔗]+\ufe0f?$")


def plain_text(heading: str, env: MutableMapping[str, Any] | None = None) -> str:
    """
    Return the text of a heading as people read it: without links, emphasis, tags, attributes and anchor marks.

    :param heading: The heading without its own marks, as Markdown.
    :param env: What the parser found in the text of the heading: the targets of references.
    """
    if _PLAIN.fullmatch(heading) and "_" not in heading:
        return " ".join(heading.split())
    inline = _parser().parseInline(heading, {} if env is None else env)[0]
    text = _text_of(inline.children or [], with_images=False)
    if not has_words(text):
        # A heading that is only an image, such as a logo.
        text = _text_of(inline.children or [], with_images=True)
    text = _INVISIBLE.sub("", text)
    return " ".join(_ANCHOR_MARK.sub("", text).split())


def first_heading(markdown: str) -> str | None:
    """Return the first heading of a Markdown text, if nothing but blank lines is above it."""
    lines = markdown.lstrip("\ufeff").splitlines()
    while lines and not lines[0].strip():
        lines.pop(0)
    # A heading has one line, or a second one that underlines it.
    tokens = _parser().parse("\n".join(lines[:2]))
    if not tokens or tokens[0].type != "heading_open":
        return None
    text = plain_text(tokens[1].content)
    if len(text) > LONGEST_HEADING:
        return None
    return text or None


def _text_of(tokens: Iterable[Token], *, with_images: bool) -> str:
    texts: list[str] = []
    link = ""
    # The texts before the link that is open.
    before = 0
    for token in tokens:
        if token.type == "link_open":
            link = str(token.attrs.get("href", ""))
            before = len(texts)
        elif token.type == "link_close":
            if link.startswith("#") and not has_words("".join(texts[before:])):
                # The mark with which a site links its headings.
                del texts[before:]
        elif token.type in {"softbreak", "hardbreak"}:
            texts.append(" ")
        elif token.type == "image":
            if with_images:
                texts.append(_text_of(token.children or [], with_images=True))
        elif token.type == "text":
            text = _FOOTNOTE.sub("", _ATTRIBUTES.sub("", token.content))
            texts.append(_UNKNOWN_REFERENCE.sub(r"\1", text))
        elif token.type != "html_inline":
            texts.append(token.content)
    return "".join(texts)


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("strikethrough")
