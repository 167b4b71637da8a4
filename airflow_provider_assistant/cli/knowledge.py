"""``airflow assistant knowledge preview``: show what a folder or a website becomes, before anything is sent."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_assistant.cli.output import BAD, GOOD, WARNING, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import (
    DocumentRow,
    DocumentRows,
    file_documents,
    split_documents,
    website_documents,
)
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.texts import counted, shortened

# Documents in the output; the others are only counted.
SHOWN = 20
# Pages of a website that are read: each takes a second.
MOST_PAGES = 100
# Characters of a title, and of a sample.
TITLE_LENGTH = 60
SAMPLE_LENGTH = 600


@dataclass(slots=True)
class _Document:
    """A file or a page, and what it becomes."""

    parent: str
    title: str
    chunks: int = 0
    characters: int = 0


@dataclass(slots=True)
class _Preview:
    """
    What a source becomes.

    :param sizes: Characters of each chunk.
    :param samples: The first chunk, the shortest and the longest one.
    :param unreadable: Number of files or pages that cannot be read.
    :param is_cut: Whether the source has more documents than are shown.
    """

    documents: dict[str, _Document] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    samples: dict[str, DocumentRow] = field(default_factory=dict)
    unreadable: int = 0
    is_cut: bool = False

    def add(self, row: DocumentRow) -> None:
        """Add a chunk."""
        if row["key"] is None:
            self.unreadable += 1
            return
        size = len(row["content"])
        parent = row["parent"] or row["key"]
        # The title of a chunk begins with that of its document.
        document = self.documents.setdefault(parent, _Document(parent, row["title"] or ""))
        document.chunks += 1
        document.characters += size
        if not self.sizes:
            self.samples = {"first": row, "shortest": row, "longest": row}
        elif size < len(self.samples["shortest"]["content"]):
            self.samples["shortest"] = row
        elif size > len(self.samples["longest"]["content"]):
            self.samples["longest"] = row
        self.sizes.append(size)


@command
def preview(out: Console, args: argparse.Namespace) -> int:
    """Show the files or pages of a source, its chunks, and what was left out and why. Nothing is sent."""
    if args.size < 1:
        raise AssistantInputError(f"--size must be at least 1, not {args.size}", field="size")
    most = args.max_documents
    if most is None and _is_website(args.source):
        most = MOST_PAGES
    rows = split_documents(_documents(args, most), args.size)
    found = _Preview()
    with out.busy("reading"):
        for row in rows:
            found.add(row)
            if most is not None and len(found.documents) > most:
                found.is_cut = True
                break
    out.result(_as_dict(found, rows.account))
    _show_documents(out, found)
    _show_samples(out, found)
    _show_left_out(out, rows.account)
    style = GOOD
    if rows.account.unexpected:
        style = BAD if args.strict else WARNING
    out.line(_summary(found, rows.account), style)
    if args.strict and rows.account.unexpected:
        return WRONG
    return OK


def _is_website(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _documents(args: argparse.Namespace, most: int | None) -> DocumentRows:
    """Open the source. What cannot be read is shown, and does not end the preview."""
    if _is_website(args.source):
        return website_documents(
            args.source,
            select=args.select or (),
            remove=args.remove or None,
            # One more shows that there are more.
            sample=most and most + 1,
            on_error="skip",
            requests_per_second=args.requests_per_second,
            private_networks=args.private_networks,
        )
    return file_documents(args.source, base_url=args.base_url, on_error="skip")


def _show_documents(out: Console, found: _Preview) -> None:
    documents = list(found.documents.values())
    rows = [
        (document.parent, shortened(document.title, TITLE_LENGTH), document.chunks, document.characters)
        for document in documents[:SHOWN]
    ]
    out.table(("file or page", "title", "chunks", "characters"), rows)
    others = len(documents) - SHOWN
    if others > 0:
        out.line(f"… and {others} more")


def _show_samples(out: Console, found: _Preview) -> None:
    shown_keys: set[str | None] = set()
    for name, row in found.samples.items():
        if row["key"] in shown_keys:
            continue
        shown_keys.add(row["key"])
        out.line("")
        out.line(f"The {name} chunk, {counted(len(row['content']), 'character')}: {row['title'] or row['key']}")
        text = row["content"]
        if len(text) > SAMPLE_LENGTH:
            text = f"{text[:SAMPLE_LENGTH]}…"
        for line in text.splitlines():
            out.line(f"    {line}")
    out.line("")


def _show_left_out(out: Console, account: SourceAccount) -> None:
    rows = []
    for left_out in account.left_out:
        weight = "expected" if left_out.is_expected else "warning"
        examples = _joined(left_out.examples, left_out.count)
        rows.append((weight, left_out.count, left_out.unit, left_out.reason, examples))
    if rows:
        out.table(("left out", "count", "unit", "reason", "such as"), rows)


def _joined(examples: Iterable[str], count: int) -> str:
    shown = list(examples)[:3]
    text = ", ".join(shown)
    return text if count <= len(shown) else f"{text}, …"


def _summary(found: _Preview, account: SourceAccount) -> str:
    read = ", ".join(f"{counted(count, unit)} read" for unit, count in account.as_dict()["read"].items())
    text = f"{read or 'Nothing was read'}; {account.count or 'nothing'} left out."
    if found.sizes:
        median = round(statistics.median(found.sizes))
        text += f" Chunks of {min(found.sizes)} to {max(found.sizes)} characters, half of them up to {median}."
    if found.unreadable:
        text += f" {found.unreadable} could not be read."
    if found.is_cut:
        text += " There is more, which was not read: see --max-documents."
    return text


def _as_dict(found: _Preview, account: SourceAccount) -> dict[str, Any]:
    return {
        **account.as_dict(),
        "documents": [asdict(document) for document in found.documents.values()],
        "sizes": found.sizes,
        "samples": found.samples,
        "unreadable": found.unreadable,
        "is_cut": found.is_cut,
    }
