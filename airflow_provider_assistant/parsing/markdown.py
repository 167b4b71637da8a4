"""Plain text as Markdown."""

from __future__ import annotations

import re

# A tag, a comment or an entity.
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")
# The start of a line that begins a heading, a block of code or the definition of a link.
_BLOCK_START = re.compile(r"^( {0,3})(?=#{1,6}(?:[ \t]|$)|`{3}|~{3}|\[[^\]\n]{1,999}\]:)", re.MULTILINE)
# A line of these below another one makes it a heading.
_UNDERLINE = re.compile(r"^(?=[ \t]*(?:-+|=+)[ \t]*$)", re.MULTILINE)
# What cannot be part of the target of a link.
_QUOTED = str.maketrans({" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E", "\n": None, "\t": None})


def escaped(text: str) -> str:
    """Return plain text as Markdown that shows the same text."""
    text = _MARKUP.sub(r"\\\g<0>", text)
    text = _BLOCK_START.sub(r"\1\\", text)
    return _UNDERLINE.sub(r"\\", text)


def link(text: str, address: str) -> str:
    """
    Return a link.

    :param text: Markdown.
    """
    return f"[{text}]({address.strip().translate(_QUOTED)})"


def heading(text: str, level: int) -> str:
    """
    Return a heading.

    :param text: Plain text; may be empty.
    :param level: More than 6 is 6.
    """
    marks = "#" * min(level, 6)
    words = " ".join(text.split())
    return f"{marks} {escaped(words)}".rstrip()
