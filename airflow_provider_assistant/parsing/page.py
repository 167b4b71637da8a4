"""
Pages of a website as Markdown: their main text, without navigation, headers and footers.

For some pages, the parser takes a time that grows with the square of the size, and only the end of the process stops
it.
"""

from __future__ import annotations

import contextlib
from urllib.parse import urljoin

from airflow_provider_assistant.parsing.charsets import decode, named_charset
from airflow_provider_assistant.parsing.html import DEFAULT_CHARSET, page_fields

UTF_8 = frozenset({"utf-8", "utf8"})


def parse_page(
    content: bytes, *, url: str, content_type: str, select: str = "", remove: str = ""
) -> dict[str, str | None]:
    """
    Return the main text of a page.

    :param url: Address to which relative links are relative.
    :param select: Selector of CSS for the main part; empty to look for it.
    :param remove: Selector of CSS for parts to remove.
    :return: See :func:`.page_fields`.
    """
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(decoded(content, content_type), "lxml")
    base = url
    base_tag = soup.find("base", href=True)
    if base_tag is not None:
        with contextlib.suppress(ValueError):
            base = urljoin(url, str(base_tag["href"]))
    fields = page_fields(soup, base=base, select=select, remove=remove)
    if fields["url"]:
        with contextlib.suppress(ValueError):
            fields["url"] = urljoin(base, fields["url"])
    return fields


def decoded(html: bytes, content_type: str) -> str:
    """
    Return a page as text; what is invalid is replaced.

    UTF-8 is tried before the charset that the page names: text in another charset is hardly ever valid UTF-8, but pages
    in UTF-8 often name another charset.
    """
    # The header's name comes first.
    names = [name for name in (named_charset(b"", content_type), named_charset(html)) if name]
    with contextlib.suppress(UnicodeDecodeError):
        text = decode(html, "utf-8")
        # iso-2022-jp consists of ASCII with the first character, and English in UTF-16 with the second.
        if not names or ("\x1b" not in text and "\0" not in text):
            return text
    for name in names:
        if name.lower() not in UTF_8:
            with contextlib.suppress(LookupError):
                return decode(html, name, errors="replace")
    return decode(html, DEFAULT_CHARSET, errors="replace")
