"""What the modules that clean a page ask of its tags."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bs4 import Tag

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Two words that are often written as one, such as "mainmenu".
_COMPOUND = re.compile(
    r"(left|right|main|top|side|site|page|sub|global|bottom)(nav|navi|navigation|menu|header|footer)"
)
# The words of a name such as "siteHeader", "site-header" or "site__header".
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_a-zA-Z]+")


def set_of(words: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(words.split())


def attribute(tag: Tag, name: str) -> str:
    """Return the value of an attribute; empty if there is none."""
    value = tag.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return " ".join(value)


def class_names(tag: Tag) -> list[str]:
    """Return the classes of a tag."""
    return attribute(tag, "class").split()


def words_of(name: str) -> list[str]:
    """Return the words of the name of a class or an id, in lower case."""
    words: list[str] = []
    for word in map(str.lower, _WORDS.findall(name)):
        compound = _COMPOUND.fullmatch(word)
        words += compound.groups() if compound else [word]
    return words


def length(tags: Iterable[Tag]) -> int:
    """Return the number of characters of the text, without white space: languages such as Thai write no spaces."""
    return sum(len(text) for tag in tags for string in tag.stripped_strings for text in string.split())


def outermost(tags: Iterable[Tag]) -> list[Tag]:
    """Return the tags that are in no other one of them, in their order."""
    found: list[Tag] = []
    known: set[int] = set()
    for tag in tags:
        if not any(id(parent) in known for parent in tag.parents):
            known.add(id(tag))
            found.append(tag)
    return found


def remove(tags: Iterable[Tag]) -> None:
    """Remove tags with all that they contain. Some may be in others."""
    for tag in tags:
        if not tag.decomposed:
            tag.decompose()
