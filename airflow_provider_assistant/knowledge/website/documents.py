"""Rows of documents from the pages of a website, which a sitemap, a feed or a list names."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

import httpx
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.client.response_limits import BoundedBody
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.documents import DocumentRow, DocumentRows
from airflow_provider_assistant.knowledge.website.addresses import host_of, web_address
from airflow_provider_assistant.knowledge.website.cache import PageCache
from airflow_provider_assistant.knowledge.website.extraction import Extractor, PageText
from airflow_provider_assistant.knowledge.website.fetcher import Fetched, Fetcher, Skipped
from airflow_provider_assistant.knowledge.website.sitemaps import Listed, NotListing, iso_date, listing_of
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount

log = logging.getLogger(__name__)

HTML = frozenset({"text/html", "application/xhtml+xml"})
# Bytes of a page and, after the protocol of sitemaps, of a sitemap.
LARGEST_PAGE, LARGEST_SITEMAP = 5_000_000, 52_428_800
# The protocol allows one level of indexes, and websites have a few dozen sitemaps.
DEEPEST_INDEX, MOST_SITEMAPS = 3, 1000
# Entries of a sitemap, as the protocol allows.
MOST_ENTRIES = 50_000
GZIP = b"\x1f\x8b"
# Reasons for which the owner of the website or of the DAG wants a page left out.
EXPECTED = frozenset({"is not included", "is on another host", "leads to the same page as another address"})


def website_documents(
    source: str | Iterable[str],
    *,
    cache: str | Path | ObjectStoragePath | None = None,
    include: Callable[[str], bool] | None = None,
    hosts: Collection[str] = (),
    requests_per_second: float = 1.0,
    max_pages: int = 10_000,
    timeout: float = 21_600.0,
    private_networks: bool = False,
) -> DocumentRows:
    """
    Read the pages of a website, one after the other, and return their main text as Markdown.

    robots.txt is followed, also its ``Crawl-delay``. A page is skipped, and its reason logged, if it is gone (404 or
    410), is not HTML, has no main text, is on another host, or is not allowed by robots.txt. Every other failure ends
    the task after retries, because the documents of a missing page would look stale. Key and parent are the address
    after redirects; a page that several addresses lead to is one document. Needs the extra ``website``.

    :param source: Address of a sitemap, an index of sitemaps or a feed (RSS or Atom), or the addresses of the pages.
    :param cache: Parquet file, local path or object storage URL, that keeps the pages with an ETag or a time of
        modification. The next run transfers only pages that were modified since. It is replaced after the last page.
        Default: None, all pages are transferred.
    :param include: Function of an address that returns whether to read the page. Default: None, all.
    :param hosts: Hosts besides those in ``source`` that pages, sitemaps and redirects may be on, such as
        ``www.example.com``. Default: none.
    :param requests_per_second: Maximum number of requests per second. Default: 1.
    :param max_pages: Maximum number of pages. More are an error. Default: 10,000.
    :param timeout: Longest time for all pages, in seconds. Default: six hours.
    :param private_networks: Whether to connect to private, loopback and link-local IP addresses, and through the proxy
        of the environment variables. Default: False.
    :return: The documents. ``date`` is that of the sitemap or feed, otherwise that in the page.
    :raises AssistantInputError: An argument is invalid, the sitemap or feed cannot be read or has more addresses than
        ``max_pages``, there is no page, a page is larger than 5 MB or is refused by the website (4xx), a host has a
        private IP address, or the extra is not installed.
    :raises AssistantServerError: The website fails (5xx), also after retries.
    :raises AssistantRateLimitError: The website refuses more requests (429), also after retries.
    :raises AssistantConnectionError: There is no connection, also after retries.
    :raises AssistantTimeoutError: A page is not complete within a minute, also after retries, or ``timeout`` is over.
    :raises AssistantResponseError: A page cannot be decompressed, also after retries.
    :raises AssistantStorageError: The cache cannot be written.
    """
    extractor = Extractor()
    if not (requests_per_second > 0 and max_pages > 0 and timeout > 0):
        raise AssistantInputError(
            "requests_per_second, max_pages and timeout must be positive, not "
            f"{requests_per_second}, {max_pages} and {timeout}",
            field="requests_per_second",
        )
    if isinstance(source, str):
        is_list = False
        given = [source]
    else:
        is_list = True
        # One more than allowed shows that there are too many, even if the source never ends.
        given = list(itertools.islice(source, max_pages + 1))
    addresses = [_checked_address(address) for address in given]
    allowed_hosts = {host_of(address) for address in addresses}
    for host in hosts:
        allowed_hosts.add(host_of(_checked_address(f"https://{host}")))
    fetcher = Fetcher(
        allowed_hosts,
        requests_per_second=requests_per_second,
        timeout=timeout,
        private_networks=private_networks,
    )
    crawl = _Crawl(
        fetcher=fetcher,
        extractor=extractor,
        cache=PageCache(cache),
        include=include,
        max_pages=max_pages,
    )
    return AccountedRows(lambda account: crawl.rows(addresses, account, is_list=is_list))


def _checked_address(address: str) -> httpx.URL:
    url = web_address(address)
    if url is None:
        raise AssistantInputError(
            "an address of a website must begin with http:// or https://, must not contain a user name or a password, "
            "and must not be longer than 2,048 characters",
            field="source",
        )
    return url


class _Crawl:
    """One pass over the pages, and what was skipped."""

    def __init__(
        self,
        fetcher: Fetcher,
        extractor: Extractor,
        cache: PageCache,
        include: Callable[[str], bool] | None,
        max_pages: int,
    ) -> None:
        self._fetcher = fetcher
        self._extractor = extractor
        self._cache = cache
        self._include = include
        self._max_pages = max_pages
        self._account = SourceAccount()
        self._unmodified_pages = 0

    def rows(self, addresses: list[httpx.URL], account: SourceAccount, *, is_list: bool) -> Iterator[DocumentRow]:
        self._account = account
        count = 0
        with self._fetcher, self._extractor, self._cache:
            listed: Iterable[tuple[httpx.URL, str | None]] = [(url, None) for url in addresses]
            if not is_list:
                listed = self._listed(addresses[0])
            date_by_page = self._pages(listed)
            self._check_time(date_by_page)
            for row in self._documents(date_by_page):
                count += 1
                account.read("page")
                yield row
            if not count:
                left_out = "; ".join(map(str, account.left_out)) or "nothing was left out"
                raise AssistantInputError(
                    f"{addresses[0]} leads to no page that can be read, of {len(date_by_page)} addresses: {left_out}",
                    field="source",
                )
            self._cache.save()
        log.info("%d pages of %s, %d not modified.", count, addresses[0], self._unmodified_pages)

    def _skip(self, address: str, reason: str) -> None:
        self._account.leave_out("page", reason, address, is_expected=reason in EXPECTED)

    def _listed(self, url: httpx.URL) -> Iterator[tuple[httpx.URL, str | None]]:
        """Return the pages in a sitemap or a feed, and in the sitemaps that an index lists."""
        waiting = [(url, 0)]  # sitemaps to read, and how many indexes lead to them
        seen = {url}
        while waiting:
            sitemap, depth = waiting.pop(0)
            sitemap_url, is_index, entries = self._listing(sitemap)
            for entry in entries:
                address = web_address(entry.url, sitemap_url)
                if address is None:
                    self._skip(entry.url[:200], "has an invalid address")
                elif not is_index:
                    yield address, entry.date
                elif address not in seen:
                    seen.add(address)
                    waiting.append((address, depth + 1))
            is_too_deep = False
            if waiting:
                _, deepest = waiting[-1]  # the last one was found last
                is_too_deep = deepest > DEEPEST_INDEX
            if len(seen) > MOST_SITEMAPS or is_too_deep:
                raise AssistantInputError(
                    f"{url} leads to more than {MOST_SITEMAPS:,} sitemaps or {DEEPEST_INDEX} levels of them",
                    todo="Pass the address of one of them.",
                    field="source",
                )

    def _listing(self, url: httpx.URL) -> tuple[httpx.URL, bool, list[Listed]]:
        """Return the address after redirects, whether it is an index, and what it lists."""
        try:
            file = self._fetcher.fetch(url, LARGEST_SITEMAP)
            is_index, entries = listing_of(_decompressed(file), MOST_ENTRIES)
        except (Skipped, NotListing) as reason:
            raise AssistantInputError(
                f"{url} cannot be read as a sitemap or a feed: it {reason}",
                todo="Pass the address of a sitemap, an RSS or Atom feed, or a list of the pages' addresses.",
                field="source",
            ) from None
        return file.url, is_index, entries

    def _pages(self, listed: Iterable[tuple[httpx.URL, str | None]]) -> dict[httpx.URL, str | None]:
        """Return address and date of the pages to read. All are known before the first is read."""
        pages: dict[httpx.URL, str | None] = {}
        for url, date in listed:
            if host_of(url) not in self._fetcher.hosts:
                self._skip(str(url), "is on another host")
            elif self._include is not None and not self._include(str(url)):
                self._skip(str(url), "is not included")
            else:
                pages.setdefault(url, date)
            if len(pages) > self._max_pages:
                raise AssistantInputError(
                    f"the website has more than max_pages={self._max_pages:,} pages",
                    safe="Nothing was written, because the documents of the other pages would look stale.",
                    todo="Raise max_pages, or leave pages out with include=….",
                    field="max_pages",
                )
        return pages

    def _check_time(self, pages: Mapping[httpx.URL, str | None]) -> None:
        """Read robots.txt of all hosts, and refuse a task that would run for hours and then fail."""
        page_by_origin = {f"{url.scheme}://{host_of(url)}": url for url in pages}
        for url in page_by_origin.values():
            self._fetcher.robots(url)
        self._fetcher.check_time(len(pages))

    def _documents(self, pages: Mapping[httpx.URL, str | None]) -> Iterator[DocumentRow]:
        seen: set[httpx.URL] = set()
        for url, date in pages.items():
            try:
                page = self._fetcher.fetch(url, LARGEST_PAGE, HTML, self._cache.validators)
                text = self._text(page, seen)
            except Skipped as reason:
                self._skip(str(url), str(reason))
                continue
            key = str(page.url)
            yield DocumentRow(
                key=key,
                parent=key,
                title=text.title,
                content=text.content,
                category=text.category,
                url=key,
                date=date or iso_date(text.date or ""),
            )

    def _text(self, page: Fetched, seen: set[httpx.URL]) -> PageText:
        address = str(page.url)
        if page.url in seen:
            raise Skipped("leads to the same page as another address")
        seen.add(page.url)
        text: PageText | None
        if page.content is None:  # it has not been modified
            self._unmodified_pages += 1
            text = self._cache.text(address)
        else:
            content_type = page.headers.get("content-type", "")
            text = self._extractor.text(page.content, content_type, address)
        if text is None:
            raise Skipped("has no main text")
        self._cache.add(address, page.headers, text)
        return text


def _decompressed(file: Fetched) -> bytes:
    """Return a sitemap, which may be a gzip file."""
    content = file.content or b""
    if not content.startswith(GZIP):
        return content
    body = BoundedBody(LARGEST_SITEMAP, "gzip")
    body.feed(content)
    content = body.end()
    if body.defect:
        raise NotListing(f"cannot be decompressed, or is larger than {LARGEST_SITEMAP:,} bytes")
    return content
