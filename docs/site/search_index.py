"""Index the built site for its search page, with Pagefind."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from pagefind.index import IndexConfig, PagefindIndex

ARTICLE = re.compile(r"<article\b.*</article>", re.DOTALL)
# Sphinx gives the anchor to the section; Pagefind looks for it at the heading.
SECTION = r'<section id="(?P<anchor>[^"]+)">\s*(?:<span id="[^"]*"></span>)*'
HEADING = re.compile(rf"{SECTION}<(?P<tag>h[1-6])>")
GENERATED = {"genindex.html", "py-modindex.html", "search.html"}
# Pages for people who look up a name or change the package. Their words count less than those of
# the guides.
LAST = ("api/", "changes", "conduct", "contributing", "examples/", "internals/")
WEIGHT = 0.3


def index(site: Path) -> None:
    """
    Write the index of all pages to the folder ``pagefind`` of the site.

    :param site: Folder of the built site.
    """
    pages = {path.relative_to(site).as_posix(): path for path in sorted(site.rglob("*.html"))}
    texts = {place: indexed(path.read_text(), place) for place, path in pages.items() if place not in GENERATED}
    asyncio.run(_write(texts, site / "pagefind"))


async def _write(texts: dict[str, str], folder: Path) -> None:
    config = IndexConfig(
        exclude_selectors=[".headerlink", ".toctree-wrapper"],
        force_language="en",
        keep_index_url=True,
        output_path=str(folder),
    )
    async with PagefindIndex(config) as written:
        for place, html in texts.items():
            await written.add_html_file(content=html, url=place)


def indexed(html: str, place: str) -> str:
    """Return the part of a page that the search reads."""
    found = ARTICLE.search(html)
    if not found:
        raise ValueError(f"{place} has no article")
    article = HEADING.sub(r'<section><\g<tag> id="\g<anchor>">', found[0])
    weight = f' data-pagefind-weight="{WEIGHT}"' if place.startswith(LAST) else ""
    return f'<html lang="en"><body{weight}>{article}</body></html>'
