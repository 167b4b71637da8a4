"""HTML files as Markdown."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.parsing.charsets import decode, named_charset
from airflow_provider_assistant.parsing.limits import UnreadableFileError

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

# What browsers take if a page does not name its charset.
DEFAULT_CHARSET = "windows-1252"
# Whom the meta tags speak to that say what search engines may show.
_ROBOTS = ("robots", "googlebot")
# Characters without white space: a page with more text has content.
_LONGEST_NOTICE = 300
# After at most five seconds. A page that is shown longer may be loaded again.
_REDIRECT = re.compile(r"[0-5]?(?:\.\d*)?\s*[;,]\s*url\s*=\s*['\"]?([^'\"\s]+)", re.IGNORECASE)
# "Enable" and "need" in the languages of websites; the name of the script is the same in all.
_NEEDS = (
    "enabl|activ|turn|requir|need|support|disabled|aktiv|benötig|erforder|habilit|abilita|ativ|vereis|inschakel"
    "|krev|kräv|включ|требу|włącz|wymaga|etkinle|启用|啟用|开启|開啟|需要|有効|必要|활성|필요|تفعيل|bật|zapn"
)
_NO_SCRIPT = re.compile(
    rf"(?:{_NEEDS}).{{0,80}}java\s?script|java\s?script.{{0,80}}(?:{_NEEDS})",
    re.IGNORECASE | re.DOTALL,
)
# Names of the meta tags with the date, best first.
_DATE_NAMES = (
    "article:modified_time",
    "dcterms.modified",
    "last-modified",
    "article:published_time",
    "date",
)


def parse_html(content: bytes) -> dict[str, str | None]:
    """
    Return the main part of an HTML file.

    :return: See :func:`page_fields`.
    :raises UnreadableFileError: The encoding is unknown, or the file does not have it.
    """
    from bs4 import BeautifulSoup

    return page_fields(BeautifulSoup(_decoded(content), "lxml"))


def page_fields(soup: BeautifulSoup, *, base: str = "", select: str = "", remove: str = "") -> dict[str, str | None]:
    """
    Return what a page says.

    :param base: Address to which its links are relative; empty to leave them as they are.
    :param select: Selector of CSS for the main part; empty to look for it.
    :param remove: Selector of CSS for parts to remove.
    :return: ``title``, ``text``, ``category``, ``date``, ``language``, ``url`` (the canonical address), ``robots``
        (what the page tells search engines), ``redirect`` (the address to which it leads) and ``obstacle`` (why it
        shows no content, as a predicate). ``text`` is empty if the page has none.
    """
    from airflow_provider_assistant.parsing.main_content import main_content
    from airflow_provider_assistant.parsing.markup import absolute_links

    fields = _head_fields(soup)
    language = ""
    if soup.html is not None:
        language = str(soup.html.get("lang") or soup.html.get("xml:lang") or "")
    # Some pages have a form to log in beside their main part.
    scope = soup.find("main") or soup.find(role="main") or soup
    has_password = scope.select_one('input[type="password" i]') is not None
    main = main_content(soup, select=select, removed=remove)
    if base:
        absolute_links(main, base)
    text = to_markdown(main)
    return {
        **fields,
        "title": _title_of(fields["title"], main),
        "text": text if _is_readable(text) else "",
        "language": language,
        "redirect": _redirect(soup),
        "obstacle": _obstacle(text, has_password=has_password),
    }


def _redirect(soup: BeautifulSoup) -> str | None:
    refresh = soup.find("meta", attrs={"http-equiv": re.compile("refresh", re.IGNORECASE)})
    if refresh is None:
        return None
    address = _REDIRECT.match(_single_line(refresh.get("content")))
    return address and address[1]


def _is_readable(text: str) -> bool:
    """Return whether a text is more than white space and what could not be decoded."""
    characters = set(text) - {" ", "\ufffd"}
    return any(map(str.isprintable, characters))


def _obstacle(text: str, *, has_password: bool) -> str | None:
    size = len("".join(text.split()))
    if size > _LONGEST_NOTICE:
        return None
    if has_password:
        return "asks to log in"
    if _NO_SCRIPT.search(text):
        return "has no text without JavaScript"
    return None


def _head_fields(soup: BeautifulSoup) -> dict[str, str | None]:
    """Return what the head of a page says."""
    content_by_name = _meta_contents(soup)
    title = None
    if soup.title:
        title = _single_line(soup.title.get_text())
    url = None
    canonical_link = soup.find("link", rel="canonical")
    if canonical_link:
        url = _single_line(canonical_link.get("href"))
    dates = [content_by_name[name] for name in _DATE_NAMES if content_by_name.get(name)]
    date = None
    if dates:
        date = dates[0]
    return {
        "title": title,
        "url": url,
        "category": content_by_name.get("category") or content_by_name.get("article:section"),
        "date": date,
        "robots": ", ".join(content_by_name[name] for name in _ROBOTS if content_by_name.get(name)),
    }


def _meta_contents(soup: BeautifulSoup) -> dict[str, str]:
    """Return the content of each meta tag, by its property or name in lower case."""
    content_by_name = {}
    for tag in soup.find_all("meta"):
        name = _single_line(tag.get("property") or tag.get("name")).lower()
        content_by_name[name] = _single_line(tag.get("content"))
    return content_by_name


def to_markdown(html: Any) -> str:
    """
    Return HTML as Markdown.

    :param html: A tag of Beautiful Soup.
    """
    from airflow_provider_assistant.parsing import html_markdown

    return html_markdown.to_markdown(html)


def _decoded(content: bytes) -> str:
    name = named_charset(content)
    if not name:
        with contextlib.suppress(UnicodeDecodeError):
            return decode(content, "utf-8")
        # Every byte is a character of it.
        return decode(content, DEFAULT_CHARSET)
    try:
        return decode(content, name)
    except LookupError:
        raise UnreadableFileError(f"declares the unknown encoding {name!r}") from None
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"is not {name}, as it declares, at byte {error.start}") from None


def _title_of(title: str | None, main: Tag) -> str | None:
    """Return the first heading if the title contains it: many titles also name the website."""
    heading = ""
    first_heading = main.find("h1")
    if first_heading:
        heading = _single_line(first_heading.get_text())
    if heading and title and heading in title:
        return heading
    return title or heading or None


def _single_line(value: Any) -> str:
    return " ".join(str(value or "").split())
