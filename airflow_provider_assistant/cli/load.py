"""``airflow assistant load``: load a file of rows like the load operators, without a DAG."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict

from airflow_provider_assistant.cli.output import BAD, DIM, GOOD, WARNING, Console
from airflow_provider_assistant.cli.rows import command_run, document_scope, rows_of, source_name
from airflow_provider_assistant.cli.runner import INTERRUPTED, OK, WRONG, command, open_hook
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger, RunRef
from airflow_provider_assistant.ledger.queries import documents_of
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.findings import Finding, FindingsFile, findings_folder
from airflow_provider_assistant.loading.load import Load, LoadJob
from airflow_provider_assistant.loading.options import OPTIONS, LoadOptions
from airflow_provider_assistant.operators.load_counts import drafts_attention, load_failure, load_progress
from airflow_provider_assistant.storage.paths import StoragePath, writable_file

# Maximum number of rows and findings in the output. The findings file has all findings.
SHOWN = 20
# Seconds between two updates of the progress bar.
TICK = 0.1


@command
def load(out: Console, args: argparse.Namespace) -> int:
    """Load the rows that are not yet loaded, or show them with ``--dry-run``."""
    hook = open_hook(out, args, waits=True)
    options = LoadOptions(**{name: getattr(args, name) for name in OPTIONS})
    if options.missing_in == "groups" and not args.group:
        raise AssistantInputError("--missing-in groups needs --group COLUMN", field="group")
    run = command_run()
    scope = document_scope(hook, args)
    source = source_name(args)
    job = LoadJob(
        rows=rows_of(args.file, args, scope.site.site_id),
        options=options,
        settings=hook.settings.client,
        routes=hook.settings.documents,
        tenant_id=hook.known_tenant_id(),
        dry_run=args.dry_run,
    )
    error: AssistantError | None = None
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(Ledger.open())
        attempts = stack.enter_context(ledger.of(scope, source, run))
        findings = _ShownFindings()
        # A dry run writes nothing.
        this_try = None
        if not args.dry_run:
            this_try = stack.enter_context(ledger.record_try(attempts, "load"))
            findings.file = stack.enter_context(FindingsFile(_findings_path(args, run), always=False))
        running = Load(job, ledger, attempts, findings)
        is_interrupted = False
        try:
            is_interrupted = run_coroutine(_run(out, running, args.dry_run))
        except AssistantError as stopped:
            error = stopped
        failure = error or load_failure(running, options)
        unlisted = findings.file.close() if findings.file else None
        if this_try:
            this_try.counts = running.counts.as_dict()
            this_try.findings = findings.listed
            this_try.first_findings = findings.file.first if findings.file else ()
            this_try.error = failure
            this_try.needs_person = running.counts.need_person
        if this_try and not error:
            this_try.documents = ledger.read(documents_of, scope, source)
    if error and not running.counts.rows:
        raise error
    _show(out, args, hook, running, findings, error)
    if unlisted and failure:
        out.error(str(unlisted))
    if is_interrupted:
        return INTERRUPTED
    return _code_of(out, running, error, failure or unlisted)


def _code_of(out: Console, running: Load, error: AssistantError | None, failure: AssistantError | None) -> int:
    """Return the exit code of a load; raise the error that stopped it, or that every request has met."""
    if error:
        raise error
    if failure and running.cause and not (running.counts.created or running.counts.rejected):
        raise failure
    if failure:
        out.error(str(failure))
    return WRONG if failure else OK


async def _run(out: Console, running: Load, dry_run: bool) -> bool:
    """Run a load. Return whether a signal ended it."""
    with _ended_by_signals(running) as interruption, out.progress("checking" if dry_run else "loading") as show:
        progress = asyncio.create_task(_update_progress(running.counts, show))
        try:
            await running.run()
        except AssistantError:
            if not interruption.is_set():
                raise
        finally:
            progress.cancel()
    return interruption.is_set()


async def _update_progress(counts: LoadCounts, show_progress: Callable[[int, int], None]) -> None:
    while True:
        show_progress(counts.done, counts.rows)
        await asyncio.sleep(TICK)


@contextlib.contextmanager
def _ended_by_signals(running: Load) -> Iterator[asyncio.Event]:
    """Stop the load on the first SIGINT or SIGTERM and record requests in flight. A second signal ends the process."""
    loop = asyncio.get_running_loop()
    handled_signals = (signal.SIGINT, signal.SIGTERM)
    interruption = asyncio.Event()

    def remove_handlers() -> None:
        for number in handled_signals:
            loop.remove_signal_handler(number)

    def stop() -> None:
        interruption.set()
        # Without a handler, the next signal ends the process.
        remove_handlers()
        running.cancel()

    for number in handled_signals:
        loop.add_signal_handler(number, stop)
    try:
        yield interruption
    finally:
        remove_handlers()


class _ShownFindings:
    """Keep the first findings for the output, and write all of them to a file, if there is one."""

    def __init__(self) -> None:
        self.file: FindingsFile | None = None
        self.count = 0
        self.first: list[Finding] = []

    @property
    def listed(self) -> str | None:
        """Path of the file; None if there is none."""
        return self.file.listed if self.file else None

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(finding)
        if self.file:
            self.file.add(finding)


def _findings_path(args: argparse.Namespace, run: RunRef) -> StoragePath:
    if args.findings is not None:
        return writable_file(args.findings, "--findings")
    # Colons are not allowed in the names of files on every system.
    return findings_folder() / "command_line" / f"{run.run_id.replace(':', '')}.parquet"


def _show(
    out: Console,
    args: argparse.Namespace,
    hook: AssistantHook,
    running: Load,
    findings: _ShownFindings,
    error: AssistantError | None,
) -> None:
    counts = running.counts
    attention = drafts_attention(counts)
    result = {
        **counts.as_dict(),
        "dry_run": args.dry_run,
        "site_id": hook.resolve_site_id(),
        "source": source_name(args),
        "sent": running.sent,
        "findings": findings.listed,
        "listed": [asdict(finding) for finding in findings.first],
        "error": str(error) if error else None,
    }
    out.result(result)
    if findings.count:
        cells = [(finding.kind, finding.row, finding.key, finding.reason) for finding in findings.first]
        out.table(("finding", "row", "key", "reason"), cells)
    style = GOOD
    if attention or error or counts.ambiguous:
        style = WARNING
    if counts.failed or counts.rejected:
        style = BAD
    summary = f"site {hook.resolve_site_id()}: {counts}"
    if args.dry_run:
        out.table(("would send",), [(label,) for label in running.sent])
        if counts.created > len(running.sent):
            out.line(f"… and {counts.created - len(running.sent):,} more")
        summary = f"Dry run, nothing was sent; a load of {summary}"
    out.line(summary, style)
    if findings.listed:
        out.note(f"Findings: {findings.count}, all of them in {findings.listed}")
    elif findings.count:
        out.note(f"Findings: {findings.count}, {len(findings.first)} of them shown")
    for line in attention or ():
        out.note(line)
    if error and not args.dry_run:
        # Also with JSON output.
        out.logged(load_progress(running, running.options.on_ambiguous), DIM)
