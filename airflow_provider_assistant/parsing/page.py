"""
Pages of a website as Markdown: their main text, without navigation, headers and footers.

For some pages, the parser and trafilatura take a time that grows with the square of the size, and only the end of the
process stops them.
"""

from __future__ import annotations

import contextlib
from typing import Any

from airflow_provider_assistant.parsing.charsets import decode, named_charset

# What browsers take if a page does not name its charset.
DEFAULT_CHARSET = "windows-1252"
UTF_8 = frozenset({"utf-8", "utf8"})
OF_HEAD = frozenset({"base", "link", "meta", "noscript", "script", "style", "template", "title"})


def parse_page(content: bytes, *, url: str, content_type: str) -> dict[str, str | None]:
    """
    Return the main text of a page.

    :param url: Address to which relative links are relative.
    :return: ``title``, ``text``, ``category`` and ``date``; ``text`` is None if the page has no main text.
    """
    from trafilatura.metadata import extract_metadata

    html = decoded(content, content_type)
    tree = _tree(html, url)
    if tree is None:
        return {"text": None}
    # Only dates that the page declares: those that trafilatura finds in its text may change every day.
    metadata = extract_metadata(tree, default_url=url, extensive=False)
    text = _markdown(tree, url, is_precise=True)
    if not text:
        # trafilatura may have changed the tree, so the second attempt needs another one.
        text = _markdown(_tree(html, url), url, is_precise=False)
    category = None
    if metadata.categories:
        category = metadata.categories[0]
    return {
        "title": metadata.title,
        "text": text or None,
        "category": category,
        "date": metadata.date,
    }


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


def _tree(html: str, url: str) -> Any:
    from trafilatura import load_html

    tree = load_html(html)
    if tree is not None:
        _add_body(tree)
        # trafilatura takes the address for a folder of the host.
        tree.make_links_absolute(url, handle_failures="ignore")
    return tree


def _add_body(tree: Any) -> None:
    """HTML 5 may leave out the tag of the body. The parser, which is older, then leaves the text in the head."""
    head = tree.find("head")
    if head is not None and tree.find("body") is None:
        body = tree.makeelement("body")
        body.extend([child for child in head if child.tag not in OF_HEAD])
        tree.append(body)


def _markdown(tree: Any, url: str, *, is_precise: bool) -> str:
    """Return the text. If not precise, that of a page of less than 250 characters includes navigation, not headings."""
    from trafilatura import extract

    text: str | None = extract(
        tree,
        url=url,
        output_format="markdown",
        favor_precision=is_precise,
        include_comments=False,
        include_links=True,
        include_tables=True,
        include_formatting=True,
    )
    return (text or "").strip()
