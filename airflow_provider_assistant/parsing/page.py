"""
Pages of a website as Markdown: their main text, without navigation, headers and footers.

For some pages, the parser takes a time that grows with the square of the size, and only the end of the process stops
it.
"""

from __future__ import annotations

import contextlib
import re
from urllib.parse import urljoin

from airflow_provider_assistant.parsing.charsets import decode, named_charset
from airflow_provider_assistant.parsing.html import DEFAULT_CHARSET, head_fields, meta_contents, title_of, to_markdown
from airflow_provider_assistant.parsing.html_tags import has_word

UTF_8 = frozenset({"utf-8", "utf8"})
# Whom the meta tags speak to that say what search engines may show.
_ROBOTS = ("robots", "googlebot")
# Characters without white space: a page with more text has content.
_LONGEST_NOTICE = 300
_NO_SCRIPT = re.compile(r"java\s?script", re.IGNORECASE)


def parse_page(
    content: bytes, *, url: str, content_type: str, select: str = "", remove: str = ""
) -> dict[str, str | None]:
    """
    Return the main text of a page.

    :param url: Address to which relative links are relative.
    :param select: Selector of CSS for the main part; empty to look for it.
    :param remove: Selector of CSS for parts to remove.
    :return: ``title``, ``text``, ``category``, ``date``, ``language``, ``url`` (the canonical address), ``robots``
        (what the page tells search engines) and ``obstacle`` (why it shows no content, as a predicate). ``text`` is
        empty if the page has none.
    """
    from bs4 import BeautifulSoup

    from airflow_provider_assistant.parsing.main_content import main_content
    from airflow_provider_assistant.parsing.markup import absolute_links

    soup = BeautifulSoup(decoded(content, content_type), "lxml")
    fields = head_fields(soup)
    base_tag = soup.find("base", href=True)
    base = url
    if base_tag is not None:
        with contextlib.suppress(ValueError):
            base = urljoin(url, str(base_tag["href"]))
    if fields["url"]:
        with contextlib.suppress(ValueError):
            fields["url"] = urljoin(base, fields["url"])
    contents = meta_contents(soup)
    language = ""
    if soup.html is not None:
        language = str(soup.html.get("lang") or soup.html.get("xml:lang") or "")
    has_password = soup.select_one('input[type="password" i]') is not None
    main = main_content(soup, select=select, removed=remove)
    absolute_links(main, base)
    text = to_markdown(main)
    return {
        **fields,
        "title": title_of(fields["title"], main),
        "text": text if has_word(text) else "",
        "language": language,
        "robots": ", ".join(contents[name] for name in _ROBOTS if contents.get(name)),
        "obstacle": _obstacle(text, has_password=has_password),
    }


def _obstacle(text: str, *, has_password: bool) -> str | None:
    size = len("".join(text.split()))
    if size > _LONGEST_NOTICE:
        return None
    if has_password:
        return "asks to log in"
    if _NO_SCRIPT.search(text):
        return "has no text without JavaScript"
    return None


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
        # iso-2022-jp consists of ASCII with this character, so it is valid UTF-8.
        if not names or "\x1b" not in text:
            return text
    for name in names:
        if name.lower() not in UTF_8:
            with contextlib.suppress(LookupError):
                return decode(html, name, errors="replace")
    return decode(html, DEFAULT_CHARSET, errors="replace")
