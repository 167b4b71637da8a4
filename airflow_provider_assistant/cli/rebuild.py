"""``airflow assistant ledger rebuild``: rebuild a lost ledger from the site and the source."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from airflow_provider_assistant.cli.output import GOOD, WARNING, Console
from airflow_provider_assistant.cli.rows import document_scope, rows_of, source_name, this_run
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_hook, open_ledger
from airflow_provider_assistant.loading.rebuild import Rebuild
from airflow_provider_assistant.loading.rebuild import rebuild as rebuild_ledger
from airflow_provider_assistant.texts import counted

# Maximum number of rows and documents in text output. JSON has all of them.
SHOWN = 20


@command
def rebuild(out: Console, args: argparse.Namespace) -> int:
    """Record the rows whose documents are on the site. Exit code 1 if rows have no document."""
    hook = open_hook(out, args)
    site_id, source = hook.resolve_site_id(), source_name(args)
    scope = document_scope(hook, args)
    with (
        rows_of(args.file, args, site_id) as rows,
        open_ledger(args, hook) as ledger,
        ledger.documents(scope=scope, source=source, run=this_run(), has_groups=bool(args.group)) as entries,
        out.busy("reading the file and the list"),
    ):
        result = rebuild_ledger(rows, entries, scope, hook.list_documents(), dry_run=args.dry_run)
    out.result({"site_id": site_id, "source": source, "dry_run": args.dry_run, **asdict(result)})
    _show(out, args, site_id, source, result)
    return WRONG if result.unmatched_rows else OK


def _show(
    out: Console,
    args: argparse.Namespace,
    site_id: str,
    source: str,
    result: Rebuild,
) -> None:
    rows, documents = result.unmatched_rows, result.unmatched_documents
    if rows:
        cells = [(row.number, row.key, row.reason) for row in rows[:SHOWN]]
        out.table(("row without a document", "key", "reason"), cells)
    if documents:
        out.table(
            ("document without a row", "title"),
            [(document.document_id, document.title) for document in documents[:SHOWN]],
        )
    verb = "would be recorded" if args.dry_run else "recorded"
    style = WARNING if rows else GOOD
    out.line(
        f"site {site_id}, source {source}: {counted(result.rows, 'row')}: {result.matched} matched "
        f"({result.recorded} {verb}), {counted(result.duplicates, 'duplicate')}, "
        f"{len(rows)} without a document",
        style,
    )
    out.line(
        f"{counted(result.documents, 'document')}: {result.matched} matched, "
        f"{result.in_ledger} in the ledger already, "
        f"{len(documents)} without a row"
    )
    if result.by_title:
        out.note(
            f"Matched by title, because the list does not show the content: {counted(result.by_title, 'document')}. "
            "The content may not be that of the row."
        )
