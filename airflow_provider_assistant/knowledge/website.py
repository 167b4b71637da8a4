"""Rows of documents from the pages of a website, which a sitemap, a feed or a list names."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Literal
from urllib.parse import urljoin

import httpx

from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.knowledge import rows
from airflow_provider_assistant.knowledge.addresses import host_of, web_address
from airflow_provider_assistant.knowledge.fetch import LEAVE_OUT, Fetcher, File, Skipped, WebsiteTimeoutError
from airflow_provider_assistant.knowledge.markdown import with_absolute_links
from airflow_provider_assistant.knowledge.rows import DocumentRow, DocumentRows, Item, Unreadable, text_of
from airflow_provider_assistant.knowledge.sitemaps import iso_date, listed_pages
from airflow_provider_assistant.parsing.child import ChildParser, UnreadableFileError
from airflow_provider_assistant.parsing.html import check_selector
from airflow_provider_assistant.parsing.pages import Note, Page
from airflow_provider_assistant.texts import counted

HTML = frozenset({"text/html", "application/xhtml+xml"})
# Bytes of a page, and processor seconds to parse it. One of 100 kB takes a tenth of a second.
LARGEST_PAGE, PAGE_SECONDS = 5_000_000, 60.0
LIBRARIES = ("protego", "bs4", "lxml", "markdownify")
DOUBLE = "is the same page as another address"
UNCHANGED = "has not changed since changed_since"
# The last time zone on earth in which a day ends.
LAST_ZONE = timezone(timedelta(hours=-12))
_NOINDEX = re.compile(r"(?:^|,|robots\s*:|googlebot\s*:)\s*(?:noindex|none)\s*(?:,|$)", re.IGNORECASE)
# Not the rules that have a colon, too: max-snippet, max-image-preview, unavailable_after.
_OTHER_CRAWLER = re.compile(r"\s*(?!robots|googlebot|max-|unavailable_)[\w-]+\s*:", re.IGNORECASE)


def website_documents(
    source: str | Iterable[str],
    *,
    include: Callable[[str], bool] | None = None,
    include_noindex: bool = False,
    changed_since: str | date | None = None,
    languages: str | Collection[str] = (),
    select: str | Collection[str] = (),
    remove: str | Collection[str] | None = None,
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
    :param languages: Languages of the pages to read, such as ``en``, which includes ``en-GB``. A page that does not
        name its language is read. Default: all.
    :param select: Selectors of CSS for the content of a page, such as ``.article-body``. Default: none, the main part
        is found by its tags.
    :param remove: Selectors of CSS for parts of a page that are not content. Default: None, those of
        ``airflow_provider_assistant.parsing.html.DEFAULT_REMOVE``.
    :param hosts: Hosts besides those in ``source`` that pages, sitemaps and redirects may be on, such as
        ``www.example.com``. Default: none.
    :param on_error: What to do with a page that cannot be read, also after retries. ``skip``: return a row without
        key and content, which the load rejects, so that no document of the page looks stale. Default: ``fail``.
    :param strict: Whether pages that are left out and could hold content are an error, after the last document.
        Default: False, they are a warning.
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
    for library in LIBRARIES:
        if importlib.util.find_spec(library) is None:
            raise AssistantInputError(
                f"{library} is not installed", todo="Run pip install 'airflow-provider-assistant[website]'."
            )
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
        languages=frozenset(map(str.lower, _several(languages))),
        selectors=_checked_selectors(select=select, remove=remove),
        on_error=on_error,
        max_pages=max_pages,
        sample=sample,
    )
    listed = ((url, None) for url in starts)
    items = site.items(listed if not isinstance(source, str) else listed_pages(starts[0], fetcher))
    return rows.document_rows(_checked_items(items, starts[:1]), unit="page", todo="", on_error=on_error, strict=strict)


def _several(texts: str | Collection[str]) -> Collection[str]:
    return [texts] if isinstance(texts, str) else texts


def _checked_address(address: str) -> httpx.URL:
    url = web_address(address)
    if url is None:
        raise AssistantInputError(
            "an address of a website must begin with http:// or https://, must not contain a user name or a password, "
            "and must not be longer than 2,048 characters",
            field="source",
        )
    return url


def _checked_selectors(**given: str | Collection[str] | None) -> dict[str, str]:
    """Return the selectors that are given as options of the parser."""
    selectors = {name: ", ".join(_several(parts)) for name, parts in given.items() if parts is not None}
    for name, selector in selectors.items():
        check_selector(selector, name)
    return selectors


def _moment(given: str | date) -> datetime:
    try:
        moment = datetime.fromisoformat(str(given))
    except ValueError:
        raise AssistantInputError(
            f"changed_since must be a day or a time in ISO format, not {given!r}", field="changed_since"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _latest_moment(listed: str) -> datetime:
    """Return the latest moment that a day or a time in ISO format may mean, wherever it was written."""
    moment = datetime.fromisoformat(listed)
    if len(listed) == len("2026-11-22"):
        moment = moment.replace(hour=23, minute=59, second=59)
    return moment if moment.tzinfo else moment.replace(tzinfo=LAST_ZONE)


def _checked_items(items: Iterator[Item], starts: list[httpx.URL]) -> Iterator[Item]:
    """Yield the items, and raise an error if no page was read although all were to be read."""
    left_out: Counter[str] = Counter()
    is_read = False
    for item in items:
        if not isinstance(item, Note | Unreadable):
            is_read = True
        elif isinstance(item, Unreadable):
            left_out["cannot be read"] += 1
        elif item.unit == "page":
            left_out[item.reason] += 1
        yield item
    if not is_read and UNCHANGED not in left_out:
        reasons = "; ".join(f"{counted(number, 'page')} left out: {reason}" for reason, number in left_out.items())
        where = starts[0] if starts else "the source"
        raise AssistantInputError(f"{where} leads to no page that can be read. {reasons}", field="source")


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
    languages: frozenset[str]
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
            address, base = str(file.url), text_of(page.fields.get("base")) or ""
            yield from (replace(note, name=address) for note in page.notes)
            yield DocumentRow(
                key=address,
                parent=address,
                title=text_of(page.fields.get("title")),
                content=with_absolute_links(page.text, lambda target: _joined(_joined(address, base), target)),
                category=text_of(page.fields.get("category")),
                url=address,
                date=self.pages[url] or iso_date(text_of(page.fields.get("date")) or ""),
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
        said = {name: ", ".join(_several(value)) for name, value in page.fields.items()}
        robots = [said.get("robots", ""), *file.headers.get_list("x-robots-tag")]
        if not self.include_noindex and any(map(is_noindex, robots)):
            raise Skipped("asks not to be indexed", is_expected=True)
        if said.get("redirect"):
            raise Skipped("leads to another page", is_expected=True)
        if said.get("obstacle"):
            raise Skipped(said["obstacle"])
        if not page.text.strip():
            raise Skipped("has no main text")
        language = (said.get("language") or file.headers.get("content-language", "")).lower().replace("_", "-")
        if self.languages and language and self.languages.isdisjoint({language, language.partition("-")[0]}):
            raise Skipped("is in another language", is_expected=True)
        canonical = web_address(said.get("canonical", ""), file.url)
        content = hashlib.sha256(f"{said.get('title')} {page.text}".encode()).digest()
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


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:
        return target


def is_noindex(robots: str) -> bool:
    """
    Return whether search engines must not show a page.

    :param robots: Content of the meta tag ``robots``, or of one header ``X-Robots-Tag``. It may begin with the name of
        a crawler; the rules for others than Google's do not count.
    """
    return bool(_NOINDEX.search(robots)) and not _OTHER_CRAWLER.match(robots)
