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
# By root element: the element of an entry, and the one in it with the address. Names are without
# namespaces.
ENTRY_AND_LINK = {
    "urlset": ("url", "loc"),
    "sitemapindex": ("sitemap", "loc"),
    "rss": ("item", "link"),
    "RDF": ("item", "link"),
    "feed": ("entry", "link"),
}
DATE_ELEMENTS = ("lastmod", "updated", "pubDate", "date")


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
    Read a sitemap (``urlset``, or a text with an address a line), an index of sitemaps, or a feed (RSS or Atom).

    Entities cannot be declared and nothing is loaded, so the memory is limited by the size of the text. Broken XML is
    refused, because the pages after the error would be missing.

    :raises NotListing: The text is not well-formed XML, is another kind of document, declares entities, or has more
        entries.
    """
    if xml.lstrip(b"\xef\xbb\xbf \t\r\n")[:4].lower() == b"http":
        return _text_listing(xml, limit)
    reader = _Reader(limit)
    try:
        reader.parser.Parse(xml, True)
    except expat.ExpatError as error:
        raise NotListing(f"is not well-formed XML: {error}") from None
    except (LookupError, UnicodeError) as error:
        raise NotListing(f"has an unknown encoding: {error}") from None
    return Listing(is_index=reader.root == "sitemapindex", entries=reader.entries)


def _text_listing(text: bytes, limit: int) -> Listing:
    """Read a sitemap that is a text: one address a line."""
    lines = [line.strip() for line in text.decode("utf-8-sig", "replace").splitlines()]
    entries = [Listed(url=line, date=None) for line in lines if line]
    if len(entries) > limit:
        raise NotListing(f"lists more than {limit:,} addresses")
    return Listing(is_index=False, entries=entries)


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
        # The elements that have begun and not ended, outermost first.
        self._path: list[str] = []
        # Of the current entry.
        self._url: str | None = None
        self._date: str | None = None
        # Of the text of the current element.
        self._pieces: list[str] = []

    def _entity(self, *_: Any) -> None:
        raise NotListing("declares entities, which sitemaps and feeds do not need")

    def _start(self, full_name: str, attributes: dict[str, str]) -> None:
        namespace, _, name = full_name.rpartition(SEPARATOR)
        if not self._path:
            if name not in ENTRY_AND_LINK:
                raise NotListing(f"has the root element {name[:40]!r}, so it is neither a sitemap nor a feed")
            self.root = name
        elif namespace == ATOM and self.root != "feed":
            name = "atom:" + name  # an RSS feed may also have Atom's links, which are not pages
        self._path.append(name)
        if len(self._path) > DEEPEST:
            raise NotListing(f"has more than {DEEPEST} levels")
        self._pieces.clear()
        entry, link = ENTRY_AND_LINK[self.root]
        if name == entry:
            self._url = self._date = None
        elif self.root == "feed" and self._is_in_entry() and name == link:
            # Atom has the address in an attribute, and links that do not lead to the page.
            is_page = attributes.get("rel", "alternate") == "alternate"
            if is_page and not self._url:
                self._url = attributes.get("href")

    def _text(self, text: str) -> None:
        if sum(map(len, self._pieces)) < LONGEST_TEXT:
            self._pieces.append(text[:LONGEST_TEXT])

    def _end(self, _: str) -> None:
        name = self._path[-1]
        text = "".join(self._pieces).strip()
        self._pieces.clear()
        entry, link = ENTRY_AND_LINK[self.root]
        if self._is_in_entry():
            # The first address and the first valid date of an entry count.
            if name == link and self.root != "feed":
                self._url = self._url or text
            elif name in DATE_ELEMENTS:
                self._date = self._date or iso_date(text)
        elif name == entry and self._url:
            if len(self.entries) == self._limit:
                raise NotListing(f"lists more than {self._limit:,} addresses")
            self.entries.append(Listed(url=self._url, date=self._date))
            self._url = None
        self._path.pop()

    def _is_in_entry(self) -> bool:
        """Return whether the innermost element is a child of an entry, and not, for example, of a picture in it."""
        entry, _ = ENTRY_AND_LINK[self.root]
        return len(self._path) > 1 and self._path[-2] == entry


def iso_date(text: str) -> str | None:
    """
    Return a date or a time in ISO format; None if it is not one.

    :param text: The date, as in sitemaps (ISO) or in RSS (as in mail).
    """
    with contextlib.suppress(ValueError):
        moment = datetime.fromisoformat(text)
        has_time = len(text) != len("2026-11-22")
        if has_time:
            return moment.isoformat()
        return text
    with contextlib.suppress(ValueError, TypeError, OverflowError, IndexError):
        return parsedate_to_datetime(text).isoformat()
    return None
