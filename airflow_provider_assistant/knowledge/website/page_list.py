"""The pages of a website: those in a sitemap or a feed, which robots.txt may name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import httpx

from airflow_provider_assistant.client.transport import BoundedBody
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.website.addresses import host_of, web_address
from airflow_provider_assistant.knowledge.website.fetcher import Fetcher, Skipped
from airflow_provider_assistant.knowledge.website.sitemaps import Listing, NotListing, listing_of
from airflow_provider_assistant.source_account import SourceAccount

# Bytes, after the protocol of sitemaps.
LARGEST_SITEMAP = 52_428_800
# The protocol allows one level of indexes, and websites have a few dozen sitemaps.
DEEPEST_INDEX, MOST_SITEMAPS = 3, 1000
# Entries of a sitemap, as the protocol allows.
MOST_ENTRIES = 50_000
_GZIP = b"\x1f\x8b"
# User name and password.
_USER = re.compile(r"//[^/]*@")
_ROBOTS = "/robots.txt"


class _Found(NamedTuple):
    """A sitemap or a feed; ``url`` is its address after redirects, ``depth`` the number of indexes above it."""

    url: httpx.URL
    listing: Listing
    depth: int


class PageList:
    """
    Find the pages of a website.

    :param fetcher: Reads the files.
    :param account: Counts the addresses that are not valid.
    """

    def __init__(self, fetcher: Fetcher, account: SourceAccount) -> None:
        self._fetcher = fetcher
        self._account = account

    def pages(self, url: httpx.URL) -> Iterator[tuple[httpx.URL, str | None]]:
        """
        Return address and date of the pages that a sitemap or a feed lists, or the sitemaps in an index.

        :param url: Address of a sitemap or a feed, or a page or robots.txt of a website, which lead to its sitemaps.
        :raises AssistantInputError: There is no sitemap, one cannot be read, or there are too many.
        """
        waiting: list[_Found | tuple[httpx.URL, int]] = [*self._first(url)]
        seen = {url}
        seen.update(found.url for found in waiting if isinstance(found, _Found))
        while waiting:
            found = waiting.pop(0)
            if not isinstance(found, _Found):
                found = self._required(*found)
            for entry in found.listing.entries:
                address = web_address(entry.url, found.url)
                if address is None:
                    shown = _USER.sub("//…@", entry.url[:200])
                    self._account.leave_out("page", "has an invalid address", shown, is_expected=False)
                elif not found.listing.is_index:
                    yield address, entry.date
                elif address not in seen:
                    seen.add(address)
                    waiting.append((address, found.depth + 1))
            is_too_deep = found.depth == DEEPEST_INDEX and bool(waiting) and found.listing.is_index
            if len(seen) > MOST_SITEMAPS or is_too_deep:
                raise AssistantInputError(
                    f"{url} leads to more than {MOST_SITEMAPS:,} sitemaps or {DEEPEST_INDEX} levels of them",
                    todo="Pass the address of one of them.",
                    field="source",
                )

    def _first(self, url: httpx.URL) -> list[_Found]:
        """Return the sitemap or the feed, or those that a page or robots.txt leads to."""
        reason = f"{_ROBOTS} is not one"
        if url.path != _ROBOTS:
            try:
                return [self._read(url)]
            except (Skipped, NotListing) as error:
                reason = str(error)
        named = [web_address(address, url) for address in self._fetcher.robots(url).sitemaps]
        sitemaps = [address for address in named if address is not None and address != url]
        if sitemaps:
            return [self._required(address, 0) for address in sitemaps]
        # Parts of a website often have sitemaps of their own.
        for address in dict.fromkeys((url.join("sitemap.xml"), url.join("/sitemap.xml"))):
            if address != url:
                try:
                    return [self._read(address)]
                except (Skipped, NotListing):
                    continue
        raise _unreadable(url, f"{reason}, and robots.txt and /sitemap.xml do not lead to one either")

    def _required(self, url: httpx.URL, depth: int) -> _Found:
        try:
            return self._read(url, depth)
        except (Skipped, NotListing) as error:
            raise _unreadable(url, str(error)) from None

    def _read(self, url: httpx.URL, depth: int = 0) -> _Found:
        if host_of(url) not in self._fetcher.hosts:
            raise Skipped(f"is on another host; if {host_of(url)} is the same website, pass it in hosts")
        file = self._fetcher.fetch(url, LARGEST_SITEMAP)
        listing = listing_of(_decompressed(file.content or b""), MOST_ENTRIES)
        return _Found(file.url, listing, depth)


def _unreadable(url: httpx.URL, reason: str) -> AssistantInputError:
    return AssistantInputError(
        f"{url} cannot be read as a sitemap or a feed: it {reason}",
        todo="Pass the address of a sitemap, an RSS or Atom feed, or a list of the pages' addresses.",
        field="source",
    )


def _decompressed(content: bytes) -> bytes:
    """Return a sitemap, which may be a gzip file."""
    if not content.startswith(_GZIP):
        return content
    body = BoundedBody(LARGEST_SITEMAP, "gzip")
    body.feed(content)
    content = body.end()
    if body.defect:
        raise NotListing(f"cannot be decompressed, or is larger than {LARGEST_SITEMAP:,} bytes")
    return content
