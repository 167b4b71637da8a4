"""``airflow assistant ledger``: record deleted documents, list loads, delete old entries."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta

from airflow_provider_assistant.cli.findings import read_findings
from airflow_provider_assistant.cli.output import GOOD, WARNING, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_ledger
from airflow_provider_assistant.erasure import retention
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import upkeep
from airflow_provider_assistant.ledger.load_queries import COLUMNS, page_of_loads
from airflow_provider_assistant.ledger.selection import Page, Selection
from airflow_provider_assistant.loading.findings import findings_folder
from airflow_provider_assistant.texts import counted

# Longest --older-than, in days: about a century.
LONGEST = 36_500
# Largest --limit: the integers of every database.
MOST = 2**31 - 1
# Columns of a load in JSON output: its start and end, its outcome, and all others.
_LOAD_COLUMNS = ("started_at", "ended_at", "outcome", *COLUMNS[2:])


@command
def forget(out: Console, args: argparse.Namespace) -> int:
    """Record that documents were deleted. Exit code 1 if the ledger does not know one of them."""
    return forgotten(out, args)


def forgotten(out: Console, args: argparse.Namespace) -> int:
    """Record that documents were deleted, and return the exit code."""
    names = list(args.entry)
    labels: list[str] = []
    if args.findings:
        listed = upkeep.deleted_documents(read_findings(args.findings))
        names += listed.names
        labels += listed.labels
    deleted = upkeep.DeletedDocuments(names, labels)
    if not (deleted.names or deleted.labels):
        raise AssistantInputError("no document selected", todo="Give ids or keys, or --findings.", field="entry")
    # ``resolve`` has no --dry-run.
    is_dry_run = getattr(args, "dry_run", False)
    with open_ledger(args) as ledger:
        report = upkeep.forget(ledger, deleted, args.site, dry_run=is_dry_run)
    out.result({**report.as_dict(), "dry_run": is_dry_run})
    counts = f"{counted(report.documents, 'document')} and {counted(report.superseded, 'superseded document')}"
    if is_dry_run:
        out.line(f"Would forget {counts}.", GOOD)
    else:
        out.line(f"Forgotten: {counts}.", GOOD)
    if report.unknown:
        out.line(f"Not in the ledger: {', '.join(report.unknown)}", WARNING)
        return WRONG
    return OK


@command
def loads(out: Console, args: argparse.Namespace) -> int:
    """List the latest loads."""
    if not 1 <= args.limit <= MOST:
        raise AssistantInputError(f"--limit must be 1 to {MOST}, not {args.limit}", field="limit")
    with open_ledger(args) as ledger:
        rows = ledger.read(page_of_loads, Selection(args.site), Page(args.limit)).rows
    listed_loads = []
    for row in rows:
        load = {name: getattr(row, name) for name in _LOAD_COLUMNS}
        if not load["outcome"]:
            load["outcome"] = "unfinished"
        listed_loads.append(load)
    out.result(listed_loads)
    number_columns = (
        *("rows", "created", "unchanged", "rejected", "ambiguous", "failed"),
        *("drafts", "stale", "seconds"),
    )
    cells = []
    for load in listed_loads:
        started = f"{load['started_at']:%Y-%m-%d %H:%M:%S}"
        numbers = [load[name] for name in number_columns]
        cells.append([started, load["outcome"], load["site_id"], load["source"], *numbers])
    out.table(("started", "outcome", "site", "source", *number_columns), cells)
    return OK


@command
def prune(out: Console, args: argparse.Namespace) -> int:
    """Delete old entries and old findings files."""
    if not 1 <= args.older_than <= LONGEST:
        raise AssistantInputError(
            f"--older-than must be 1 to {LONGEST} days, not {args.older_than}", field="older_than"
        )
    before = datetime.now(UTC) - timedelta(days=args.older_than)
    with open_ledger(args) as ledger:
        counts = retention.prune_ledger(ledger, before, dry_run=args.dry_run)
    counts["findings_files"] = retention.prune_files(str(findings_folder()), before, dry_run=args.dry_run)
    out.result({**counts, "before": before.isoformat(timespec="seconds"), "dry_run": args.dry_run})
    verb = "Would delete" if args.dry_run else "Deleted"
    readable_counts = [f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items()]
    listed = ", ".join(readable_counts)
    out.line(f"{verb} entries and files from before {before:%Y-%m-%d %H:%M} UTC: {listed}.", GOOD)
    return OK
