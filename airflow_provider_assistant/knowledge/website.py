"""Rows of documents from the pages of a website, which a sitemap, a feed or a list names."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from typing import Literal

import httpx

from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.knowledge.addresses import host_of, joined, web_address
from airflow_provider_assistant.knowledge.fetch import LEAVE_OUT, Fetcher, File, Skipped, WebsiteTimeoutError
from airflow_provider_assistant.knowledge.front_matter import time_of, unpublished
from airflow_provider_assistant.knowledge.markdown import with_absolute_links
from airflow_provider_assistant.knowledge.rows import DocumentRow, DocumentRows, Item, Unreadable, document_rows
from airflow_provider_assistant.knowledge.sitemaps import iso_date, listed_pages
from airflow_provider_assistant.parsing.child import LIBRARIES, ChildParser, UnreadableFileError, check_installed
from airflow_provider_assistant.parsing.html import DEFAULT_REMOVE, check_selectors
from airflow_provider_assistant.parsing.pages import Note, Page
from airflow_provider_assistant.texts import counted, shortened

HTML = frozenset({"text/html", "application/xhtml+xml"})
# Bytes of a page, and processor seconds to parse it. One of 100 kB takes a tenth of a second.
LARGEST_PAGE, PAGE_SECONDS = 5_000_000, 60.0
DOUBLE = "is the same page as another address"
UNCHANGED = "has not changed since changed_since"
# The last time zone on earth in which a day ends.
LAST_ZONE = timezone(timedelta(hours=-12))
# A rule for another crawler. Some other rules have a colon, too: max-snippet, max-image-preview, unavailable_after.
_OTHER_CRAWLER = re.compile(r"\s*(?!robots|googlebot|max-|unavailable_)[\w-]+\s*:", re.IGNORECASE)


def website_documents(
    source: str | Iterable[str],
    *,
    include: Callable[[str], bool] | None = None,
    include_noindex: bool = False,
    changed_since: str | date | None = None,
    select: str = "",
    remove: str = DEFAULT_REMOVE,
    hosts: Collection[str] = (),
    on_error: Literal["fail", "skip"] = "fail",
    strict: bool = False,
    requests_per_second: float = 1.0,
    max_pages: int = 10_000,
    sample: int | None = None,
    timeout: float = 21_600.0,
    private_networks: bool = False,
) -> DocumentRows:
    """
    Read the pages of a website, one after the other, and return their main text as Markdown.

    robots.txt is followed, also its ``Crawl-delay``. A page is left out, and counted, if it is gone (404 or 410), is
    not HTML, is marked ``noindex``, has no text, asks to log in or for JavaScript, is on another host, is not allowed
    by robots.txt, has the same text as another page, or calls another listed page canonical. Every other failure ends
    the task after retries, because the documents of a missing page would look stale. Key and parent are the address
    after redirects. Needs the extra ``website``.

    :param source: Address of a sitemap, an index of sitemaps or a feed (RSS or Atom); of robots.txt or a page of a
        website whose sitemap is found; or the addresses of the pages.
    :param include: Function of an address that returns whether to read the page. Default: None, all.
    :param include_noindex: Whether to read pages that search engines must not show, such as those of an intranet.
        Default: False.
    :param changed_since: Day or time, in UTC unless it names another zone. Pages that did not change since, as the
        sitemap says, are left out; load the others with ``missing_in="groups"``. Default: None, all are read.
    :param select: See :func:`.file_documents`, as ``remove``, ``on_error`` and ``strict``.
    :param hosts: Hosts besides those in ``source`` that pages, sitemaps and redirects may be on, such as
        ``www.example.com``. Default: none.
    :param requests_per_second: Maximum number of requests per second. Default: 1.
    :param max_pages: Maximum number of pages. More are an error. Default: 10,000.
    :param sample: Number of pages to read, the first ones, for a look at a website. Default: None, all.
    :param timeout: Longest time for all pages, in seconds. Default: six hours.
    :param private_networks: Whether to connect to private, loopback and link-local IP addresses, and through the
        proxy of the environment variables. Default: False.
    :return: The documents. ``date`` is that of the sitemap or feed, otherwise that in the page. Their attribute
        ``account`` counts the pages that were read, and those that were left out by reason.
    :raises AssistantInputError: An argument is invalid, the sitemap or feed cannot be read or has more addresses than
        ``max_pages``, there is no page, a page is larger than 5 MB or is refused by the website (4xx), a host has a
        private IP address, or the extra is not installed.
    :raises AssistantError: A page cannot be read, also after retries, or ``timeout`` is over.
    """
    if min(requests_per_second, max_pages, timeout, sample or 1) <= 0:
        raise AssistantInputError(
            "requests_per_second, max_pages, timeout and sample must be positive, not "
            f"{requests_per_second}, {max_pages}, {timeout} and {sample}",
            field="requests_per_second",
        )
    check_installed(("protego", *LIBRARIES["html"]), "website")
    check_selectors(select=select, remove=remove)
    # One more than allowed shows that there are too many, even if the source never ends.
    given = [source] if isinstance(source, str) else itertools.islice(source, max_pages + 1)
    starts = list(map(_checked_address, given))
    site_hosts = [*starts, *(_checked_address(f"https://{host}") for host in hosts)]
    fetcher = Fetcher(
        set(map(host_of, site_hosts)),
        requests_per_second=requests_per_second,
        timeout=timeout,
        private_networks=private_networks,
    )
    site = _Site(
        fetcher=fetcher,
        include=include or (lambda _: True),
        include_noindex=include_noindex,
        changed_since=None if changed_since is None else _moment(changed_since),
        selectors={"select": select, "remove": remove},
        on_error=on_error,
        max_pages=max_pages,
        sample=sample,
    )
    listed = ((url, None) for url in starts)
    items = site.items(listed if not isinstance(source, str) else listed_pages(starts[0], fetcher))
    return document_rows(_checked_items(items, starts[:1]), unit="page", todo="", on_error=on_error, strict=strict)


def _checked_address(address: str) -> httpx.URL:
    url = web_address(address)
    if url is None:
        # A password would be before this sign.
        shown = "" if "@" in address else f" {shortened(address, 100)!r}"
        raise AssistantInputError(
            f"an address of a website{shown} must begin with http:// or https://, must not contain a user name or a "
            "password, and must not be longer than 2,048 characters",
            field="source",
        )
    return url


def _moment(given: str | date) -> datetime:
    moment = time_of(str(given))
    if moment is None:
        raise AssistantInputError(
            f"changed_since must be a day or a time in ISO format, not {given!r}", field="changed_since"
        )
    return moment


def _latest_moment(listed: str) -> datetime:
    """Return the latest moment that a day or a time in ISO format may mean, wherever it was written."""
    moment = datetime.fromisoformat(listed)
    if len(listed) == len("2026-11-22"):
        moment = moment.replace(hour=23, minute=59, second=59)
    return moment if moment.tzinfo else moment.replace(tzinfo=LAST_ZONE)


def _checked_items(items: Iterator[Item], starts: list[httpx.URL]) -> Iterator[Item]:
    """Yield the items, and raise an error if no page was read although all were to be read."""
    reasons: Counter[str] = Counter()
    is_read = False
    for item in items:
        if isinstance(item, Note):
            reasons[item.reason] += item.unit == "page"
        elif isinstance(item, Unreadable):
            reasons["cannot be read"] += 1
        else:
            is_read = True
        yield item
    if not is_read and UNCHANGED not in reasons:
        left_out = "; ".join(f"{counted(number, 'page')} left out: {reason}" for reason, number in (+reasons).items())
        where = starts[0] if starts else "the source"
        raise AssistantInputError(f"{where} leads to no page that can be read. {left_out}", field="source")


@dataclass
class _Site:
    """
    The pages of a website, each once.

    :param selectors: Options of the parser.
    :ivar pages: Date, if it is known, by the address of each page to read.
    """

    fetcher: Fetcher
    include: Callable[[str], bool]
    include_noindex: bool
    changed_since: datetime | None
    selectors: dict[str, str]
    on_error: str
    max_pages: int
    sample: int | None
    pages: dict[httpx.URL, str | None] = field(default_factory=dict)
    _read: set[httpx.URL] = field(default_factory=set)
    # Hashes of title and text of the pages that were read.
    _contents: set[bytes] = field(default_factory=set)
    # Pages that another page, which was left out, calls canonical.
    _needed: set[httpx.URL] = field(default_factory=set)

    def items(self, listed: Iterable[tuple[httpx.URL, str | None] | Note]) -> Iterator[Item]:
        """Yield the documents, and what is left out. All addresses are known before the first page is read."""
        for entry in listed:
            if isinstance(entry, Note):
                yield entry
                continue
            url, changed = entry
            reason = self._reason_left_out(url, changed)
            if reason:
                yield Note("page", reason, is_expected=True, name=str(url))
                continue
            self.pages.setdefault(url, changed)
            if len(self.pages) == self.sample:
                break
            if len(self.pages) > self.max_pages:
                raise AssistantInputError(
                    f"the website has more pages than max_pages={self.max_pages} allows",
                    safe="Nothing was written, because the documents of the other pages would look stale.",
                    todo="Raise max_pages, or leave pages out with include=….",
                    field="max_pages",
                )
        self.fetcher.check_time(self.pages)
        with ChildParser(seconds=PAGE_SECONDS) as parser:
            for url in self.pages:
                yield from self._page(url, parser)

    def _reason_left_out(self, url: httpx.URL, changed: str | None) -> str:
        if host_of(url) not in self.fetcher.hosts:
            return "is on another host"
        if not self.include(str(url)):
            return "is not included"
        if self.changed_since and changed and _latest_moment(changed) < self.changed_since:
            return UNCHANGED
        return ""

    def _page(self, url: httpx.URL, parser: ChildParser) -> Iterator[Item]:
        try:
            file = self.fetcher.fetch(url, LARGEST_PAGE, HTML)
            page = self._parsed(file, url, parser)
        except Skipped as reason:
            yield Note("page", str(reason), is_expected=reason.is_expected, name=str(url))
        except WebsiteTimeoutError:
            raise
        except AssistantError as error:
            if self.on_error != "skip":
                raise
            yield Unreadable(str(self.fetcher.address), error.happened)
        else:
            address = str(file.url)
            yield from (replace(note, name=address) for note in page.notes)
            yield DocumentRow(
                key=address,
                parent=address,
                title=page.field("title"),
                content=with_absolute_links(page.text, partial(joined, address)),
                category=page.field("category"),
                url=address,
                date=self.pages[url] or iso_date(page.field("date") or ""),
            )

    def _parsed(self, file: File, url: httpx.URL, parser: ChildParser) -> Page:
        """
        Return the content of a page.

        :raises Skipped: The page is not for readers, has no text, or is the same as another one.
        """
        if file.url in self._read:
            raise Skipped(DOUBLE, is_expected=True)
        self._read.add(file.url)
        try:
            page: Page = parser.parse(".html", file.content, encoding=file.encoding, **self.selectors)
        except UnreadableFileError as error:
            raise AssistantInputError(f"{file.url} {error}", todo=LEAVE_OUT, field="source") from None
        robots = [page.field("robots") or "", *file.headers.get_list("x-robots-tag")]
        if not self.include_noindex and is_noindex(robots):
            raise Skipped("asks not to be indexed", is_expected=True)
        if page.field("redirect"):
            raise Skipped("leads to another page", is_expected=True)
        if obstacle := page.field("obstacle"):
            raise Skipped(obstacle)
        if not page.text.strip():
            raise Skipped("has no main text")
        canonical = web_address(page.field("canonical") or "", file.url)
        content = hashlib.sha256(f"{page.field('title')} {page.text}".encode()).digest()
        if content in self._contents or self._has_canonical(canonical, {url, file.url}):
            raise Skipped(DOUBLE, is_expected=True)
        self._contents.add(content)
        return page

    def _has_canonical(self, canonical: httpx.URL | None, addresses: set[httpx.URL]) -> bool:
        """Return whether a page calls another listed page canonical, which is then read whatever it calls so itself."""
        # Some websites call their home page canonical on every page.
        is_other = canonical in self.pages and canonical not in addresses and canonical.path != "/"
        if is_other and canonical and self._needed.isdisjoint(addresses):
            self._needed.add(canonical)
            return True
        return False


def is_noindex(robots: Iterable[str]) -> bool:
    """
    Return whether search engines must not show a page.

    :param robots: Contents of the meta tag ``robots`` and of headers ``X-Robots-Tag``. One may begin with the name of a
        crawler; the rules for others than Google's do not count.
    """
    rules = [rule for rule in robots if not _OTHER_CRAWLER.match(rule)]
    return bool(unpublished({"robots": rules}, datetime.now(UTC)))
