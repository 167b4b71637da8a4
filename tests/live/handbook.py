"""The demo's handbook: the documentation of this project, and three edits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.live.screen import Screen

HANDBOOK = "assistant_handbook"
DOCS = Path(__file__).parents[2] / "docs"
EDITS = (
    "a paragraph was inserted into internals/faults.md",
    "index.md got another title",
    "reference/sandbox.md was deleted",
)
PARAGRAPH = "\n\nThis paragraph was inserted by the demo.\n\n"
SHOWN = ("rows", "created", "unchanged", "changed", "stale", "deleted", "requests")


def write(folder: Path) -> int:
    """Write the pages of the handbook, and return their number."""
    for page in DOCS.rglob("*.md"):
        to = folder / page.relative_to(DOCS)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, to)
    return sum(1 for _ in folder.rglob("*.md"))


def edit(folder: Path) -> None:
    """Make the three edits."""
    page = folder / "internals" / "faults.md"
    title, _, rest = page.read_text(encoding="utf-8").partition("\n")
    page.write_text(f"{title}{PARAGRAPH}{rest}", encoding="utf-8")
    page = folder / "index.md"
    page.write_text(f"---\ntitle: Start here\n---\n{page.read_text(encoding='utf-8')}", encoding="utf-8")
    (folder / "reference" / "sandbox.md").unlink()


def show(screen: Screen, first: dict[str, Any], second: dict[str, Any], on_site: int) -> None:
    """Show the counts of both runs, and what the site has now."""
    screen.show("A handbook in chunks: after three edits, the site equals the folder again", "\n".join(EDITS))
    screen.table(["", *SHOWN], [[name, *(load[count] for count in SHOWN)] for name, load in runs(first, second)])
    screen.show("", f"{on_site} documents of the handbook are on the site, counted at the service")


def problem_of(first: dict[str, Any], second: dict[str, Any]) -> str | None:
    """Return what is wrong with the two loads."""
    if first["created"] != first["rows"] or first["stale"]:
        return f"the first load of the handbook: {first}"
    edited = second["created"]
    if not 0 < edited < first["rows"] / 10 or second["created"] + second["unchanged"] != second["rows"]:
        return f"the edits created {edited} of {first['rows']} chunks"
    # The inserted paragraph changes one chunk, which becomes stale; a title changes the chunks of its page.
    if not second["changed"] or second["stale"] <= 1:
        return f"the edits should supersede chunks of one page, and make those of another stale: {second}"
    if second["deleted"] != second["changed"] + second["stale"]:
        return f"every superseded and stale document should be deleted: {second}"
    return None


def difference(documents: Iterable[dict[str, Any]], chunks: Path, compared: dict[str, Any]) -> str | None:
    """
    Return how the site, the file of chunks and the ledger differ, or None if they are equal.

    :param documents: All documents of the site, as the service has them.
    :param compared: Result of the comparison of ledger and site.
    """
    import pyarrow.parquet as pq

    on_site = sorted(document["content"] for document in documents if document["category"] == "handbook")
    in_source = sorted(pq.read_table(chunks)["content"].to_pylist())
    if on_site != in_source:
        return f"the site has {len(on_site)} documents of the handbook, the source has {len(in_source)} chunks"
    wrong = {kind: compared[kind] for kind in ("gone", "doubled", "superseded", "draft", "not_ready") if compared[kind]}
    return f"ledger and site differ: {wrong}" if wrong else None


def runs(first: dict[str, Any], second: dict[str, Any]) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return both loads by name."""
    return ("first run", first), ("after the edits", second)
