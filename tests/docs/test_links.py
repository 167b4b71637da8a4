"""Every relative link of the documentation has a target."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.pages import ROOT, pages, prose

LINK = re.compile(r"(?<!\\)\]\((?P<target>[^)\s]+)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub generates for the headings of a page."""
    found: set[str] = set()
    for heading in HEADING.findall(prose(page)):
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.replace("`", "").lower()).replace(" ", "-")
        unique, number = slug, 0
        while unique in found:
            number += 1
            unique = f"{slug}-{number}"
        found.add(unique)
    return found


def links() -> list[tuple[Path, str]]:
    return [(page, found["target"]) for page in pages() for found in LINK.finditer(prose(page))]


@pytest.mark.parametrize(
    ("page", "target"), links(), ids=[f"{page.relative_to(ROOT)}→{target}" for page, target in links()]
)
def test_link_resolves(page: Path, target: str) -> None:
    assert not target.startswith("/"), "an absolute path means something else in every viewer"
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        assert target.startswith(("https://", "mailto:")), target
        return
    path, _, anchor = unquote(target).partition("#")
    other = (page.parent / path).resolve() if path else page
    assert other.exists(), f"{other} does not exist"
    assert other.is_relative_to(ROOT), f"{other} is outside the repository"
    if anchor:
        assert anchor in anchors(other), f"{other.name} has {sorted(anchors(other))}"


def test_every_page_can_be_reached() -> None:
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        new = {
            (page.parent / target.partition("#")[0]).resolve()
            for page, target in links()
            if page in reached and "://" not in target and target.partition("#")[0].endswith(".md")
        } - reached
    assert set(pages()) <= reached


def test_no_page_lists_a_page_twice_and_headings_stand_apart():
    index = (ROOT / "docs" / "index.md").read_text()
    listed = re.findall(r"^- \[[^\]]*\]\(([^)]+)\)", index, re.MULTILINE)
    assert len(listed) == len(set(listed)) > 20
    for page in pages():
        lines = prose(page).splitlines()
        for before, line in pairwise(lines):
            assert not re.match(r"#{1,6} ", line) or not before.strip(), f"{page}: {line}"
