"""``airflow assistant load``: load a file of rows like the load operators, without a DAG."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_assistant.cli.output import BAD, DIM, GOOD, WARNING, Console
from airflow_provider_assistant.cli.rows import document_scope, rows_of, source_name, this_run
from airflow_provider_assistant.cli.runner import INTERRUPTED, OK, WRONG, command, open_hook, open_ledger
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError, AssistantStorageError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger, LoadRecord
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.dry_run import DryRun
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.findings import Finding, FindingsFile, findings_folder
from airflow_provider_assistant.loading.limits import limits_reader
from airflow_provider_assistant.loading.load_client import LoadClient
from airflow_provider_assistant.loading.managed_site import ManagedSite
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
    hook = open_hook(out, args)
    result = _LoadResult()
    with contextlib.ExitStack() as stack:
        rows = stack.enter_context(rows_of(args.file, args, hook.resolve_site_id()))
        ledger = stack.enter_context(open_ledger(args, hook))
        documents = stack.enter_context(
            ledger.documents(
                scope=document_scope(hook, args),
                source=source_name(args),
                run=this_run(),
                has_groups=bool(args.group),
            )
        )
        findings_file = None
        # A dry run writes nothing: this record is not in the ledger.
        record = LoadRecord()
        if not args.dry_run:
            findings_file = stack.enter_context(FindingsFile(_findings_path(args), always=False))
            record = stack.enter_context(_record(ledger, hook, args))
        findings = _ShownFindings(findings_file)
        option_values = {name: getattr(args, name) for name in OPTIONS}
        options = LoadOptions(max_concurrency=hook.settings.client.max_concurrency, **option_values)
        parts: dict[str, Any] = {"rows": rows, "options": options, "ledger": documents, "findings": findings}
        if options.missing_in == "groups" and not args.group:
            raise AssistantInputError(f"--on-missing {options.on_missing} needs --group COLUMN", field="group")
        if options.changes_site:
            # Raises an error if the connection does not allow it.
            hook.document_routes()
        tenant_id = hook.known_tenant_id()
        client_settings = hook.settings.client
        parts["read_limits"] = limits_reader(client_settings, tenant_id, options.on_limit, options.limits_field)
        parts["site"] = ManagedSite.of(hook.resolve_site_id(), hook.settings.documents)
        run_coroutine(_run(out, hook, args.dry_run, result, **parts))
        # A load that ran to its end fails as well if some of its rows failed.
        result.failure = load_failure(result.counts, options, cause=result.cause)
        record.counts = result.counts.as_dict()
        record.error = result.error or result.failure
        if findings_file:
            result.unlisted = findings_file.close()
    if result.error and not result.counts.rows:
        raise result.error
    _show(out, args, hook, result, findings)
    if result.error and not args.dry_run:
        # Also with JSON output.
        out.logged(load_progress(result.engine, options.on_ambiguous), DIM)
    if result.unlisted:
        out.error(str(result.unlisted))
    if result.is_interrupted:
        return INTERRUPTED
    if result.error:
        raise result.error
    return _code_of_rows(out, result)


def _code_of_rows(out: Console, result: _LoadResult) -> int:
    """Return the exit code of a load that ran to its end, and write why some of its rows failed."""
    if result.failure and result.cause and not (result.counts.created or result.counts.rejected):
        # The service answered no request of the load.
        raise result.failure
    if result.failure:
        out.error(str(result.failure))
    return WRONG if result.failure or result.unlisted else OK


def _record(
    ledger: Ledger, hook: AssistantHook, args: argparse.Namespace
) -> contextlib.AbstractContextManager[LoadRecord]:
    return ledger.load(
        scope=document_scope(hook, args),
        source=source_name(args),
        run=this_run(),
    )


@dataclass(slots=True)
class _LoadResult:
    """
    The result of a load, whether it succeeded, failed or was interrupted.

    :param failure: What makes a load fail that ran to its end.
    :param unlisted: The error if the findings cannot be written.
    :param sent: Readable keys of the first rows that were sent.
    """

    counts: LoadCounts = field(default_factory=LoadCounts)
    engine: Load | None = None
    error: AssistantError | None = None
    failure: AssistantError | None = None
    unlisted: AssistantStorageError | None = None
    is_interrupted: bool = False
    sent: list[str] = field(default_factory=list)

    @property
    def cause(self) -> AssistantError | None:
        """The error of the last request whose row failed or is ambiguous."""
        return self.engine.cause if self.engine else None


async def _run(out: Console, hook: AssistantHook, dry_run: bool, result: _LoadResult, **parts: Any) -> None:
    """
    Run a load, and write its counts and its error to ``result``.

    :param parts: Arguments of the engine.
    """

    def remember_sent(row: Any, _reply: Any) -> None:
        if len(result.sent) < SHOWN:
            result.sent.append(row.readable_key)

    engine_class, activity = Load, "loading"
    if dry_run:
        engine_class, activity = DryRun, "checking"
    async with LoadClient(hook.settings.client, parts["options"]) as client:
        engine = engine_class(client, on_created=remember_sent, **parts)
        # The engine updates these counts while it runs.
        result.counts = engine.counts
        result.engine = engine
        with _ended_by_signals(engine, result), out.progress(activity) as show_progress:
            progress_task = asyncio.create_task(_update_progress(engine.counts, show_progress))
            try:
                await engine.run()
            except AssistantError as error:
                result.error = error
            finally:
                progress_task.cancel()


async def _update_progress(counts: LoadCounts, show_progress: Callable[[int, int], None]) -> None:
    while True:
        show_progress(counts.done, counts.rows)
        await asyncio.sleep(TICK)


@contextlib.contextmanager
def _ended_by_signals(engine: Load, result: _LoadResult) -> Iterator[None]:
    """Stop the load on the first SIGINT or SIGTERM and record requests in flight. A second signal ends the process."""
    loop = asyncio.get_running_loop()
    handled_signals = (signal.SIGINT, signal.SIGTERM)

    def remove_handlers() -> None:
        for number in handled_signals:
            loop.remove_signal_handler(number)

    def stop() -> None:
        result.is_interrupted = True
        # Without a handler, the next signal ends the process.
        remove_handlers()
        engine.cancel()

    for number in handled_signals:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        remove_handlers()


class _ShownFindings:
    """
    Keep the first findings for the output, and write all of them to a file.

    :param file: None for a dry run.
    """

    def __init__(self, file: FindingsFile | None) -> None:
        self.file = file
        self.count = 0
        self.first: list[Finding] = []

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(finding)
        if self.file:
            self.file.add(finding)


def _findings_path(args: argparse.Namespace) -> StoragePath:
    if args.findings is not None:
        return writable_file(args.findings, "--findings")
    # Colons are not allowed in the names of files on every system.
    file_name = this_run().run_id.replace(":", "")
    return findings_folder() / "command_line" / f"{file_name}.parquet"


def _show(
    out: Console,
    args: argparse.Namespace,
    hook: AssistantHook,
    result: _LoadResult,
    findings: _ShownFindings,
) -> None:
    counts = result.counts
    attention = drafts_attention(counts)
    style = WARNING if attention else GOOD
    if result.failure or result.error:
        style = BAD if counts.failed else WARNING
    path = findings.file.listed if findings.file else None
    out.result(
        {
            **counts.as_dict(),
            "dry_run": args.dry_run,
            "site_id": hook.resolve_site_id(),
            "source": source_name(args),
            "sent": result.sent,
            "findings": path,
            "listed": [asdict(finding) for finding in findings.first],
            "error": str(result.error) if result.error else None,
        }
    )
    if findings.count:
        cells = [(finding.kind, finding.row, finding.key, finding.reason) for finding in findings.first]
        out.table(("finding", "row", "key", "reason"), cells)
    summary = f"site {hook.resolve_site_id()}: {counts}"
    if args.dry_run:
        out.table(("would send",), [(label,) for label in result.sent])
        more = counts.created - len(result.sent)
        if more:
            out.line(f"… and {more} more")
        summary = f"Dry run, nothing was sent; a load of {summary}"
    out.line(summary, style)
    if path:
        out.note(f"Findings: {findings.count}, all of them in {path}")
    elif findings.count:
        out.note(f"Findings: {findings.count}, {len(findings.first)} of them shown")
    for line in attention or ():
        out.note(line)
