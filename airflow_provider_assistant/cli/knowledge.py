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
    chunks = split_documents(_documents(args, is_website, most), args.size)
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
    values = account.as_dict()
    read = ", ".join(f"{counted(count, unit)} read" for unit, count in values["read"].items())
    text = f"{read or 'Nothing was read'}; {account.count or 'nothing'} left out."
    if is_cut:
        text += f" There is more: the preview ends after {most}, see --max-documents."
    left_out = []
    for one in account.left_out:
        weight = "expected" if one.is_expected else "warning"
        row = {"left out": weight, "count": one.count, "unit": one.unit, "reason": one.reason}
        left_out.append(row | {"such as": one.examples[:3]})
    is_wrong = bool(account.unexpected)
    style = GOOD if not is_wrong else BAD if args.strict else WARNING
    result = {**values, "chunks": shown, "unreadable": unreadable, "is_cut": is_cut}
    out.result(result, [_row(chunk) for chunk in shown], left_out, text=text, style=style)
    return WRONG if is_wrong and args.strict else OK


def _documents(args: argparse.Namespace, is_website: bool, most: int | None) -> DocumentRows:
    select = ", ".join(args.select or ())
    remove = ", ".join([DEFAULT_REMOVE, *(args.remove or ())])
    if not is_website:
        base_url = args.base_url or ""
        return file_documents(args.source, base_url=base_url, select=select, remove=remove, on_error="skip")
    return website_documents(
        args.source,
        select=select,
        remove=remove,
        # One more shows that there is more.
        sample=most and most + 1,
        on_error="skip",
        requests_per_second=args.requests_per_second,
        private_networks=args.private_networks,
    )


def _row(chunk: DocumentRow) -> dict[str, Any]:
    return {
        "file or page": chunk["parent"],
        "title": shortened(chunk["title"] or "", CELL_LENGTH),
        "characters": len(chunk["content"]),
        "text": shortened(chunk["content"], CELL_LENGTH),
    }
