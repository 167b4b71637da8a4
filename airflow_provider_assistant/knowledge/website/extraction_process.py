"""
The process that extracts the main text of pages.

For some pages, the parser and trafilatura take a time that grows with the square of the size, and only the end of the
process stops them. This file is run by its path and imports nothing of this package, so it starts without Airflow.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

# Bytes of memory. The worker has other tasks.
MOST_MEMORY = 2 * 1024**3

OF_HEAD = frozenset({"base", "link", "meta", "noscript", "script", "style", "template", "title"})


def main() -> None:
    """Read pages as lines of JSON (``html`` and ``url``), and answer each with a line: its text, or null."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for line in sys.stdin.buffer:
        page = json.loads(line)
        sys.stdout.write(json.dumps(text_of_page(page["html"], page["url"])) + "\n")
        sys.stdout.flush()


def text_of_page(html: str, url: str) -> dict[str, Any] | None:
    """
    Return the main text of a page.

    :param html: The page.
    :param url: Address to which relative links are relative.
    :return: ``title``, ``content`` (Markdown), ``category`` and ``date``; None if there is no main text.
    """
    from trafilatura.metadata import extract_metadata

    tree = _tree(html, url)
    if tree is None:
        return None
    # Only dates that the page declares: those that trafilatura finds in its text may change every day.
    metadata = extract_metadata(tree, default_url=url, extensive=False)
    content = _markdown(tree, url, is_precise=True) or _markdown(_tree(html, url), url, is_precise=False)
    if not content:
        return None
    category = next(iter(metadata.categories or ()), None)
    return {"title": metadata.title, "content": content, "category": category, "date": metadata.date}


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


if __name__ == "__main__":
    main()
