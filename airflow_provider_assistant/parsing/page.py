"""
Pages of a website as Markdown: their main text, without navigation, headers and footers.

For some pages, the parser and trafilatura take a time that grows with the square of the size, and only the end of the
process stops them.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from typing import Any

MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# Not every codec of Python: some take a time that grows with the square of the size.
CHARSET = re.compile(
    r"charset\s*=\s*[\"']?\s*((?:iso-?8859|windows|cp|koi8|gb|big5|euc|shift_jis|utf-16|macintosh)[\w-]*)",
    re.IGNORECASE,
)
# Bytes in which a page names its charset, and what browsers take if it does not.
HEAD, DEFAULT_CHARSET = 2048, "cp1252"
OF_HEAD = frozenset({"base", "link", "meta", "noscript", "script", "style", "template", "title"})


def parse_page(content: bytes, *, url: str, content_type: str) -> dict[str, str | None]:
    """
    Return the main text of a page.

    :param content: The page.
    :param url: Address to which relative links are relative.
    :param content_type: Value of the header ``Content-Type``.
    :return: ``title``, ``text``, ``category`` and ``date``; ``text`` is None if the page has no main text.
    """
    from trafilatura.metadata import extract_metadata

    html = decoded(content, content_type)
    tree = _tree(html, url)
    if tree is None:
        return {"text": None}
    # Only dates that the page declares: those that trafilatura finds in its text may change every day.
    metadata = extract_metadata(tree, default_url=url, extensive=False)
    text = _markdown(tree, url, is_precise=True) or _markdown(_tree(html, url), url, is_precise=False)
    category = next(iter(metadata.categories or ()), None)
    return {"title": metadata.title, "text": text or None, "category": category, "date": metadata.date}


def decoded(html: bytes, content_type: str) -> str:
    """
    Return a page as text.

    UTF-8 is tried before the charset that the page names: text in another charset is hardly ever valid UTF-8, but pages
    in UTF-8 often name another charset.

    :param html: The page.
    :param content_type: Value of the header ``Content-Type``.
    :return: The text; what is invalid is replaced.
    """
    for mark, encoding in MARKS.items():
        if html.startswith(mark):
            return html.decode(encoding, "replace")
    with contextlib.suppress(UnicodeDecodeError):
        return html.decode("utf-8")
    for named in (content_type, html[:HEAD].decode("latin-1")):
        charset = CHARSET.search(named)
        with contextlib.suppress(LookupError, UnicodeError):
            if charset:
                return html.decode(charset[1], "replace")
    return html.decode(DEFAULT_CHARSET, "replace")


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
