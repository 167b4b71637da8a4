"""
What robots.txt allows, after RFC 9309.

``urllib.robotparser`` takes ``*`` and ``$`` in a rule literally, and so allows what the website forbids.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

# The name to which rules in robots.txt may refer.
NAME = "airflow-provider-assistant"
UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
ASCII = "".join(map(chr, range(33, 127)))
ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


class _Rule(NamedTuple):
    """A path, split at its wildcards."""

    length: int
    is_allowed: bool
    parts: tuple[str, ...]
    is_end: bool

    def matches(self, path: str) -> bool:
        """Not a regular expression: some patterns would take a very long time."""
        first, *others = self.parts
        if not path.startswith(first):
            return False
        at = len(first)
        last = others.pop() if self.is_end and others else None
        for part in others:
            found = path.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        if last is not None:
            return path.endswith(last) and len(path) - len(last) >= at
        return not self.is_end or at == len(path)


class Robots:
    """
    The rules of a robots.txt for this package.

    :param text: The file. Empty: everything is allowed.
    """

    def __init__(self, text: str = "") -> None:
        self._rules: list[_Rule] = []
        self.crawl_delay = 0.0
        """Seconds between requests; 0 if the file does not say."""
        groups = list(_groups(text))
        ours = [lines for names, lines in groups if any(_is_us(name) for name in names)]
        for lines in ours or [lines for names, lines in groups if "*" in names]:
            for field, value in lines:
                self._add(field, value)

    def _add(self, field: str, value: str) -> None:
        if field == "crawl-delay":
            try:
                seconds = float(value)
            except ValueError:
                return
            if math.isfinite(seconds):
                self.crawl_delay = max(self.crawl_delay, seconds)
        elif value:
            pattern = _normal(value)
            is_end = pattern.endswith("$")
            parts = tuple(pattern.removesuffix("$").split("*"))
            self._rules.append(_Rule(len(pattern), field == "allow", parts, is_end))

    def allows(self, path: str) -> bool:
        """
        Return whether a page may be read: the longest rule decides, and of equal ones the one that allows.

        :param path: Path and query of the page.
        """
        path = _normal(path)
        matching = [(rule.length, rule.is_allowed) for rule in self._rules if rule.matches(path)]
        return max(matching, default=(0, True))[1]


def _is_us(name: str) -> bool:
    found = re.match(r"[a-z_-]+", name)
    return found is not None and found[0] == NAME


def _groups(text: str) -> Iterator[tuple[set[str], list[tuple[str, str]]]]:
    """Return the names and the rules of each group."""
    names: set[str] = set()
    lines: list[tuple[str, str]] = []
    for line in text.removeprefix("\ufeff").splitlines():
        field, colon, value = line.partition("#")[0].partition(":")
        field, value = field.strip().lower(), value.strip()
        if colon and field == "user-agent":
            if lines:
                yield names, lines
                names, lines = set(), []
            names.add(value.lower())
        elif colon and field in {"allow", "disallow", "crawl-delay"} and names:
            lines.append((field, value))
    yield names, lines


def _normal(path: str) -> str:
    """Return a path in which the same character is always written the same way."""

    def normal(escape: re.Match[str]) -> str:
        char = chr(int(escape[1], 16))
        return char if char in UNRESERVED else escape[0].upper()

    return ESCAPE.sub(normal, quote(path, safe=ASCII))
