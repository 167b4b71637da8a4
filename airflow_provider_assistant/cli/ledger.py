"""``airflow assistant ledger``: list entries of the ledger, settle them, and keep it small."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from airflow_provider_assistant.cli.output import GOOD, WARNING, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.erasure import retention
from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.ledger import Filter, Ledger, Which, queries
from airflow_provider_assistant.ledger.settle import Report, settle
from airflow_provider_assistant.ledger.settle import prune as prune_entries
from airflow_provider_assistant.ledger.settle import rename as rename_service
from airflow_provider_assistant.texts import counted, shortened

STATES: tuple[Which, ...] = get_args(Which)
# Lists whose entries need nobody.
FINE = ("created", "open")
# Length limit of an error in a table, in characters. The other formats have the whole error.
ERROR_WIDTH = 60
# Longest --older-than, in days: about a century.
LONGEST = 36_500
# Largest --limit.
MOST_LOADS = 10_000
# Columns of an attempt and of a try that the output leaves out: hashes, and those of the next lines.
_INTERNAL = {"scope", "key", "content_hash", "token", "alive_until", "label", "group_name", "remote_id"}
# What a table shows of a load. The other formats have all columns and counts.
_COUNTS = ("rows", "created", "unchanged", "rejected", "ambiguous", "failed", "drafts", "stale")


@command
def list_entries(out: Console, args: argparse.Namespace) -> int:
    """List the entries of a state, or count those of all. Exit code 1 if there are entries that need somebody."""
    with Ledger.open() as ledger:
        if args.state is None:
            return _count(out, ledger, selected(args))
        with ledger.connect() as connection:
            entries = [_entry(row) for row in queries.all_entries(connection, ledger.clock, selected(args))]
    shown = []
    for entry in entries:
        row = {name: entry[name] for name in ("key", "kind", "site_id", "source", "document_id")}
        row["state"] = "being sent" if entry["is_alive"] else entry["state"]
        row["sent"] = entry["claimed_at"]
        row["error"] = shortened(entry["error"] or "", ERROR_WIDTH)
        shown.append(row)
    is_fine = not entries or args.state in FINE
    text = f"{counted(len(entries), 'entry is', 'entries are')} {args.state}."
    out.result(entries, shown, text=text, style=GOOD if is_fine else WARNING)
    return OK if is_fine else WRONG


def _count(out: Console, ledger: Ledger, filters: Filter) -> int:
    counts = ledger.read(queries.counts, filters, STATES)
    states = [dict(row) for row in ledger.read(queries.states, filters)]
    lists = [{"--state": name, "entries": count} for name, count in counts.items()]
    result = {"ledger": ledger.name, "lists": counts, "states": states}
    out.result(result, states, lists, text=f"Ledger: {ledger.name}")
    return OK


def selected(args: argparse.Namespace) -> Filter:
    """Return the entries that the filters of a command select."""
    kinds = [args.kind] if args.kind else ()
    return Filter(which=args.state, kinds=kinds, site_id=args.site, source=args.source, label_part=args.key)


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    names = {"key": row["label"], "group": row["group_name"], "document_id": row["remote_id"]}
    return names | {name: value for name, value in row.items() if name not in _INTERNAL}


@command
def resolve(out: Console, args: argparse.Namespace) -> int:
    """Record what became of entries: of those with an id, or of all that match. Exit code 1 if nothing was changed."""
    filters = selected(args)
    # An id selects documents, or is what a row has created.
    found_id = args.id if args.outcome == "created" else None
    if args.id and not found_id:
        filters = replace(filters, remote_ids={args.id})
    elif args.outcome != "removed":
        filters = replace(filters, which=args.state or "unresolved")
    elif filters == Filter():
        todo = "Give --id ID, or filters such as --state stale, --source NAME or --key TEXT."
        raise AssistantInputError("no document selected", safe=NOTHING_CHANGED, todo=todo, field="id")
    with Ledger.open() as ledger:
        report = settle(ledger, filters, args.outcome, remote_id=found_id)
        _check_id(args, report)
        confirmation = args.confirm
        if args.id or (confirmation is None and _is_confirmed(out, args, report)):
            confirmation = report.confirmation
        if confirmation is not None:
            report = settle(ledger, filters, args.outcome, confirmation=confirmation, remote_id=found_id)
    result = {
        "entries": report.settled,
        "as": args.outcome,
        "sites": sorted(map(str, report.sites)),
        "kept": dict(report.kept),
        "labels": report.labels,
        "confirm": report.confirmation,
        "changed": confirmation is not None,
    }
    if confirmation is not None:
        out.result(result, text=_settled(args, report, "entry was", "entries were"), style=GOOD)
        return OK
    out.result(result)
    if not report.settled:
        return OK
    out.note(f"Nothing is changed yet. To settle exactly these, add: --confirm {report.confirmation}")
    return WRONG


def _check_id(args: argparse.Namespace, report: Report) -> None:
    """Raise an error if an id does not name one entry. Several rows may share a document: all of them are settled."""
    if not args.id or report.settled == 1 or (args.outcome != "created" and report.settled):
        return
    happened = f"the ledger has no entry with the id {args.id!r} that can be settled as {args.outcome}"
    if args.outcome == "created":
        happened = f"--id needs exactly one entry, and {counted(report.settled, 'entry matches', 'entries match')}"
    reasons = f" ({' '.join(report.kept)})" if report.kept else ""
    todo = "'airflow assistant ledger list' shows the entries."
    raise AssistantInputError(f"{happened}{reasons}", safe=NOTHING_CHANGED, todo=todo, field="id")


def _settled(args: argparse.Namespace, report: Report, one: str, many: str) -> str:
    where = f" on {', '.join(sorted(map(str, report.sites)))}" if report.sites else ""
    return f"{counted(report.settled, one, many)} settled as {args.outcome}{where}."


def _is_confirmed(out: Console, args: argparse.Namespace, report: Report) -> bool:
    """Show what would be settled, and ask."""
    for label in report.labels:
        out.line(f"  {label}")
    if report.settled > len(report.labels):
        out.line(f"  and {report.settled - len(report.labels):,} more")
    for reason, count in report.kept.most_common():
        out.line(f"{count:,} more stay as they are. {reason}", WARNING)
    out.line(_settled(args, report, "entry would be", "entries would be"))
    return report.settled > 0 and out.is_confirmed("Settle these?")


@command
def rename(out: Console, args: argparse.Namespace) -> int:
    """Give a service another name."""
    if not args.new.strip():
        raise AssistantInputError("NEW is empty", safe=NOTHING_CHANGED, field="new")
    with Ledger.open() as ledger:
        count = rename_service(ledger, args.old, args.new, site_id=args.site, dry_run=args.dry_run)
    if not count:
        raise AssistantInputError(
            f"the ledger has no entry of service {args.old!r}",
            safe=NOTHING_CHANGED,
            todo="'airflow assistant ledger list' shows the names.",
            field="old",
        )
    verb = "would get" if args.dry_run else "have"
    text = f"{counted(count, 'entry', 'entries')} of {args.old!r} {verb} the name {args.new!r}."
    out.result({"entries": count, "dry_run": args.dry_run}, text=text, style=GOOD)
    return OK


@command
def loads(out: Console, args: argparse.Namespace) -> int:
    """List the latest loads, and where their findings are."""
    if not 1 <= args.limit <= MOST_LOADS:
        raise AssistantInputError(f"--limit must be 1 to {MOST_LOADS}, not {args.limit}", field="limit")
    filters = {"task_kind": "load", "site_id": args.site, "source": args.source, "limit": args.limit}
    with Ledger.open() as ledger:
        page = ledger.read(queries.page_of_tries, **filters)
    found, shown = [], []
    for row in page.rows:
        load = {name: value for name, value in row.items() if name not in _INTERNAL}
        found.append(load)
        counts = load["counts"] or {}
        cells = {name: load[name] for name in ("started_at", "outcome", "site_id", "source")}
        cells |= {name: counts.get(name) for name in _COUNTS}
        shown.append(cells | {"findings": load["findings"]})
    out.result(found, shown, text=None if found else "No load.")
    return OK


@command
def prune(out: Console, args: argparse.Namespace) -> int:
    """Delete old entries and old findings files."""
    if not 1 <= args.older_than <= LONGEST:
        raise AssistantInputError(
            f"--older-than must be 1 to {LONGEST} days, not {args.older_than}", field="older_than"
        )
    before = datetime.now(UTC) - timedelta(days=args.older_than)
    with Ledger.open() as ledger:
        counts = prune_entries(ledger, before, dry_run=args.dry_run)
    counts["findings_files"] = retention.prune_findings(before, dry_run=args.dry_run)
    verb = "Would delete" if args.dry_run else "Deleted"
    listed = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items())
    text = f"{verb} entries and files from before {before:%Y-%m-%d %H:%M} UTC: {listed}."
    result = {**counts, "before": before.isoformat(timespec="seconds"), "dry_run": args.dry_run}
    out.result(result, text=text, style=GOOD)
    return OK
