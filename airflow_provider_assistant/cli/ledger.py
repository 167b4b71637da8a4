"""``airflow assistant ledger``: list entries of the ledger, and record the outcome of ambiguous ones."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from textwrap import shorten
from typing import Any, Literal, NamedTuple

from airflow_provider_assistant.cli.findings import read_findings
from airflow_provider_assistant.cli.output import GOOD, WARNING, Console
from airflow_provider_assistant.cli.rows import KINDS, document_scope, gone_groups, rows_of, source_name, this_run
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_hook, open_ledger
from airflow_provider_assistant.cli.upkeep import forgotten
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.queries import (
    AmbiguousEntry,
    addresses,
    counts,
    find_ambiguous,
    kind_name,
    page_of_ambiguous,
    superseded_documents,
)
from airflow_provider_assistant.ledger.resolution import ByHand, check_not_under_way
from airflow_provider_assistant.ledger.resolution import resolve as record_outcome
from airflow_provider_assistant.ledger.selection import ALL, Selection
from airflow_provider_assistant.ledger.settling import settle_all
from airflow_provider_assistant.loading.file_rows import fingerprint_file
from airflow_provider_assistant.loading.fingerprints import RowFingerprint
from airflow_provider_assistant.loading.preflight import LoadPlan, plan_load
from airflow_provider_assistant.storage.paths import usable_path
from airflow_provider_assistant.storage.uploads import as_upload
from airflow_provider_assistant.texts import counted

# Length limit of an error in text output, in characters. JSON has the whole error.
ERROR_WIDTH = 60
# Digits of a key in text output. They are unique among millions of keys.
DIGITS = 12


@command
def status(out: Console, args: argparse.Namespace) -> int:
    """Count the entries of the ledger by kind, site and outcome."""
    with open_ledger(args) as ledger:
        url = ledger.engine.url.render_as_string(hide_password=True)
        sites = ledger.read(addresses, Selection(args.site))
        rows = ledger.read(counts, Selection(args.site))
    out.result({"ledger": url, "sites": sites, "counts": rows})
    out.line(f"Ledger: {url}")
    site_cells = [[*list(site.values())[:-1], ", ".join(site["addresses"])] for site in sites]
    out.table(("service", "tenant", "site", "addresses"), site_cells)
    cells = [list(row.values()) for row in rows]
    out.table(("kind", "service", "tenant", "site", "outcome", "entries", "latest"), cells)
    return OK


@command
def ambiguous(out: Console, args: argparse.Namespace) -> int:
    """List the ambiguous entries. Exit code 1 if there are any."""
    with open_ledger(args) as ledger:
        entries = _ambiguous(ledger, args)
    out.result([entry.as_dict() for entry in entries])
    if entries:
        titles = ("key", "kind", "site", "source", "label", "outcome", "claimed", "error")
        out.table(titles, [_entry_cells(entry) for entry in entries])
        out.note("Check the site, then run: ledger resolve KEY … --as created|not-created")
    else:
        out.line("Nothing is ambiguous.", GOOD)
    return WRONG if entries else OK


def _ambiguous(ledger: Ledger, args: argparse.Namespace) -> list[AmbiguousEntry]:
    return ledger.read(page_of_ambiguous, ledger.leases, selected(args), ALL).rows


def selected(args: argparse.Namespace) -> Selection:
    """Return the entries that the filters of a command select."""
    return Selection(args.site, source=args.source_name, label_part=args.contains)


def _entry_cells(entry: AmbiguousEntry) -> list[Any]:
    short_key = entry.key[:DIGITS]
    outcome = "under way?" if entry.may_be_under_way else entry.outcome
    claimed_at = f"{entry.claimed_at:%Y-%m-%d %H:%M:%S}"
    error = shorten(entry.error or "", ERROR_WIDTH, placeholder=" …")
    return [
        short_key,
        entry.kind,
        entry.site_id,
        entry.source,
        entry.label,
        outcome,
        claimed_at,
        error,
    ]


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
        scope = document_scope(hook, args)
        entries = stack.enter_context(ledger.documents(scope=scope, source=source, run=this_run(), has_groups=True))
        if not entries.size():
            raise AssistantInputError(
                f"the ledger has no documents of source {source!r} on site {site_id}",
                todo="Name the source of the load with --source-name. That of a task is dag_id.task_id, that of a "
                "command the path of its file.",
                field="source_name",
            )
        with out.busy("reading the file"):
            if args.gone:
                # The groups have no rows any more: the file names only the groups.
                groups = gone_groups(args.file, args)
                stale_documents = entries.stale_in_groups(groups, lambda _key: False)
            else:
                rows = stack.enter_context(rows_of(args.file, args, site_id))
                seen = plan_load(rows, None, has_groups=bool(args.group))
                _check_keys(seen, args)
                if args.group:
                    stale_documents = entries.stale_in_groups(seen.groups, seen.has)
                else:
                    stale_documents = entries.stale(seen.has)
        listed = []
        # Iterating reads the ledger, so it must still be open.
        for document in stale_documents:
            listed_document = _listed_document(site_id, source, document.label, document.created_id)
            listed.append({**listed_document, "group": document.group})
    return _list_to_delete(out, listed, "stale", "group")


def _check_keys(plan: LoadPlan, args: argparse.Namespace) -> None:
    """Refuse a file if not every key of it, or of one of its groups, is known."""
    if plan.without_key and not plan.groups:
        raise AssistantInputError(
            f"{args.file} has {counted(plan.without_key, 'row')} without a key, or that cannot be read, so that it is "
            "not known which documents are stale",
            todo="Fix these rows. A dry run of the load lists them.",
            field="file",
        )


@command
def superseded(out: Console, args: argparse.Namespace) -> int:
    """List the documents that were replaced by newer content. Exit code 1 if there are any."""
    with open_ledger(args) as ledger:
        documents = ledger.read(superseded_documents, selected(args))
    listed = []
    for site_id, source, label, document_id in documents:
        listed.append(_listed_document(site_id, source, label, document_id))
    return _list_to_delete(out, listed, "superseded")


def _list_to_delete(out: Console, documents: list[dict[str, Any]], state: str, *more_titles: str) -> int:
    """
    List documents that should be deleted, and return the exit code.

    :param documents: One dict per document, with the columns of the table in their order.
    :param state: ``stale`` or ``superseded``, for the message if there are none.
    :param more_titles: Titles of columns after the usual ones.
    """
    out.result(documents)
    if not documents:
        out.line(f"Nothing is {state}.", GOOD)
        return OK
    cells = [list(document.values()) for document in documents]
    out.table(("site", "source", "label", "document", *more_titles), cells)
    out.note("Delete them on the site, then run: ledger forget ID …")
    return WRONG


def _listed_document(site_id: str, source: str, label: str, document_id: str | None) -> dict[str, Any]:
    return {"site_id": site_id, "source": source, "label": label, "document_id": document_id}


# Values of --as, and the outcome in the ledger.
OUTCOMES: dict[str, ByHand] = {"created": "created", "not-created": "failed"}


@command
def resolve(out: Console, args: argparse.Namespace) -> int:
    """Record the outcome of ambiguous entries."""
    if args.all:
        return _resolve_all(out, args)
    if args.outcome == "deleted":
        return forgotten(out, args)
    with open_ledger(args) as ledger:
        selected = _selected(ledger, args)
        entries = [selection.entry for selection in selected]
        if not args.force:
            for entry in entries:
                check_not_under_way(entry, "If you are sure that it is not, use --force")
        outcome = OUTCOMES[args.outcome]
        content_hash_by_key: dict[str, str] = {}
        if outcome == "created" and args.file:
            content_hash_by_key = _content_hashes(entries, args)
        for entry, created_id in selected:
            content_hash = content_hash_by_key.get(entry.key)
            record_outcome(ledger, entry, outcome, identifier=created_id, content_hash=content_hash)
    results = []
    for entry, created_id in selected:
        results.append({**entry.as_dict(), "outcome": outcome, "id": created_id})
    out.result(results)
    for entry in entries:
        kind, short_key = kind_name(entry.kind), entry.key[:DIGITS]
        out.line(f"{kind} {short_key} ({entry.label}) on site {entry.site_id}: {args.outcome}", GOOD)
    return OK


def _resolve_all(out: Console, args: argparse.Namespace) -> int:
    """Settle all entries of a list that match, or say how many, and how to confirm it. Then the exit code is 1."""
    if args.entry or args.findings or args.id or args.file or args.force:
        raise AssistantInputError(
            "--all does not go with ENTRY, --findings, --id, --file or --force",
            todo="Use --site, --source-name and --contains to select fewer entries.",
            field="all",
        )
    outcome: ByHand | Literal["deleted"] = "deleted"
    if args.outcome != "deleted":
        outcome = OUTCOMES[args.outcome]
    with open_ledger(args) as ledger:
        report = settle_all(ledger, args.all, selected(args), outcome, confirmation=args.confirm)
    is_done = args.confirm is not None
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
    subject = counted(report.settled, "entry would be", "entries would be")
    if is_done:
        subject = counted(report.settled, "entry was", "entries were")
    where = f" on {', '.join(sites)}" if sites else ""
    out.line(f"{subject} settled as {args.outcome}{where}.", GOOD if is_done else "")
    for reason, count in report.kept.most_common():
        out.line(f"{count:,} more stay as they are. {reason}", WARNING)
    if is_done or not report.settled:
        return OK
    out.note(f"Nothing is changed yet. To settle exactly these, add: --confirm {report.confirmation}")
    return WRONG


class _SelectedEntry(NamedTuple):
    """
    An entry to resolve.

    :param created_id: Id of its document or request; None if not known.
    """

    entry: AmbiguousEntry
    created_id: str | None


def _selected(ledger: Ledger, args: argparse.Namespace) -> list[_SelectedEntry]:
    """Return the entries that the arguments and the findings file select."""
    if args.id and (args.findings or len(args.entry) != 1):
        raise AssistantInputError("--id needs exactly one ENTRY", field="id")
    selection = selected(args)
    selected_by_key: dict[str, _SelectedEntry] = {}
    for key in args.entry:
        entry = ledger.read(find_ambiguous, ledger.leases, selection, key)
        selected_by_key[entry.key] = _SelectedEntry(entry, args.id)
    if args.findings:
        document_ids_by_label: dict[str, list[str]] = {}
        for row in read_findings(args.findings):
            if row["kind"] == "ambiguous":
                document_ids_by_label[row["key"]] = row["document_ids"]
        for entry in _ambiguous(ledger, args):
            # A load has no ratings, but the label of one may be equal to the key of a row.
            if entry.kind == "rating" or entry.label not in document_ids_by_label:
                continue
            document_ids = document_ids_by_label[entry.label]
            first_id = document_ids[0] if document_ids else None
            # An entry that the arguments name keeps the id that they give.
            selected_by_key.setdefault(entry.key, _SelectedEntry(entry, first_id))
    if not selected_by_key:
        raise AssistantInputError(
            "no ambiguous entry selected",
            todo="Give ENTRY, or --findings with ambiguous rows.",
            field="entry",
        )
    return list(selected_by_key.values())


def _content_hashes(entries: list[AmbiguousEntry], args: argparse.Namespace) -> dict[str, str]:
    """Return the content hash of each entry's row in the source, by key."""
    content_hash_by_key: dict[str, str] = {}
    selected_keys = {entry.key for entry in entries}
    for entry in entries:
        # One pass over the source usually finds the rows of all entries.
        if entry.key not in content_hash_by_key:
            for row in _fingerprints(entry, args):
                if row.key in selected_keys:
                    content_hash_by_key[row.key] = row.content_hash
        if entry.key not in content_hash_by_key:
            raise AssistantInputError(
                f"{args.file} has no row with the key of {entry.label!r}",
                todo="Give the same --kind, --key, --column and --constant as the load.",
                field="file",
            )
    return content_hash_by_key


def _fingerprints(entry: AmbiguousEntry, args: argparse.Namespace) -> Iterator[RowFingerprint]:
    """Yield the fingerprints of the source: of its rows, or of the uploaded file itself."""
    row_endpoints = {kind.endpoint for kind in KINDS.values()}
    if entry.endpoint in row_endpoints:
        with rows_of(args.file, args, entry.site_id) as rows:
            for fingerprints in rows.fingerprints():
                yield from fingerprints
    else:
        path = usable_path(args.file)
        # This raises if the file could not have been uploaded.
        as_upload(path)
        yield fingerprint_file(entry.label, path).fingerprint
