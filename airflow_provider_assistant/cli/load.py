"""``airflow assistant load``: load a file of rows like the load operators, without a DAG."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import asdict

from airflow_provider_assistant.cli.interruptions import ending
from airflow_provider_assistant.cli.output import BAD, DIM, GOOD, WARNING, Console
from airflow_provider_assistant.cli.rows import command_run, document_scope, rows_of, source_name
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_hook
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.findings import FindingsFile, findings_folder
from airflow_provider_assistant.loading.load import Load, LoadJob
from airflow_provider_assistant.loading.options import OPTIONS, LoadOptions
from airflow_provider_assistant.loading.run import drafts_warning, end_of_load, load_progress, opened_load
from airflow_provider_assistant.storage.opening import writable_parquet_file

# Seconds between two updates of the progress bar.
TICK = 0.1


@command
def load(out: Console, args: argparse.Namespace) -> int:
    """Load the rows that are not yet loaded, or show them with ``--dry-run``. Exit code 1 if rows are left."""
    hook = open_hook(out, args, waits=True)
    options = LoadOptions(**{name: getattr(args, name) for name in OPTIONS})
    if options.missing_in == "groups" and not args.group:
        raise AssistantInputError("--missing-in groups needs --group COLUMN", field="group")
    run = command_run()
    scope = document_scope(hook, args)
    site_id = scope.site.site_id
    rows = rows_of(args, site_id)
    job = LoadJob(
        rows=lambda: rows,
        options=options,
        settings=hook.settings.client,
        routes=hook.settings.documents,
        tenant_id=hook.known_tenant_id(),
        dry_run=args.dry_run,
    )
    running: Load | None = None
    failure: AssistantError | None = None
    try:
        with opened_load(job, scope, source_name(args), run, _findings(args, run)) as running:
            with ending(running.cancel):
                run_coroutine(_run(out, running, args.dry_run))
            failure = end_of_load(running)
            if failure:
                raise failure
    except (AssistantError, KeyboardInterrupt) as error:
        if running is None or not (failure or running.counts.rows):
            raise
        message = str(error) or "interrupted"
        if failure and args.dry_run:
            # What is safe, and what to do, are those of a load.
            message = failure.happened
        _show(out, args, running, site_id, message)
        counts = running.counts
        is_of_all_rows = running.cause and not (counts.created or counts.rejected)
        if failure and not is_of_all_rows:
            out.error(message)
            return WRONG
        if not args.dry_run:
            # For programs as well.
            out.logged(load_progress(running), DIM)
        raise
    _show(out, args, running, site_id, None)
    return OK


def _findings(args: argparse.Namespace, run: RunRef) -> FindingsFile:
    if args.dry_run:
        return FindingsFile(None)
    if args.findings is not None:
        return FindingsFile(writable_parquet_file(args.findings, "--findings"), always=False)
    # Colons are not allowed in the names of files on every system.
    return FindingsFile(findings_folder() / "command_line" / f"{run.run_id.replace(':', '')}.parquet", always=False)


async def _run(out: Console, running: Load, dry_run: bool) -> None:
    """Run a load, and show its progress."""
    with out.progress("checking" if dry_run else "loading") as show:
        progress = asyncio.create_task(_update_progress(running.counts, show))
        try:
            await running.run()
        finally:
            progress.cancel()


async def _update_progress(counts: LoadCounts, show_progress: Callable[[int, int], None]) -> None:
    while True:
        show_progress(counts.done, counts.rows)
        await asyncio.sleep(TICK)


def _show(out: Console, args: argparse.Namespace, running: Load, site_id: str, error: str | None) -> None:
    """Show what a load has done, and the first findings."""
    counts, findings = running.counts, running.findings
    result = {
        "dry_run": args.dry_run,
        "site_id": site_id,
        "source": source_name(args),
        "sent": running.sent,
        "findings": findings.listed,
        "listed": [asdict(finding) for finding in findings.first],
        "error": error,
    }
    names = ("kind", "row", "key", "reason")
    listed = [{name: getattr(finding, name) for name in names} for finding in findings.first]
    sent = [{"would send": label} for label in running.sent] if args.dry_run else []
    text = f"site {site_id}: {counts}"
    if args.dry_run:
        text = f"Dry run, nothing was sent; a load of {text}"
    warning = drafts_warning(running)
    needs_look = warning or error or counts.ambiguous
    style = BAD if counts.failed or counts.rejected else WARNING if needs_look else GOOD
    out.result(counts.as_dict() | result, listed, sent, text=text, style=style)
    if findings.listed:
        out.note(f"Findings: {findings.count}, all of them in {findings.listed}")
    if warning:
        out.note(warning)
