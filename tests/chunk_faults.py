"""Faults of the chunks of a page that :mod:`tests.markdown_pages` has generated."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_WORD = re.compile(r"u\d+u")
_TABLE = re.compile(r"(?:^ *\|.*\| *$\n?)+", re.MULTILINE)
_FENCE = re.compile(r"^ *(?:```|~~~)[^`\n]*$", re.MULTILINE)
# Rules, targets of links, attributes, images without description, linked images and tags are not prose.
_MARKUP = re.compile(
    r"^\[\w+\]: \S+$|^\{: .a\}$|^\(a\)=$|\[!\[[^\]]*\]\([^)]*\)\]\([^)]*\)|!\[\]\([^)]*\)|\]\([^)]*\)|<[^<>]*>",
    re.MULTILINE,
)


def faults(text: str, chunks: list[tuple[str, str]], size: int) -> Counter[str]:
    """
    Count what is wrong with the chunks of a page.

    :param chunks: Text of each, and the headings that are kept with it.
    """
    found: Counter[str] = Counter(chunks=len(chunks))
    kept: set[str] = set()
    for content, headings in chunks:
        kept.update(_WORD.findall(content), _WORD.findall(headings))
        found["too long"] += len(content) > size
        found["odd fences"] += len(_FENCE.findall(content)) % 2
        found["headless tables"] += any(not _has_header(table) for table in _TABLE.findall(content))
        found["without prose"] += not any(map(_is_read, _FENCE.sub("", _MARKUP.sub("", content))))
    words = set(_WORD.findall(text))
    found["words"] += len(words)
    found["lost words"] += len(words - kept)
    return found


def _is_read(char: str) -> bool:
    """Return whether a character is a letter, a digit or a sign, such as a thumb."""
    return char.isalnum() or unicodedata.category(char) == "So"


def _has_header(table: str) -> bool:
    lines = table.splitlines()
    return len(lines) > 1 and re.fullmatch(r"[\s|:-]+", lines[1]) is not None
