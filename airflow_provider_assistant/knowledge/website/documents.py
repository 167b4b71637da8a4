"""Rows of documents from the pages of a website, which a sitemap, a feed or a list names."""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import httpx
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.knowledge.documents import DocumentRow, DocumentRows, check_on_error
from airflow_provider_assistant.knowledge.website.addresses import host_of, spelling, web_address
from airflow_provider_assistant.knowledge.website.cache import PageCache
from airflow_provider_assistant.knowledge.website.extraction import Extractor, PageText
from airflow_provider_assistant.knowledge.website.fetcher import (
    Fetched,
    Fetcher,
    Skipped,
    WebsiteTimeoutError,
)
from airflow_provider_assistant.knowledge.website.page_list import PageList
from airflow_provider_assistant.knowledge.website.sitemaps import iso_date
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

HTML = frozenset({"text/html", "application/xhtml+xml"})
# Bytes of a page.
LARGEST_PAGE = 5_000_000
DOUBLE = "leads to the same page as another address"


def website_documents(
    source: str | Iterable[str],
    *,
    cache: str | Path | ObjectStoragePath | None = None,
    include: Callable[[str], bool] | None = None,
    include_noindex: bool = False,
    languages: Collection[str] = (),
    select: str | Collection[str] = (),
    remove: str | Collection[str] = (),
    hosts: Collection[str] = (),
    on_error: Literal["fail", "skip"] = "fail",
    strict: bool = False,
    requests_per_second: float = 1.0,
    max_pages: int = 10_000,
    timeout: float = 21_600.0,
    private_networks: bool = False,
) -> DocumentRows:
    """
    Read the pages of a website, one after the other, and return their main text as Markdown.

    robots.txt is followed, also its ``Crawl-delay``. A page is left out, and counted, if it is gone (404 or 410), is
    not HTML, is marked ``noindex``, has no text, asks to log in or for JavaScript, is on another host, or is not
    allowed by robots.txt. Every other failure ends the task after retries, because the documents of a missing page
    would look stale. Key and parent are the address after redirects, or the canonical one if only its spelling
    differs; a page that several addresses lead to is one document. Needs the extra ``website``.

    :param source: Address of a sitemap, an index of sitemaps or a feed (RSS or Atom); of robots.txt or a page of a
        website whose sitemap is found; or the addresses of the pages.
    :param cache: Parquet file, local path or object storage URL, that keeps the pages with an ETag or a time of
        modification. The next run transfers only pages that were modified since. It is replaced after the last page.
        Default: None, all pages are transferred.
    :param include: Function of an address that returns whether to read the page. Default: None, all.
    :param include_noindex: Whether to read pages that search engines must not show, such as those of an intranet.
        Default: False.
    :param languages: Languages of the pages to read, such as ``en``, which includes ``en-GB``. A page that does not
        name its language is read. Default: all.
    :param select: Selectors of CSS for the content of a page, such as ``.article-body``. Default: none, the main part
        is found by its tags.
    :param remove: Selectors of CSS for parts of a page that are not content. Default: none.
    :param hosts: Hosts besides those in ``source`` that pages, sitemaps and redirects may be on, such as
        ``www.example.com``. Default: none.
    :param on_error: What to do with a page that cannot be read, also after retries. ``skip``: return a row without
        key and content, which the load rejects, so that no document of the page looks stale. Default: ``fail``.
    :param strict: Whether pages that are left out and could hold content are an error, after the last document.
        Default: False, they are a warning.
    :param requests_per_second: Maximum number of requests per second. Default: 1.
    :param max_pages: Maximum number of pages. More are an error. Default: 10,000.
    :param timeout: Longest time for all pages, in seconds. Default: six hours.
    :param private_networks: Whether to connect to private, loopback and link-local IP addresses, and through the
        proxy of the environment variables. Default: False.
    :return: The documents. ``date`` is that of the sitemap or feed, otherwise that in the page. Their attribute
        ``account`` counts the pages that were read, and those that were left out by reason.
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
    extractor = Extractor(select=_selector(select), remove=_selector(remove), include_noindex=include_noindex)
    if not (requests_per_second > 0 and max_pages > 0 and timeout > 0):
        raise AssistantInputError(
            "requests_per_second, max_pages and timeout must be positive, not "
            f"{requests_per_second}, {max_pages} and {timeout}",
            field="requests_per_second",
        )
    check_on_error(on_error)
    if isinstance(languages, str):
        languages = (languages,)
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

    def rows(account: SourceAccount) -> Iterator[DocumentRow]:
        page_cache = PageCache(cache, extractor.version)
        with fetcher, extractor, page_cache:
            listed: Iterable[tuple[httpx.URL, str | None]] = [(url, None) for url in addresses]
            if not is_list:
                listed = PageList(fetcher, account).pages(addresses[0])
            pages = _chosen(listed, fetcher.hosts, include, max_pages, account)
            _check_time(pages, fetcher)
            reader = _Reader(
                fetcher=fetcher,
                extractor=extractor,
                cache=page_cache,
                account=account,
                pages=pages,
                languages=frozenset(map(str.lower, languages)),
                skips_errors=on_error == "skip",
            )
            for url in pages:
                yield from reader.rows(url)
            if not reader.count:
                left_out = "; ".join(map(str, account.left_out)) or "nothing was left out"
                raise AssistantInputError(
                    f"{addresses[0]} leads to no page that can be read, of {len(pages)} addresses: {left_out}",
                    field="source",
                )
            page_cache.save()
        log.info("%s of %s, %d not modified.", counted(reader.count, "page"), addresses[0], reader.unmodified)

    return AccountedRows(rows, strict=strict)


def _selector(selectors: str | Collection[str]) -> str:
    if isinstance(selectors, str):
        return selectors
    return ", ".join(selectors)


def _checked_address(address: str) -> httpx.URL:
    url = web_address(address)
    if url is None:
        raise AssistantInputError(
            "an address of a website must begin with http:// or https://, must not contain a user name or a password, "
            "and must not be longer than 2,048 characters",
            field="source",
        )
    return url


def _chosen(
    listed: Iterable[tuple[httpx.URL, str | None]],
    hosts: Collection[str],
    include: Callable[[str], bool] | None,
    max_pages: int,
    account: SourceAccount,
) -> dict[httpx.URL, str | None]:
    """Return address and date of the pages to read. All are known before the first is read."""
    pages: dict[httpx.URL, str | None] = {}
    for url, date in listed:
        if host_of(url) not in hosts:
            account.leave_out("page", "is on another host", str(url), is_expected=True)
        elif include is not None and not include(str(url)):
            account.leave_out("page", "is not included", str(url), is_expected=True)
        else:
            pages.setdefault(url, date)
        if len(pages) > max_pages:
            raise AssistantInputError(
                f"the website has more pages than max_pages={max_pages} allows",
                safe="Nothing was written, because the documents of the other pages would look stale.",
                todo="Raise max_pages, or leave pages out with include=….",
                field="max_pages",
            )
    return pages


def _check_time(pages: Mapping[httpx.URL, str | None], fetcher: Fetcher) -> None:
    """Read robots.txt of all hosts, and refuse a task that would run for hours and then fail."""
    page_by_origin = {f"{url.scheme}://{host_of(url)}": url for url in pages}
    for url in page_by_origin.values():
        fetcher.robots(url)
    fetcher.check_time(len(pages))


@dataclass
class _Reader:
    """
    Reads the pages, each once.

    :param pages: Address and date of all pages.
    :param languages: In lower case. Empty for all.
    :ivar count: Number of pages that were read.
    :ivar unmodified: Number of pages that have not been modified.
    """

    fetcher: Fetcher
    extractor: Extractor
    cache: PageCache
    account: SourceAccount
    pages: Mapping[httpx.URL, str | None]
    languages: frozenset[str]
    skips_errors: bool
    count: int = 0
    unmodified: int = 0
    _begun: set[httpx.URL] = field(default_factory=set)
    _seen: set[httpx.URL] = field(default_factory=set)
    # The hash of the text of each page that has a row, by the spelling of its address.
    _hashes: dict[str, bytes] = field(default_factory=dict)
    _keys: set[httpx.URL] = field(default_factory=set)

    def rows(self, url: httpx.URL, *, follow: bool = True) -> Iterator[DocumentRow]:
        """
        Return the row of a page, if it was not returned before, and of the one that it calls canonical.

        :param follow: Whether to read the canonical page first.
        """
        if url in self._begun:
            return
        self._begun.add(url)
        try:
            page_url, text = self._text(url)
            canonical = web_address(text.canonical, page_url) if text.canonical else None
            if follow and canonical is not None and canonical in self.pages:
                yield from self.rows(canonical, follow=False)
            key = str(self._key(page_url, canonical, text))
        except Skipped as reason:
            self.account.leave_out("page", str(reason), str(url), is_expected=reason.is_expected)
        except WebsiteTimeoutError:
            raise
        except AssistantError as error:
            if not self.skips_errors:
                raise
            log.warning("%s", error.happened)
            address, _, problem = error.happened.partition(" ")
            if address != str(url):
                problem = "cannot be read"
            self.account.leave_out("page", problem, str(url), is_expected=False)
            yield _row(None, str(url), PageText(None, ""), None)
        else:
            self.count += 1
            self.account.read("page")
            yield _row(key, key, text, self.pages[url])

    def _text(self, url: httpx.URL) -> tuple[httpx.URL, PageText]:
        """Return address and text of a page, unless another address has led to it."""
        page = self.fetcher.fetch(url, LARGEST_PAGE, HTML, self.cache.validators)
        if page.url in self._seen:
            raise Skipped(DOUBLE, is_expected=True)
        self._seen.add(page.url)
        self.extractor.check_robots("\n".join(page.headers.get_list("x-robots-tag")))
        text = self._cached(page) if page.content is None else self._extracted(page, page.content)
        language = (text.language or "").lower().replace("_", "-")
        if self.languages and language and self.languages.isdisjoint((language, language.partition("-")[0])):
            raise Skipped("is in another language", is_expected=True)
        return page.url, text

    def _cached(self, page: Fetched) -> PageText:
        """Return the text of a page that has not been modified."""
        self.unmodified += 1
        address = str(page.url)
        text = self.cache.text(address)
        self.cache.add(address, page.headers, text)
        return text

    def _extracted(self, page: Fetched, content: bytes) -> PageText:
        address = str(page.url)
        text = self.extractor.text(content, page.headers.get("content-type", ""), address)
        if not text.language:
            text = text._replace(language=page.headers.get("content-language"))
        self.cache.add(address, page.headers, text)
        return text

    def _key(self, address: httpx.URL, canonical: httpx.URL | None, text: PageText) -> httpx.URL:
        """
        Return the address that identifies a page.

        The canonical address counts if only its spelling differs. Another page is canonical only if its text is the
        same: some websites call their home page canonical on every page.
        """
        key = address
        text_hash = hashlib.sha256(text.content.encode()).digest()
        if canonical is not None and host_of(canonical) in self.fetcher.hosts:
            if spelling(canonical) == spelling(address):
                key = canonical
            elif self._hashes.get(spelling(canonical)) == text_hash:
                raise Skipped(DOUBLE, is_expected=True)
        if key in self._keys or self._hashes.get(spelling(address)) == text_hash:
            raise Skipped(DOUBLE, is_expected=True)
        self._keys.add(key)
        self._hashes.setdefault(spelling(address), text_hash)
        return key


def _row(key: str | None, parent: str, text: PageText, date: str | None) -> DocumentRow:
    return DocumentRow(
        key=key,
        parent=parent,
        title=text.title,
        content=text.content,
        category=text.category,
        url=parent,
        date=date or iso_date(text.date or ""),
    )
