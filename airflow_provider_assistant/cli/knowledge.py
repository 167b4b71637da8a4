"""``airflow assistant knowledge preview``: show what a folder or a website becomes, before anything is sent."""

from __future__ import annotations

import argparse
from typing import Any

from airflow_provider_assistant.cli.output import BAD, GOOD, WARNING, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import (
    DEFAULT_REMOVE,
    DocumentRow,
    DocumentRows,
    file_documents,
    split_documents,
    website_documents,
)
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.texts import counted, shortened

# Chunks in the output; the others are only counted.
SHOWN = 20
# Characters of a title and of a text in a table.
CELL_LENGTH = 60
# Pages of a website that are read: each takes a second.
MOST_PAGES = 100


@command
def preview(out: Console, args: argparse.Namespace) -> int:
    """Show the chunks of a source, and what was left out and why. Nothing is sent."""
    if args.size < 1:
        raise AssistantInputError(f"--size must be at least 1, not {args.size}", field="size")
    is_website = args.source.startswith(("http://", "https://"))
    most = args.max_documents or (MOST_PAGES if is_website else None)
    chunks = split_documents(_website(args, most) if is_website else _folder(args), args.size)
    shown: list[DocumentRow] = []
    parents: set[str | None] = set()
    unreadable = 0
    is_cut = False
    with out.busy("reading"):
        for chunk in chunks:
            parents.add(chunk["parent"])
            if most is not None and len(parents) > most:
                is_cut = True
                break
            if chunk["key"] is None:
                unreadable += 1
            elif len(shown) < SHOWN:
                shown.append(chunk)
    account = chunks.account
    out.result({**account.as_dict(), "chunks": shown, "unreadable": unreadable, "is_cut": is_cut})
    out.table(("file or page", "title", "characters", "text"), [_cells(chunk) for chunk in shown])
    _show_account(out, account)
    text = f"{_read(account)}; {account.count or 'nothing'} left out."
    if is_cut:
        text += f" There is more: the preview ends after {most}, see --max-documents."
    is_wrong = bool(account.unexpected)
    out.line(text, (BAD if args.strict else WARNING) if is_wrong else GOOD)
    return WRONG if is_wrong and args.strict else OK


def _website(args: argparse.Namespace, most: int | None) -> DocumentRows:
    return website_documents(
        args.source,
        select=", ".join(args.select or ()),
        remove=_remove(args),
        # One more shows that there is more.
        sample=most and most + 1,
        on_error="skip",
        requests_per_second=args.requests_per_second,
        private_networks=args.private_networks,
    )


def _folder(args: argparse.Namespace) -> DocumentRows:
    return file_documents(
        args.source,
        base_url=args.base_url or "",
        select=", ".join(args.select or ()),
        remove=_remove(args),
        on_error="skip",
    )


def _remove(args: argparse.Namespace) -> str:
    return ", ".join([DEFAULT_REMOVE, *(args.remove or ())])


def _cells(chunk: DocumentRow) -> tuple[Any, ...]:
    text = " ".join(chunk["content"].split())
    title = shortened(chunk["title"] or "", CELL_LENGTH)
    return chunk["parent"], title, len(chunk["content"]), shortened(text, CELL_LENGTH)


def _show_account(out: Console, account: SourceAccount) -> None:
    """Show what was left out: files or pages, and words of them by the rule that left them out."""
    rows = []
    for left_out in account.left_out:
        weight = "expected" if left_out.is_expected else "warning"
        rows.append((weight, left_out.count, left_out.unit, left_out.reason, ", ".join(left_out.examples[:3])))
    if rows:
        out.table(("left out", "count", "unit", "reason", "such as"), rows)


def _read(account: SourceAccount) -> str:
    read = account.as_dict()["read"]
    return ", ".join(f"{counted(count, unit)} read" for unit, count in read.items()) or "Nothing was read"
