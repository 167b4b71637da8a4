"""The addresses in a sitemap or a feed."""

from __future__ import annotations

import contextlib
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from xml.parsers import expat

ATOM = "http://www.w3.org/2005/Atom"
SEPARATOR = " "
# A feed of pages has a handful of levels. Longer texts are not addresses or dates.
DEEPEST, LONGEST_TEXT = 100, 10_000
# Parent and name of the elements whose text is an address, by root. Names are without namespaces.
KINDS = {
    "urlset": ("url", "loc"),
    "sitemapindex": ("sitemap", "loc"),
    "rss": ("item", "link"),
    "RDF": ("item", "link"),
    "feed": ("entry", "link"),
}
DATES = ("lastmod", "updated", "pubDate", "date")


class Listed(NamedTuple):
    """
    A page or a sitemap that is listed.

    :param url: Its address, as written.
    :param date: When it was changed, in ISO format; None if unknown.
    """

    url: str
    date: str | None


class Listing(NamedTuple):
    """
    The content of a sitemap, an index of sitemaps, or a feed.

    :param is_index: Whether it lists sitemaps.
    :param entries: What it lists, in order.
    """

    is_index: bool
    entries: list[Listed]


class NotListing(ValueError):
    """The text is not a sitemap or a feed; the message is the predicate of a sentence."""


def listing_of(xml: bytes, limit: int) -> Listing:
    """
    Read a sitemap (``urlset``), an index of sitemaps, or a feed (RSS or Atom).

    Entities cannot be declared and nothing is loaded, so the memory is limited by the size of the text. Broken XML is
    refused, because the pages after the error would be missing.

    :raises NotListing: The text is not well-formed XML, is another kind of document, declares entities, or has more
        entries.
    """
    reader = _Reader(limit)
    try:
        reader.parser.Parse(xml, True)
    except expat.ExpatError as error:
        raise NotListing(f"is not well-formed XML: {error}") from None
    except (LookupError, UnicodeError) as error:
        raise NotListing(f"has an unknown encoding: {error}") from None
    return Listing(reader.root == "sitemapindex", reader.entries)


class _Reader:
    """The handlers of the parser, and what they have found."""

    def __init__(self, limit: int) -> None:
        self.parser = expat.ParserCreate(namespace_separator=SEPARATOR)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._entity
        self.root = ""
        self.entries: list[Listed] = []
        self._limit = limit
        self._path: list[str] = []
        self._url: str | None = None
        self._date: str | None = None
        self._pieces: list[str] = []

    def _entity(self, *_: Any) -> None:
        raise NotListing("declares entities, which sitemaps and feeds do not need")

    def _start(self, full: str, attributes: dict[str, str]) -> None:
        namespace, _, name = full.rpartition(SEPARATOR)
        if not self._path:
            if name not in KINDS:
                raise NotListing(f"has the root element {name[:40]!r}, so it is neither a sitemap nor a feed")
            self.root = name
        elif namespace == ATOM and self.root != "feed":
            name = "atom:" + name  # RSS has links of both
        self._path.append(name)
        if len(self._path) > DEEPEST:
            raise NotListing(f"has more than {DEEPEST} levels")
        self._pieces.clear()
        parent, link = KINDS[self.root]
        if name == parent:
            self._url = self._date = None
        elif self.root == "feed" and self._is_in_entry() and name == link:
            is_page = attributes.get("rel", "alternate") == "alternate"
            self._url = self._url or (attributes.get("href") if is_page else None)

    def _text(self, text: str) -> None:
        if sum(map(len, self._pieces)) < LONGEST_TEXT:
            self._pieces.append(text[:LONGEST_TEXT])

    def _end(self, _: str) -> None:
        name, text = self._path[-1], "".join(self._pieces).strip()
        self._pieces.clear()
        parent, link = KINDS[self.root]
        if self._is_in_entry():
            if name == link and self.root != "feed":
                self._url = self._url or text
            elif name in DATES:
                self._date = self._date or iso_date(text)
        elif name == parent and self._url:
            if len(self.entries) == self._limit:
                raise NotListing(f"lists more than {self._limit:,} addresses")
            self.entries.append(Listed(self._url, self._date))
            self._url = None
        self._path.pop()

    def _is_in_entry(self) -> bool:
        """Return whether the innermost element is a child of an entry, and not, for example, of a picture in it."""
        return self._path[-2:-1] == [KINDS[self.root][0]]


def iso_date(text: str) -> str | None:
    """
    Return a date or a time in ISO format; None if it is not one.

    :param text: The date, as in sitemaps (ISO) or in RSS (as in mail).
    """
    with contextlib.suppress(ValueError):
        found = datetime.fromisoformat(text)
        return text if len(text) == len("2026-11-22") else found.isoformat()
    with contextlib.suppress(ValueError, TypeError, OverflowError, IndexError):
        return parsedate_to_datetime(text).isoformat()
    return None
