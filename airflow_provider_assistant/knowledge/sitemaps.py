"""The pages of a website: those in a sitemap, an index of sitemaps or a feed, which robots.txt may name."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from xml.parsers import expat

import httpx

from airflow_provider_assistant.client.transport import BoundedBody
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.addresses import host_of, web_address
from airflow_provider_assistant.knowledge.fetch import Fetcher, Skipped
from airflow_provider_assistant.parsing.pages import Note

# Bytes and entries of a sitemap, after the protocol of sitemaps.
LARGEST_SITEMAP, MOST_ENTRIES = 52_428_800, 50_000
# Levels of indexes, and sitemaps below them. The protocol allows one level, and websites have a few dozen sitemaps.
DEEPEST_INDEX, MOST_SITEMAPS = 3, 1000
GZIP = b"\x1f\x8b"
# User name and password in an address.
_USER = re.compile(r"//[^/]*@")
# A feed has a handful of levels. Longer texts are not addresses or dates.
DEEPEST, LONGEST_TEXT = 100, 10_000
# The element of an entry by the root element, without namespaces.
ENTRY_BY_ROOT = {"urlset": "url", "sitemapindex": "sitemap", "rss": "item", "RDF": "item", "feed": "entry"}
# Elements of an entry with its date, the best first.
DATES = ("lastmod", "updated", "pubDate", "date")


@dataclass(slots=True)
class Listing:
    """
    What a sitemap, an index or a feed lists.

    :param is_index: Whether it lists sitemaps.
    :param dates: When each was changed, in ISO format, or None, by its address as written, in order.
    """

    is_index: bool = False
    dates: dict[str, str | None] = field(default_factory=dict)


def listed_pages(start: httpx.URL, fetcher: Fetcher) -> Iterator[tuple[httpx.URL, str | None] | Note]:
    """
    Yield address and date of the pages that a sitemap or a feed lists, or the sitemaps in an index.

    :param start: Address of a sitemap or a feed, or a page or robots.txt of a website, which lead to its sitemaps.
    :return: Pairs of address and date, and notes of addresses that are not valid.
    :raises AssistantInputError: There is no sitemap, one cannot be read, or there are too many.
    """
    url, listing = _found(start, fetcher)
    yield from _pages(url, listing, fetcher, seen={start, url}, depth=0)


def _found(start: httpx.URL, fetcher: Fetcher) -> tuple[httpx.URL, Listing]:
    """Return the sitemap or the feed, or an index of those that a page or robots.txt leads to."""
    reason = "is not one"
    if start.path != "/robots.txt":
        try:
            return _read(start, fetcher)
        except Skipped as error:
            reason = str(error)
    named = [text for text in fetcher.robots(start).sitemaps if web_address(text, start) != start]
    if named:
        return start, Listing(is_index=True, dates=dict.fromkeys(named))
    # Parts of a website often have sitemaps of their own.
    for address in dict.fromkeys((start.join("sitemap.xml"), start.join("/sitemap.xml"))):
        if address != start:
            with contextlib.suppress(Skipped):
                return _read(address, fetcher)
    raise _unreadable(start, f"{reason}, and robots.txt and /sitemap.xml do not lead to one either")


def _pages(
    url: httpx.URL, listing: Listing, fetcher: Fetcher, seen: set[httpx.URL], depth: int
) -> Iterator[tuple[httpx.URL, str | None] | Note]:
    for text, date in listing.dates.items():
        address = web_address(text, url)
        if address is None:
            shown = _USER.sub("//…@", text[:200])
            yield Note("page", "has an invalid address", is_expected=False, name=shown)
        elif not listing.is_index:
            yield address, date
        elif address not in seen:
            seen.add(address)
            if len(seen) > MOST_SITEMAPS or depth == DEEPEST_INDEX:
                raise AssistantInputError(
                    f"{url} leads to more than {MOST_SITEMAPS:,} sitemaps or {DEEPEST_INDEX} levels of them",
                    todo="Pass the address of one of them.",
                    field="source",
                )
            try:
                found_url, found = _read(address, fetcher)
            except Skipped as error:
                raise _unreadable(address, str(error)) from None
            yield from _pages(found_url, found, fetcher, seen, depth + 1)


def _read(url: httpx.URL, fetcher: Fetcher) -> tuple[httpx.URL, Listing]:
    if host_of(url) not in fetcher.hosts:
        raise Skipped(f"is on another host; if {host_of(url)} is the same website, pass it in hosts")
    file = fetcher.fetch(url, LARGEST_SITEMAP)
    content = file.content
    if content.startswith(GZIP):
        body = BoundedBody(LARGEST_SITEMAP, "gzip")
        body.feed(content)
        content = body.end()
        if body.defect:
            raise Skipped(f"cannot be decompressed, or is larger than {LARGEST_SITEMAP:,} bytes")
    return file.url, listing_of(content, MOST_ENTRIES)


def _unreadable(url: httpx.URL, reason: str) -> AssistantInputError:
    return AssistantInputError(
        f"{url} cannot be read as a sitemap or a feed: it {reason}",
        todo="Pass the address of a sitemap, an RSS or Atom feed, or a list of the pages' addresses.",
        field="source",
    )


def listing_of(content: bytes, limit: int) -> Listing:
    """
    Read a sitemap (XML, or a text with an address a line), an index of sitemaps, or a feed (RSS or Atom).

    Broken XML is refused, because the pages after the error would be missing.

    :param limit: Most addresses.
    :raises Skipped: The content is another kind of document, is not well-formed, or has more addresses.
    """
    reader = _Reader(limit)
    if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:4].lower() == b"http":
        for line in io.StringIO(content.decode("utf-8-sig", "replace")):
            reader.add({"loc": line.strip()})
        return reader.listing
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.data
    parser.EntityDeclHandler = reader.refuse_entity
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise Skipped(f"is not well-formed XML: {error}") from None
    except (LookupError, UnicodeError) as error:
        raise Skipped(f"has an unknown encoding: {error}") from None
    return reader.listing


class _Reader:
    """
    The handlers of the parser. Of what they have read, only addresses and dates are kept.

    :param limit: Most addresses.
    :ivar listing: What was found.
    """

    def __init__(self, limit: int) -> None:
        self.listing = Listing()
        self._limit = limit
        # Names of the elements that have begun and not ended, outermost first, without namespaces.
        self._path: list[str] = []
        # Texts of the current entry by the names of its elements.
        self._entry: dict[str, str] = {}
        self._text = ""

    def refuse_entity(self, *_: Any) -> None:
        raise Skipped("declares entities, which sitemaps and feeds do not need")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if not self._path and name not in ENTRY_BY_ROOT:
            raise Skipped(f"has the root element {name[:40]!r}, so it is neither a sitemap nor a feed")
        self._path.append(name)
        self._text = ""
        root = self._path[0]
        self.listing.is_index = root == "sitemapindex"
        if len(self._path) > DEEPEST:
            raise Skipped(f"has more than {DEEPEST} levels")
        # Atom has the address in an attribute, and links that do not lead to the page.
        is_page = attributes.get("rel", "alternate") == "alternate" and "href" in attributes
        if root == "feed" and self._path[-2:] == ["entry", "link"] and is_page:
            self._entry.setdefault("link", attributes["href"])

    def data(self, text: str) -> None:
        if len(self._text) < LONGEST_TEXT:
            self._text += text[:LONGEST_TEXT]

    def end(self, _tag: str) -> None:
        name = self._path.pop()
        text, self._text = self._text.strip(), ""
        if not self._path:
            return
        entry_name = ENTRY_BY_ROOT[self._path[0]]
        if name == entry_name:
            self.add(self._entry)
            self._entry = {}
        elif self._path[-1] == entry_name and text:
            self._entry.setdefault(name, text)

    def add(self, entry: dict[str, str]) -> None:
        url = entry.get("loc") or entry.get("link")
        dates = [iso_date(entry[name]) for name in DATES if name in entry]
        if url:
            self.listing.dates.setdefault(url, next(filter(None, dates), None))
        if len(self.listing.dates) > self._limit:
            raise Skipped(f"lists more than {self._limit:,} addresses")


def iso_date(text: str) -> str | None:
    """
    Return a date or a time in ISO format; None if it is not one.

    :param text: The date, as in sitemaps (ISO) or in RSS (as in mail).
    """
    with contextlib.suppress(ValueError):
        moment = datetime.fromisoformat(text)
        is_day = len(text) == len("2026-11-22")
        return moment.date().isoformat() if is_day else moment.isoformat()
    with contextlib.suppress(ValueError, TypeError, OverflowError, IndexError):
        return parsedate_to_datetime(text).isoformat()
    return None
