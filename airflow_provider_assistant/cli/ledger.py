"""``airflow assistant ledger``: list entries of the ledger, settle them, and keep it small."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from textwrap import shorten
from typing import Any, get_args

from airflow_provider_assistant.cli.output import GOOD, WARNING, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.erasure import retention
from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.ledger import Filter, Ledger, Which, queries
from airflow_provider_assistant.ledger.settle import Report, settle
from airflow_provider_assistant.ledger.settle import prune as prune_entries
from airflow_provider_assistant.ledger.settle import rename as rename_service
from airflow_provider_assistant.texts import counted

STATES: tuple[Which, ...] = get_args(Which)
# Lists whose entries need nobody.
FINE = ("created", "open")
# Length limit of an error in text output, in characters. JSON has the whole error.
ERROR_WIDTH = 60
# Longest --older-than, in days: about a century.
LONGEST = 36_500
# Largest --limit.
MOST_LOADS = 10_000
# Columns of an attempt and of a try that the output leaves out: hashes, and those of the next lines.
_INTERNAL = {"scope", "key", "content_hash", "token", "alive_until", "label", "group_name", "remote_id"}
# Counts of a load in text output. JSON has all of them.
_COUNTS = ("rows", "created", "unchanged", "rejected", "ambiguous", "failed", "drafts", "stale")


@command
def list_entries(out: Console, args: argparse.Namespace) -> int:
    """List the entries of a state, or count those of all. Exit code 1 if there are entries that need somebody."""
    with Ledger.open() as ledger:
        if args.state is None:
            return _count(out, ledger, selected(args))
        with ledger.connect() as connection:
            entries = list(map(_entry, queries.all_entries(connection, ledger.clock, selected(args))))
    out.result(entries)
    if not entries:
        out.line(f"No entry is {args.state}.", GOOD)
        return OK
    titles = ("key", "kind", "site", "source", "document", "state", "sent", "error")
    out.table(titles, [_cells(entry) for entry in entries])
    return OK if args.state in FINE else WRONG


def _count(out: Console, ledger: Ledger, filters: Filter) -> int:
    counts = ledger.read(queries.counts, filters, STATES)
    states = ledger.read(queries.states, filters)
    out.result({"ledger": ledger.name, "lists": counts, "states": states})
    out.line(f"Ledger: {ledger.name}")
    out.table(("kind", "service", "site", "state", "entries", "latest"), [list(row.values()) for row in states])
    out.table(("--state", "entries"), list(counts.items()))
    return OK


def selected(args: argparse.Namespace) -> Filter:
    """Return the entries that the filters of a command select."""
    return Filter(
        which=args.state,
        kinds=[args.kind] if args.kind else (),
        site_id=args.site,
        source=args.source,
        label_part=args.key,
    )


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    names = {"key": row["label"], "group": row["group_name"], "document_id": row["remote_id"]}
    return names | {name: value for name, value in row.items() if name not in _INTERNAL}


def _cells(entry: Mapping[str, Any]) -> list[Any]:
    state = "being sent" if entry["is_alive"] else entry["state"]
    error = shorten(entry["error"] or "", ERROR_WIDTH, placeholder=" …")
    names = [entry[name] for name in ("key", "kind", "site_id", "source", "document_id")]
    return [*names, state, f"{entry['claimed_at']:%Y-%m-%d %H:%M:%S}", error]


@command
def resolve(out: Console, args: argparse.Namespace) -> int:
    """Record what became of entries: of those with an id, or of all that match. Exit code 1 if nothing was changed."""
    filters = selected(args)
    found_id = None
    if args.outcome == "created":
        found_id = args.id
    elif args.id:
        filters = replace(filters, remote_ids={args.id})
    elif args.outcome == "removed" and filters == Filter():
        raise AssistantInputError(
            "no document selected",
            safe=NOTHING_CHANGED,
            todo="Give --id ID, or filters such as --state stale, --source NAME or --key TEXT.",
            field="id",
        )
    if args.outcome != "removed" and not filters.remote_ids and not args.state:
        filters = replace(filters, which="unresolved")
    with Ledger.open() as ledger:
        report = settle(ledger, filters, args.outcome, remote_id=found_id)
        if args.id and report.settled != 1:
            _refuse_id(args, report)
        confirmation = args.confirm
        if args.id or (confirmation is None and _is_confirmed(out, args, report)):
            confirmation = report.confirmation
        if confirmation is not None:
            report = settle(ledger, filters, args.outcome, confirmation=confirmation, remote_id=found_id)
    is_done = confirmation is not None
    sites = sorted(map(str, report.sites))
    out.result(
        {
            "entries": report.settled,
            "as": args.outcome,
            "sites": sites,
            "kept": dict(report.kept),
            "labels": report.labels,
            "confirm": report.confirmation,
            "changed": is_done,
        }
    )
    if is_done:
        out.line(_settled(args, report, "entry was", "entries were"), GOOD)
    if is_done or not report.settled:
        return OK
    out.note(f"Nothing is changed yet. To settle exactly these, add: --confirm {report.confirmation}")
    return WRONG


def _refuse_id(args: argparse.Namespace, report: Report) -> None:
    """
    Raise the error about an id that does not name one entry.

    Several rows may share a document: all of them are settled.
    """
    if args.outcome != "created" and report.settled:
        return
    happened = f"the ledger has no entry with the id {args.id!r} that can be settled as {args.outcome}"
    if args.outcome == "created":
        happened = f"--id needs exactly one entry, and {counted(report.settled, 'entry matches', 'entries match')}"
    reasons = " ".join(report.kept)
    raise AssistantInputError(
        f"{happened}{f' ({reasons})' if reasons else ''}",
        safe=NOTHING_CHANGED,
        todo="'airflow assistant ledger list' shows the entries.",
        field="id",
    )


def _settled(args: argparse.Namespace, report: Report, one: str, many: str) -> str:
    where = f" on {', '.join(sorted(map(str, report.sites)))}" if report.sites else ""
    return f"{counted(report.settled, one, many)} settled as {args.outcome}{where}."


def _is_confirmed(out: Console, args: argparse.Namespace, report: Report) -> bool:
    """Show what would be settled, and ask."""
    out.line(_settled(args, report, "entry would be", "entries would be"))
    for label in report.labels[:20]:
        out.line(f"  {label}")
    if report.settled > 20:
        out.line(f"  and {report.settled - 20:,} more")
    for reason, count in report.kept.most_common():
        out.line(f"{count:,} more stay as they are. {reason}", WARNING)
    if out.as_json or not report.settled:
        return False
    try:
        return out.ask("Settle these? Type yes: ").strip().lower() == "yes"
    except EOFError:
        return False


@command
def rename(out: Console, args: argparse.Namespace) -> int:
    """Give a service another name."""
    for name in ("old", "new"):
        if not getattr(args, name).strip():
            raise AssistantInputError(f"{name.upper()} is empty", safe=NOTHING_CHANGED, field=name)
    with Ledger.open() as ledger:
        count = rename_service(ledger, args.old, args.new, site_id=args.site, dry_run=args.dry_run)
    if not count:
        raise AssistantInputError(
            f"the ledger has no entry of service {args.old!r}",
            safe=NOTHING_CHANGED,
            todo="'airflow assistant ledger list' shows the names.",
            field="old",
        )
    out.result({"entries": count, "dry_run": args.dry_run})
    verb = "would get" if args.dry_run else "have"
    out.line(f"{counted(count, 'entry', 'entries')} of {args.old!r} {verb} the name {args.new!r}.", GOOD)
    return OK


@command
def loads(out: Console, args: argparse.Namespace) -> int:
    """List the latest loads, and where their findings are."""
    if not 1 <= args.limit <= MOST_LOADS:
        raise AssistantInputError(f"--limit must be 1 to {MOST_LOADS}, not {args.limit}", field="limit")
    with Ledger.open() as ledger:
        page = ledger.read(
            queries.page_of_tries, task_kind="load", site_id=args.site, source=args.source, limit=args.limit
        )
    found = [{name: value for name, value in row.items() if name not in _INTERNAL} for row in page.rows]
    out.result(found)
    cells = []
    for load in found:
        counts = load["counts"] or {}
        started = f"{load['started_at']:%Y-%m-%d %H:%M:%S}"
        names = [load[name] for name in ("outcome", "site_id", "source")]
        cells.append([started, *names, *(counts.get(name) for name in _COUNTS), load["findings"]])
    out.table(("started", "outcome", "site", "source", *_COUNTS, "findings"), cells)
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
    out.result({**counts, "before": before.isoformat(timespec="seconds"), "dry_run": args.dry_run})
    verb = "Would delete" if args.dry_run else "Deleted"
    listed = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items())
    out.line(f"{verb} entries and files from before {before:%Y-%m-%d %H:%M} UTC: {listed}.", GOOD)
    return OK
