"""Every relative link of the documentation has a target, and every page can be reached."""

from __future__ import annotations

import re
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


def links(page: Path) -> list[str]:
    return [found["target"] for found in LINK.finditer(prose(page))]


def problem(page: Path, target: str) -> str:
    """Return what is wrong with a link, or nothing."""
    if target.startswith("/"):
        return "an absolute path means something else in every viewer"
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return "" if target.startswith(("https://", "mailto:")) else "neither https nor mailto"
    path, _, anchor = unquote(target).partition("#")
    other = (page.parent / path).resolve() if path else page
    if not other.exists() or not other.is_relative_to(ROOT):
        return f"{other} does not exist in the repository"
    if anchor and anchor not in anchors(other):
        return f"{other.name} has {sorted(anchors(other))}"
    return ""


@pytest.mark.promise("pages", "Every link of the documentation leads to a page and a heading that exist.")
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    wrong = {target: problem(page, target) for target in links(page)}
    assert {target: text for target, text in wrong.items() if text} == {}


def test_every_page_can_be_reached() -> None:
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        new = {
            (page.parent / target.partition("#")[0]).resolve()
            for page in reached & {*pages()}
            for target in links(page)
            if "://" not in target and target.partition("#")[0].endswith(".md")
        } - reached
    assert set(pages()) <= reached


SECTIONS = ("Start", "Load", "Ask", "Evaluate", "Export", "Operate", "Reference", "How it works")


def test_every_page_is_once_in_the_section_of_its_folder() -> None:
    """The bullets of the front page are the sidebar of the site."""
    index = (ROOT / "docs" / "index.md").read_text()
    _, *parts = re.split(r"^## (.+)$", index, flags=re.MULTILINE)
    assert tuple(parts[::2]) == (*SECTIONS, "When not to use it")
    bullets = [re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", text, re.MULTILINE) for text in parts[1:-2:2]]
    listed = [(title, target) for title, targets in zip(SECTIONS, bullets, strict=True) for target in targets]
    folders = {title.lower(): title for title in SECTIONS} | {"internals": "How it works"}
    for page in (ROOT / "docs").glob("*/*.md"):
        place = f"{page.parent.name}/{page.name}"
        assert [title for title, target in listed if target == place] == [folders[page.parent.name]], page


def test_docstrings_link_to_pages_that_exist() -> None:
    sources = (ROOT / "airflow_provider_assistant").rglob("*.py")
    links = [link for path in sources for link in re.findall(r":doc:`/([^`]+)`", path.read_text())]
    assert len(links) > 20
    assert [link for link in links if not (ROOT / "docs" / f"{link}.md").exists()] == []
