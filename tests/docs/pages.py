"""Read the pages of the documentation and their parts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
# Also matches indented blocks in lists.
FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,}) *(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)^(?P=indent)(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    code: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def pages() -> list[Path]:
    """Return every page for users and contributors."""
    top = ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "SECURITY.md")
    return [*(ROOT / name for name in top), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(*languages: str) -> list[Block]:
    """Return the fenced blocks of all pages in these languages."""
    return [block for page in pages() for block in blocks_of(page) if block.language in languages]


@cache
def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found["language"].lower(), dedent(found["code"]))
        for found in FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def page_with(page: str, heading: str) -> Path:
    """Return the page if it has a heading, or else the page in the folder of the same name that has it."""
    path = ROOT / page
    for place in (path, *sorted(path.with_suffix("").glob("*.md"))):
        if re.search(rf"^#+ {re.escape(heading)}$", place.read_text(), re.MULTILINE):
            return place
    raise AssertionError(f"{page} has no heading {heading!r}")


def section(page: str, heading: str) -> str:
    """
    Return the text under a heading, up to the next heading of the same or a higher level.

    :param page: Path of the page; the heading may also be on a page in the folder of the same name.
    :param heading: The heading, without its number signs.
    """
    text = page_with(page, heading).read_text()
    return text[slice(*span(text, heading))]


def span(text: str, heading: str) -> tuple[int, int]:
    """Return where a section begins, after its heading, and where it ends."""
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert found, f"no heading {heading!r}"
    end = re.compile(rf"^#{{1,{len(found[1])}}} ", re.MULTILINE).search(text, found.end())
    return found.end(), end.start() if end else len(text)


def table(text: str) -> list[dict[str, str]]:
    """Return the rows of the first Markdown table in a text, by column title."""
    found = re.search(r"(?:^\|.*\|\n?)+", text, re.MULTILINE)
    assert found, f"no table in {text[:80]!r}"
    head, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in found[0].splitlines())
    assert all(len(row) == len(head) for row in rows), f"a row of the table {head} has too many or too few cells"
    return [dict(zip(head, row, strict=True)) for row in rows]


def listed(page: str, heading: str, column: str) -> list[str]:
    """Return the names in the first column of a table: those in backticks, or else the whole cells."""
    text = section(page, heading)
    rows = table(text[text.index(f"\n| {column} |") + 1 :])
    return [name for row in rows for name in codes(row[column]) or [row[column]]]


def words(page: str) -> str:
    """Return the text of a page, with one space between words."""
    return " ".join(prose(ROOT / page).split())


def codes(cell: str) -> list[str]:
    """Return the texts in backticks, in order."""
    return re.findall(r"`([^`]+)`", cell)
