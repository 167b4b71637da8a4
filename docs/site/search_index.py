"""Index the built site for its search page, with Pagefind."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ARTICLE = re.compile(r"<article\b.*</article>", re.DOTALL)
# Sphinx gives the anchor to the section; Pagefind looks for it at the heading.
SECTION = r'<section id="(?P<anchor>[^"]+)">\s*(?:<span id="[^"]*"></span>)*'
HEADING = re.compile(rf"{SECTION}<(?P<tag>h[1-6])>")
GENERATED = {"genindex.html", "py-modindex.html", "search.html"}
# The words of these pages count less than those of the guides, by the beginning of their paths.
WEIGHTS = {"api/": 0.2, "changes": 0.2, "conduct": 0.2, "contributing": 0.2, "examples/": 0.2, "internals/": 0.5}


def index(site: Path) -> None:
    """
    Write the index of all pages to the folder ``pagefind`` of the site.

    :param site: Folder of the built site.
    """
    places = {path.relative_to(site).as_posix(): path for path in site.rglob("*.html")}
    with tempfile.TemporaryDirectory() as folder:
        for place, path in places.items():
            if place not in GENERATED:
                page = Path(folder, place)
                page.parent.mkdir(parents=True, exist_ok=True)
                page.write_text(indexed(path.read_text(), place))
        write(Path(folder), site / "pagefind")


def write(pages: Path, folder: Path) -> None:
    """
    Write the index of some pages.

    Pagefind's Python API is not used: it ends Pagefind before all bytes are in the files.

    :param pages: Folder of the pages.
    :param folder: Where the index is written.
    """
    options = ["--keep-index-url", "--force-language=en", "--exclude-selectors=.headerlink"]
    paths = [f"--site={pages}", f"--output-path={folder}"]
    subprocess.run([sys.executable, "-m", "pagefind", "--quiet", *options, *paths], check=True)


def indexed(html: str, place: str) -> str:
    """Return the part of a page that the search reads."""
    found = ARTICLE.search(html)
    if not found:
        raise ValueError(f"{place} has no article")
    article = HEADING.sub(r'<section><\g<tag> id="\g<anchor>">', found[0])
    weights = [value for start, value in WEIGHTS.items() if place.startswith(start)]
    # Without the attribute, headings count more than text.
    weight = f' data-pagefind-weight="{weights[0]}"' if weights else ""
    return f'<html lang="en"><body{weight}>{article}</body></html>'
