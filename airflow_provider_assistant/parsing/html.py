"""HTML files as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.parsing.charsets import decode, named_charset
from airflow_provider_assistant.parsing.limits import UnreadableFileError

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

# What is not text of the page, what repeats on every page, and the marks with which Sphinx and MkDocs link headings.
_NEVER = ("script", "style", "noscript", "template", "svg", "iframe", "object", "form", "nav", "a.headerlink")
_AROUND = ("header", "footer", "aside")
_IS_CONTENT = re.compile(r"\s*(?:data|javascript):", re.IGNORECASE)
_DATES = ("article:modified_time", "dcterms.modified", "last-modified", "article:published_time", "date")


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
    names = {_text(tag.get("property") or tag.get("name")).lower(): _text(tag.get("content")) for tag in soup("meta")}
    canonical = soup.find("link", rel="canonical")
    return {
        "title": _title(soup, main),
        "text": to_markdown(main),
        "url": _text(canonical.get("href")) if canonical else None,
        "category": names.get("category") or names.get("article:section"),
        "date": next((names[name] for name in _DATES if names.get(name)), None),
    }


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
    return re.sub(r"\n{3,}", "\n\n", str(converter.convert_soup(html))).strip()


def _decoded(content: bytes) -> str:
    declared = named_charset(content)
    by = "declared" if declared else "assumed, because it declares no encoding"
    name = declared or "utf-8"
    try:
        return decode(content, name)
    except LookupError:
        raise UnreadableFileError(f"declares the unknown encoding {name!r}") from None
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"is not {name} ({by}) at byte {error.start}") from None


def _main(soup: BeautifulSoup) -> Tag:
    articles = soup.find_all("article", limit=2)
    main = soup.find("main") or soup.find(role="main") or (articles[0] if len(articles) == 1 else None)
    if main is not None:
        return main
    body = soup.body or soup
    for tag in body.select(",".join(_AROUND)):
        tag.decompose()
    return body


def _clean(main: Tag) -> None:
    for tag in main.select(",".join(_NEVER)):
        tag.decompose()
    # The content of a data: address is not text, and a script is not an address.
    for image in main.find_all("img", src=_IS_CONTENT):
        image.replace_with(_text(image.get("alt")))
    for link in main.find_all("a", href=_IS_CONTENT):
        link.unwrap()


def _title(soup: BeautifulSoup, main: Tag) -> str | None:
    """Return the first heading if the title contains it: many titles also name the website."""
    title = _text(soup.title.get_text()) if soup.title else ""
    first = main.find("h1")
    named = _text(first.get_text()) if first else ""
    return named if named and named in title else title or named or None


def _text(value: Any) -> str:
    return " ".join(str(value or "").split())
