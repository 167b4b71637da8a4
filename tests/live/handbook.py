"""A handbook for tests: the documentation of this project, and three edits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow_provider_assistant.sandbox.messages import DEFAULT_KEY

DOCS = Path(__file__).parents[2] / "docs"
EDITS = ("a paragraph was inserted into one page", "index.md got another title", "another page was deleted")


def write(folder: Path) -> int:
    """Write the pages of the handbook, without the embedded service's key, and return their number."""
    for page in DOCS.rglob("*.md"):
        to = folder / page.relative_to(DOCS)
        to.parent.mkdir(parents=True, exist_ok=True)
        text = page.read_text(encoding="utf-8")
        to.write_text(text.replace(DEFAULT_KEY, "<API key>"), encoding="utf-8")
    return sum(1 for _ in folder.rglob("*.md"))


def edit(folder: Path) -> None:
    """Make the three edits."""
    edited, *_, deleted = sorted(page for page in folder.rglob("*.md") if page.name != "index.md")
    title, _, rest = edited.read_text(encoding="utf-8").partition("\n")
    edited.write_text(f"{title}\n\nThis paragraph was inserted.\n\n{rest}", encoding="utf-8")
    index = folder / "index.md"
    index.write_text(f"---\ntitle: Start here\n---\n{index.read_text(encoding='utf-8')}", encoding="utf-8")
    deleted.unlink()


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


def difference(documents: Iterable[dict[str, Any]], chunks: Path) -> str | None:
    """
    Return how the site and the file of chunks differ, or None if they are equal.

    :param documents: All documents of the site, as the service has them.
    """
    import pyarrow.parquet as pq

    on_site = sorted(document["content"] for document in documents if document["category"] == "handbook")
    in_source = sorted(pq.read_table(chunks)["content"].to_pylist())
    if on_site != in_source:
        return f"the site has {len(on_site)} documents of the handbook, the source has {len(in_source)} chunks"
    return None
