"""``airflow assistant ledger``: list entries of the ledger, and record the outcome of ambiguous ones."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from textwrap import shorten
from typing import Any

from airflow_provider_assistant.cli.findings import read_findings
from airflow_provider_assistant.cli.output import GOOD, Console
from airflow_provider_assistant.cli.rows import KINDS, gone_groups, rows_of, source_name, this_run
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_hook, open_ledger
from airflow_provider_assistant.cli.upkeep import forgotten
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import DocumentScope, Ledger
from airflow_provider_assistant.ledger.queries import (
    AmbiguousEntry,
    counts,
    find_ambiguous,
    kind_name,
    page_of_ambiguous,
    superseded_documents,
)
from airflow_provider_assistant.ledger.resolution import ByHand, check_not_under_way
from airflow_provider_assistant.ledger.resolution import resolve as record_outcome
from airflow_provider_assistant.ledger.selection import ALL, Selection
from airflow_provider_assistant.loading.file_rows import fingerprint_file
from airflow_provider_assistant.loading.fingerprints import RowFingerprint
from airflow_provider_assistant.loading.preflight import plan_load
from airflow_provider_assistant.storage.paths import usable_path
from airflow_provider_assistant.storage.uploads import as_upload

# Length limit of an error in text output, in characters. JSON has the whole error.
ERROR_WIDTH = 60
# Digits of a key in text output. They are unique among millions of keys.
DIGITS = 12


@command
def status(out: Console, args: argparse.Namespace) -> int:
    """Count the entries of the ledger by kind, site and outcome."""
    with open_ledger(args) as ledger:
        where = ledger.engine.url.render_as_string(hide_password=True)
        found = ledger.read(counts, Selection(args.site))
    out.result({"ledger": where, "counts": found})
    out.line(f"Ledger: {where}")
    out.table(("kind", "site", "outcome", "entries", "latest"), [list(one.values()) for one in found])
    return OK


@command
def ambiguous(out: Console, args: argparse.Namespace) -> int:
    """List the ambiguous entries. Exit code 1 if there are any."""
    with open_ledger(args) as ledger:
        entries = _ambiguous(ledger, args)
    out.result([entry.as_dict() for entry in entries])
    if entries:
        titles = ("key", "kind", "site", "source", "label", "outcome", "claimed", "error")
        out.table(titles, [_row(entry) for entry in entries])
        out.note("Check the site, then run: ledger resolve KEY … --as created|not-created")
    else:
        out.line("Nothing is ambiguous.", GOOD)
    return WRONG if entries else OK


def _ambiguous(ledger: Ledger, args: argparse.Namespace) -> list[AmbiguousEntry]:
    return ledger.read(page_of_ambiguous, ledger.leases, Selection(args.site), ALL).rows


def _row(entry: AmbiguousEntry) -> list[Any]:
    state = "under way?" if entry.may_be_under_way else entry.outcome
    at = f"{entry.claimed_at:%Y-%m-%d %H:%M:%S}"
    error = shorten(entry.error or "", ERROR_WIDTH, placeholder=" …")
    return [entry.key[:DIGITS], entry.kind, entry.site_id, entry.source, entry.label, state, at, error]


@command
def stale(out: Console, args: argparse.Namespace) -> int:
    """
    List the documents whose row is gone from the source. Exit code 1 if there are any.

    With ``--group``, the source may lack whole groups: only those that it contains are judged.
    """
    if args.gone and not args.group:
        raise AssistantInputError("--gone needs --group COLUMN", field="group")
    hook = open_hook(out, args)
    site_id, source = hook.resolve_site_id(), source_name(args)
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(open_ledger(args, hook))
        scope = DocumentScope(hook.site_url(), KINDS[args.kind].endpoint, args.namespace)
        entries = stack.enter_context(
            ledger.documents(scope=scope, site_id=site_id, source=source, run=this_run(), has_groups=True)
        )
        with out.busy("reading the file"):
            if args.gone:
                stale = entries.stale_in_groups(gone_groups(args.file, args), lambda _: False)
            else:
                rows = stack.enter_context(rows_of(args.file, args, site_id))
                seen = plan_load(rows, None, has_groups=bool(args.group))
                stale = entries.stale_in_groups(seen.groups, seen.has) if args.group else entries.stale(seen.has)
        found = [{**_listed(site_id, source, *one[:2]), "group": one.group} for one in stale]
    return _to_delete(out, found, "stale", "group")


@command
def superseded(out: Console, args: argparse.Namespace) -> int:
    """List the documents that were replaced by newer content. Exit code 1 if there are any."""
    with open_ledger(args) as ledger:
        found = [
            _listed(*one) for one in ledger.read(superseded_documents, Selection(args.site, source=args.source_name))
        ]
    return _to_delete(out, found, "superseded")


def _to_delete(out: Console, found: list[dict[str, Any]], what: str, *more: str) -> int:
    out.result(found)
    if found:
        out.table(("site", "source", "label", "document", *more), [list(one.values()) for one in found])
        out.note("The API cannot delete documents. Delete them on the site, then run: ledger forget ID …")
    else:
        out.line(f"Nothing is {what}.", GOOD)
    return WRONG if found else OK


def _listed(site_id: str, source: str, label: str, document_id: str | None) -> dict[str, Any]:
    return {"site_id": site_id, "source": source, "label": label, "document_id": document_id}


# Values of --as, and the outcome in the ledger.
OUTCOMES: dict[str, ByHand] = {"created": "created", "not-created": "failed"}


@command
def resolve(out: Console, args: argparse.Namespace) -> int:
    """Record the outcome of ambiguous entries."""
    if args.outcome == "deleted":
        return forgotten(out, args)
    with open_ledger(args) as ledger:
        selected = _selected(ledger, args)
        for entry, _ in [] if args.force else selected:
            check_not_under_way(entry, "If you are sure that it is not, use --force")
        outcome = OUTCOMES[args.outcome]
        contents = _contents([entry for entry, _ in selected], args) if outcome == "created" and args.file else {}
        for entry, identifier in selected:
            record_outcome(ledger, entry, outcome, identifier=identifier, content_hash=contents.get(entry.key))
    out.result([{**entry.as_dict(), "outcome": outcome, "id": identifier} for entry, identifier in selected])
    for entry, _ in selected:
        out.line(
            f"{kind_name(entry.kind)} {entry.key[:DIGITS]} ({entry.label}) on site {entry.site_id}: {args.outcome}",
            GOOD,
        )
    return OK


def _selected(ledger: Ledger, args: argparse.Namespace) -> list[tuple[AmbiguousEntry, str | None]]:
    """Return the selected entries, each with the id of its document or request if known."""
    if args.id and (args.findings or len(args.entry) != 1):
        raise AssistantInputError("--id needs exactly one ENTRY", field="id")
    selection = Selection(args.site)
    named = [ledger.read(find_ambiguous, ledger.leases, selection, name) for name in args.entry]
    selected = {entry.key: (entry, args.id) for entry in named}
    if args.findings:
        listed = {row["key"]: row["document_ids"] for row in read_findings(args.findings) if row["kind"] == "ambiguous"}
        for entry in _ambiguous(ledger, args):
            if entry.kind != "rating" and entry.label in listed:
                selected.setdefault(entry.key, (entry, next(iter(listed[entry.label]), None)))
    if not selected:
        raise AssistantInputError(
            "no ambiguous entry selected",
            todo="Give ENTRY, or --findings with ambiguous rows.",
            field="entry",
        )
    return list(selected.values())


def _contents(entries: list[AmbiguousEntry], args: argparse.Namespace) -> dict[str, str]:
    """Return the content hash of each entry's row in the source, by key."""
    contents: dict[str, str] = {}
    selected = {entry.key for entry in entries}
    for entry in entries:
        if entry.key not in contents:
            contents |= {row.key: row.content_hash for row in _fingerprints(entry, args) if row.key in selected}
        if entry.key not in contents:
            raise AssistantInputError(
                f"{args.file} has no row with the key of {entry.label!r}",
                todo="Give the same --kind, --key, --column and --constant as the load.",
                field="file",
            )
    return contents


def _fingerprints(entry: AmbiguousEntry, args: argparse.Namespace) -> Iterator[RowFingerprint]:
    with contextlib.ExitStack() as stack:
        if entry.endpoint in {kind.endpoint for kind in KINDS.values()}:
            rows = stack.enter_context(rows_of(args.file, args, entry.site_id))
            for fingerprints in rows.fingerprints():
                yield from fingerprints
        else:
            path = usable_path(args.file)
            as_upload(path)
            yield fingerprint_file(entry.label, path).fingerprint
