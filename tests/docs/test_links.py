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
    if not other.exists():
        return f"{other} does not exist"
    if not other.is_relative_to(ROOT):
        return f"{other} is outside the repository"
    if anchor and anchor not in anchors(other):
        return f"{other.name} has {sorted(anchors(other))}"
    return ""


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    wrong = {target: problem(page, target) for target in links(page)}
    assert {target: text for target, text in wrong.items() if text} == {}


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("/docs/index.md", "an absolute path"),
        ("http://example.com", "neither https nor mailto"),
        ("docs/nowhere.md", "does not exist"),
        ("../..", "is outside the repository"),
        ("docs/index.md#nothing", "index.md has"),
        ("#nothing", "README.md has"),
    ],
)
def test_a_wrong_link_is_found(target: str, text: str) -> None:
    assert text in problem(ROOT / "README.md", target)


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


def test_no_page_lists_a_page_twice_and_headings_stand_apart():
    index = (ROOT / "docs" / "index.md").read_text()
    listed = re.findall(r"^- \[[^\]]*\]\(([^)]+)\)", index, re.MULTILINE)
    assert len(listed) == len(set(listed)) > 20
    for page in pages():
        lines = prose(page).splitlines()
        for before, line in pairwise(lines):
            assert not re.match(r"#{1,6} ", line) or not before.strip(), f"{page}: {line}"


SECTIONS = ("Start", "Load", "Ask", "Evaluate", "Export", "Operate", "Reference", "How it works")


def test_every_page_is_in_the_section_of_its_folder() -> None:
    """The bullets of the front page are the sidebar of the site."""
    index = (ROOT / "docs" / "index.md").read_text()
    sections = re.split(r"^## (.+)$", index, flags=re.MULTILINE)
    assert tuple(sections[1::2]) == SECTIONS
    listed = {
        target: title
        for title, text in zip(sections[1::2], sections[2::2], strict=True)
        for target in re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", text, re.MULTILINE)
    }
    folders = {title.lower(): title for title in SECTIONS} | {"internals": "How it works"}
    for page in (ROOT / "docs").glob("*/*.md"):
        assert listed[f"{page.parent.name}/{page.name}"] == folders[page.parent.name], page
    families = (ROOT / "docs/reference/operators.md").read_text()
    for page in (ROOT / "docs/reference/operators").glob("*.md"):
        assert f"](operators/{page.name}): " in families, page


def test_a_page_starts_with_a_sentence_that_says_what_it_is_for() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        title, first, *_ = page.read_text().split("\n\n", 2)
        assert re.fullmatch(r"# [^\n]+", title), page
        sentence = re.split(r"(?<=\.)\s", f"{first} ", maxsplit=1)[0]
        assert re.match(r"[A-Z`]", first), f"{page} starts with {first[:40]!r}"
        assert not sentence.startswith("How-to:"), page
        assert 20 < len(sentence) < 300, f"{page}: {sentence}"


def test_test_reports_are_only_below_how_it_works() -> None:
    report = re.compile(
        r"\b[Tt]he tests (?:check|run)\b|[Nn]o test\b|is a test\.|`make (?:bench|matrix|faults|lowest)`"
    )
    for page in (ROOT / "docs").glob("*/**/*.md"):
        if page.parent.name != "internals":
            assert not report.search(prose(page)), f"{page}: {report.search(prose(page))}"


def test_docstrings_link_to_pages_that_exist() -> None:
    links = [
        link
        for path in (ROOT / "airflow_provider_assistant").rglob("*.py")
        for link in re.findall(r":doc:`/([^`]+)`", path.read_text())
    ]
    assert len(links) > 20
    assert [link for link in links if not (ROOT / "docs" / f"{link}.md").exists()] == []
