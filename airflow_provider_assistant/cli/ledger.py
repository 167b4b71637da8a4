"""``airflow assistant ledger``: look into the record of what was sent, and settle what only people can."""

from __future__ import annotations

import argparse
import contextlib
from textwrap import shorten
from typing import Any

from airflow_provider_assistant.cli.output import GOOD, Out
from airflow_provider_assistant.cli.rows import KINDS, rows_of, source_name, this_run
from airflow_provider_assistant.cli.running import OK, WRONG, command, connected
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.files import as_upload
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.inspect import Entry, entry_of, outcomes, superseded, unsettled
from airflow_provider_assistant.ledger.inspect import resolve as settle
from airflow_provider_assistant.loading.rows import FileRows, Rows
from airflow_provider_assistant.loading.source import storage_path
from airflow_provider_assistant.loading.survey import survey

# Of an error; the JSON has all of it.
ERROR_WIDTH = 60
# Digits of a key that are shown on a terminal; more than enough to tell a million keys apart.
DIGITS = 12


@command
def status(out: Out, args: argparse.Namespace) -> int:
    """Count what the ledger knows."""
    with Ledger.open() as ledger:
        where = ledger.engine.url.render_as_string(hide_password=True)
        found = outcomes(ledger, args.site)
    out.result({"ledger": where, "counts": found})
    out.line(f"Ledger: {where}")
    out.table(("kind", "site", "outcome", "entries", "latest"), [list(one.values()) for one in found])
    return OK


@command
def ambiguous(out: Out, args: argparse.Namespace) -> int:
    """List what may or may not have happened; there being something is exit code 1."""
    with Ledger.open() as ledger:
        entries = list(unsettled(ledger, args.site))
    out.result([entry.as_dict() for entry in entries])
    if entries:
        titles = ("key", "kind", "site", "source", "label", "outcome", "intended", "error")
        out.table(titles, [_row(entry) for entry in entries])
        out.note("Look at the site, then: ledger resolve KEY --as done|refused")
    else:
        out.line("Nothing is ambiguous.", GOOD)
    return WRONG if entries else OK


def _row(entry: Entry) -> list[Any]:
    state = "under way?" if entry.may_be_under_way else entry.outcome
    at = f"{entry.intended_at:%Y-%m-%d %H:%M:%S}"
    error = shorten(entry.error or "", ERROR_WIDTH, placeholder=" …")
    return [entry.key[:DIGITS], entry.kind, entry.site_id, entry.source, entry.label, state, at, error]


@command
def stale(out: Out, args: argparse.Namespace) -> int:
    """List documents that should not be on the site any more; there being some is exit code 1."""
    found: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(Ledger.open())
        source = source_name(args) if args.file or args.source_name else None
        site_id = args.site
        if args.file:
            hook = connected(out, args)
            site_id = hook.site()
            rows = stack.enter_context(rows_of(args.file, args, site_id))
            memory = stack.enter_context(
                ledger.documents(
                    scope=f"{hook.target()}/{KINDS[args.kind].endpoint}",
                    site_id=site_id,
                    source=str(source),
                    run=this_run(),
                )
            )
            with out.busy("reading the file"):
                seen = survey(rows, None)
            for label, document_id in memory.stale(seen.has):
                found.append(_finding("not in the file", site_id, str(source), label, document_id))
        for site, name, label, document_id in superseded(ledger, site_id, source):
            found.append(_finding("superseded", site, name, label, document_id))
    out.result(found)
    if found:
        out.table(("why", "site", "source", "label", "document"), [list(one.values()) for one in found])
        out.note("The API cannot delete: delete these documents at the service.")
    else:
        out.line("Nothing is stale.", GOOD)
    return WRONG if found else OK


def _finding(why: str, site_id: str, source: str, label: str, document_id: str | None) -> dict[str, Any]:
    return {"why": why, "site_id": site_id, "source": source, "label": label, "document_id": document_id}


@command
def resolve(out: Out, args: argparse.Namespace) -> int:
    """Settle one ambiguous entry."""
    with Ledger.open() as ledger:
        entry = entry_of(ledger, args.entry, args.site)
        if entry.may_be_under_way and not args.force:
            raise AssistantInputError(
                f"{entry.run} intended it at {entry.intended_at:%H:%M:%S} UTC and may be sending it right now. If you "
                "know that it is not: --force",
                field="entry",
            )
        content = _content(entry, args) if args.outcome == "done" and args.file else None
        settle(ledger, entry, args.outcome, identifier=args.id, content_hash=content)
    out.result({**entry.as_dict(), "outcome": args.outcome, "id": args.id})
    out.line(f"{entry.kind} {entry.key[:DIGITS]} ({entry.label}) on site {entry.site_id}: {args.outcome}", GOOD)
    return OK


def _content(entry: Entry, args: argparse.Namespace) -> str:
    """Return the hash of the content that the source has for an entry."""
    with contextlib.ExitStack() as stack:
        rows: Rows
        if entry.scope.endswith(tuple(f"/{kind.endpoint}" for kind in KINDS.values())):
            rows = stack.enter_context(rows_of(args.file, args, entry.site_id))
        else:
            path = storage_path(args.file)
            as_upload(path)
            rows = FileRows([(entry.label, path)], upload=as_upload, call=lambda _: None)  # type: ignore[arg-type, return-value]
        for digests in rows.digests():
            for digest in digests:
                if digest.key == entry.key:
                    return digest.content
    raise AssistantInputError(
        f"{args.file} has no row with the key of {entry.label!r}; give the same --kind, --key, --column and --constant "
        "as the load",
        field="file",
    )
