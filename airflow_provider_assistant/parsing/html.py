"""HTML files as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.parsing.charsets import decode, named_charset
from airflow_provider_assistant.parsing.limits import UnreadableFileError

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

# What is not text of the page, what repeats on every page, and the marks with which Sphinx and
# MkDocs link headings.
_ALWAYS_REMOVED = (
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "iframe",
    "object",
    "form",
    "nav",
    "a.headerlink",
)
# Removed only if the page does not mark its main part: an article may have a header of its own.
_REMOVED_FROM_BODY = ("header", "footer", "aside")
# An address that holds the content itself, and does not lead to a file.
_INLINE_CONTENT = re.compile(r"\s*(?:data|javascript):", re.IGNORECASE)
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
    Return the main part of an HTML file, or its body if it does not mark a main part.

    :return: ``title``, ``text``, ``url`` (the canonical address), ``category`` and ``date``.
    :raises UnreadableFileError: The encoding is unknown, or the file does not have it.
    """
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(_decoded(content), "lxml")
    main = _main(soup)
    _clean(main)
    content_by_name = _meta_contents(soup)
    url = None
    canonical_link = soup.find("link", rel="canonical")
    if canonical_link:
        url = _single_line(canonical_link.get("href"))
    dates = [content_by_name[name] for name in _DATE_NAMES if content_by_name.get(name)]
    date = None
    if dates:
        date = dates[0]
    return {
        "title": _title(soup, main),
        "text": to_markdown(main),
        "url": url,
        "category": content_by_name.get("category") or content_by_name.get("article:section"),
        "date": date,
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
    from markdownify import MarkdownConverter

    converter = MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        escape_asterisks=False,
        escape_underscores=False,
    )
    markdown = str(converter.convert_soup(html))
    # One empty line between blocks is enough.
    return re.sub(r"\n{3,}", "\n\n", markdown).strip()


def _decoded(content: bytes) -> str:
    name = named_charset(content)
    if name:
        origin = "declared"
    else:
        name = "utf-8"
        origin = "assumed, because it declares no encoding"
    try:
        return decode(content, name)
    except LookupError:
        raise UnreadableFileError(f"declares the unknown encoding {name!r}") from None
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"is not {name} ({origin}) at byte {error.start}") from None


def _main(soup: BeautifulSoup) -> Tag:
    main = soup.find("main") or soup.find(role="main")
    if main is not None:
        return main
    articles = soup.find_all("article", limit=2)
    if len(articles) == 1:
        return articles[0]
    body = soup.body or soup
    for tag in body.select(",".join(_REMOVED_FROM_BODY)):
        tag.decompose()
    return body


def _clean(main: Tag) -> None:
    for tag in main.select(",".join(_ALWAYS_REMOVED)):
        tag.decompose()
    # The content of a data: address is not text, and a script is not an address.
    for image in main.find_all("img", src=_INLINE_CONTENT):
        image.replace_with(_single_line(image.get("alt")))
    for link in main.find_all("a", href=_INLINE_CONTENT):
        link.unwrap()


def _title(soup: BeautifulSoup, main: Tag) -> str | None:
    """Return the first heading if the title contains it: many titles also name the website."""
    title = ""
    if soup.title:
        title = _single_line(soup.title.get_text())
    heading = ""
    first_heading = main.find("h1")
    if first_heading:
        heading = _single_line(first_heading.get_text())
    if heading and heading in title:
        return heading
    return title or heading or None


def _single_line(value: Any) -> str:
    return " ".join(str(value or "").split())
