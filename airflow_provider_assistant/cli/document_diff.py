"""``airflow assistant documents diff``: compare the ledger with the documents of a site."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.cli.output import GOOD, WARNING, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_hook, open_ledger
from airflow_provider_assistant.loading.site_diff import Difference, SiteDiff, compare
from airflow_provider_assistant.storage.paths import writable_file

# Maximum number of unknown documents in text output. JSON and Parquet have all of them.
SHOWN = 20
TITLES = ("difference", "document", "title", "status", "source", "key", "same as")


@command
def diff(out: Console, args: argparse.Namespace) -> int:
    """Compare the ledger with the documents of a site. Exit code 1 if documents need attention."""
    if args.save:
        writable_file(args.save, "--save")
    hook = open_hook(out, args)
    site = hook.site()
    compared_at = datetime.now(UTC)
    with open_ledger(args, hook) as ledger, out.busy("comparing"):
        found = compare(ledger, site, hook.list_documents)
    if args.save:
        _save(args.save, found, {"compared_at": compared_at, **site.columns()})
    differences = [difference.as_dict() for difference in found.differences]
    out.result(
        {
            "site_id": site.site_id,
            **found.counts(),
            "differences": differences,
            "saved": args.save,
        }
    )
    _show(out, site.site_id, found)
    if args.save:
        out.note(f"Saved: {args.save}")
    return WRONG if found.problems else OK


def _save(path: str, found: SiteDiff, common: dict[str, Any]) -> None:
    rows = [{**common, **asdict(difference)} for difference in found.differences]
    table = lake.rows_table(lake.DOCUMENT_DIFFERENCES, rows)
    lake.replace(table, ObjectStoragePath(path))


def _show(out: Console, site_id: str, found: SiteDiff) -> None:
    unknown = [difference for difference in found.differences if difference.kind == "unknown"]
    listed = [*found.problems, *unknown[:SHOWN]]
    if listed:
        out.table(TITLES, [_cells(difference) for difference in listed])
    if len(unknown) > SHOWN:
        out.line(f"… and {len(unknown) - SHOWN} more that the ledger does not know")
    out.line(f"site {site_id}: {found.summary()}", WARNING if found.problems else GOOD)


def _cells(difference: Difference) -> list[str | None]:
    return [
        difference.kind.replace("_", " "),
        difference.document_id,
        difference.title,
        difference.status,
        difference.source,
        difference.label,
        difference.other_id,
    ]
