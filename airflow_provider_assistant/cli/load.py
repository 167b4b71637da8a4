"""``airflow assistant load``: load a file of rows like the load operators, without a DAG."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_assistant.cli.output import BAD, GOOD, WARNING, Console
from airflow_provider_assistant.cli.rows import KINDS, rows_of, source_name, this_run
from airflow_provider_assistant.cli.runner import INTERRUPTED, OK, WRONG, command, open_hook, open_ledger
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import DocumentScope, Ledger, LoadRecord
from airflow_provider_assistant.loading.dry_run import DryRun
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.findings import Finding, FindingsFile, findings_folder
from airflow_provider_assistant.loading.limits import limits_reader
from airflow_provider_assistant.loading.load_client import LoadClient
from airflow_provider_assistant.loading.options import OPTIONS, LoadOptions
from airflow_provider_assistant.loading.report import LoadCounts
from airflow_provider_assistant.operators.load_counts import load_failure
from airflow_provider_assistant.storage.paths import StoragePath, writable_file

# Maximum number of rows and findings in the output. The findings file has all findings.
SHOWN = 20
# Seconds between two updates of the progress bar.
TICK = 0.1


@command
def load(out: Console, args: argparse.Namespace) -> int:
    """Load the rows that are not yet loaded, or show them with ``--dry-run``."""
    hook = open_hook(out, args)
    done = _Done()
    with contextlib.ExitStack() as stack:
        rows = stack.enter_context(rows_of(args.file, args, hook.resolve_site_id()))
        ledger = stack.enter_context(open_ledger(args, hook))
        documents = stack.enter_context(
            ledger.documents(
                scope=DocumentScope(hook.site_url(), KINDS[args.kind].endpoint, args.namespace),
                site_id=hook.resolve_site_id(),
                source=source_name(args),
                run=this_run(),
                has_groups=bool(args.group),
            )
        )
        file = None if args.dry_run else stack.enter_context(FindingsFile(_findings_path(args), always=False))
        findings = _Shown(file)
        record = LoadRecord() if args.dry_run else stack.enter_context(_record(ledger, hook, args))
        given = {name: getattr(args, name) for name in OPTIONS}
        options = LoadOptions(max_concurrency=hook.settings.client.max_concurrency, **given)
        parts: dict[str, Any] = {"rows": rows, "options": options, "ledger": documents, "findings": findings}
        if options.on_missing == "group" and not args.group:
            raise AssistantInputError("--on-missing group needs --group COLUMN", field="group")
        parts["read_limits"] = limits_reader(hook.settings.client, hook.known_tenant_id(), options.on_limit)
        run_coroutine(_run(out, hook, args.dry_run, done, **parts))
        flaw = load_failure(done.counts, options)
        record.counts, record.error = done.counts.as_dict(), done.error or flaw
    if done.error and not done.counts.rows:
        raise done.error
    is_good = not flaw
    style = GOOD if is_good and not done.error else BAD if done.counts.failed else WARNING
    _show(out, args, hook, done, findings, style)
    if done.is_interrupted:
        return INTERRUPTED
    if done.error:
        raise done.error
    return OK if is_good else WRONG


def _record(
    ledger: Ledger, hook: AssistantHook, args: argparse.Namespace
) -> contextlib.AbstractContextManager[LoadRecord]:
    endpoint, source = KINDS[args.kind].endpoint, source_name(args)
    return ledger.load(
        site_url=hook.site_url(),
        endpoint=endpoint,
        site_id=hook.resolve_site_id(),
        source=source,
        run=this_run(),
    )


@dataclass(slots=True)
class _Done:
    """The result of a load, whether it succeeded, failed or was interrupted."""

    counts: LoadCounts = field(default_factory=LoadCounts)
    error: AssistantError | None = None
    is_interrupted: bool = False
    sent: list[str] = field(default_factory=list)


async def _run(out: Console, hook: AssistantHook, dry_run: bool, done: _Done, **parts: Any) -> None:
    def sent(row: Any, _reply: Any) -> None:
        if len(done.sent) < SHOWN:
            done.sent.append(row.readable_key)

    async with LoadClient(hook.settings.client, parts["options"]) as client:
        this = (DryRun if dry_run else Load)(client, on_created=sent, **parts)
        done.counts = this.counts
        with _ended_by_signals(this, done), out.progress("checking" if dry_run else "loading") as shown:
            watching = asyncio.create_task(_watch(this.counts, shown))
            try:
                await this.run()
            except AssistantError as error:
                done.error = error
            finally:
                watching.cancel()


async def _watch(counts: LoadCounts, shown: Callable[[int, int], None]) -> None:
    while True:
        shown(counts.done, counts.rows)
        await asyncio.sleep(TICK)


@contextlib.contextmanager
def _ended_by_signals(this: Load, done: _Done) -> Iterator[None]:
    """Stop the load on the first SIGINT or SIGTERM and record requests in flight. A second signal ends the process."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def end() -> None:
        done.is_interrupted = True
        for number in numbers:
            loop.remove_signal_handler(number)
        this.cancel()

    for number in numbers:
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class _Shown:
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
    run = this_run()
    return findings_folder() / "command_line" / f"{run.run_id.replace(':', '')}.parquet"


def _show(
    out: Console, args: argparse.Namespace, hook: AssistantHook, done: _Done, findings: _Shown, style: str
) -> None:
    counts = done.counts
    path = findings.file.listed if findings.file else None
    out.result(
        {
            **counts.as_dict(),
            "dry_run": args.dry_run,
            "site_id": hook.resolve_site_id(),
            "source": source_name(args),
            "sent": done.sent,
            "findings": path,
            "listed": [asdict(finding) for finding in findings.first],
            "error": str(done.error) if done.error else None,
        }
    )
    if findings.count:
        listed = [(one.kind, one.row, one.key, one.reason) for one in findings.first]
        out.table(("finding", "row", "key", "reason"), listed)
    if args.dry_run:
        out.table(("would send",), [(label,) for label in done.sent])
        if more := counts.created - len(done.sent):
            out.line(f"… and {more} more")
    out.line(
        f"{'Dry run, nothing was sent; a load of ' if args.dry_run else ''}site {hook.resolve_site_id()}: {counts}",
        style,
    )
    if path:
        out.note(f"Findings: {findings.count}, all of them in {path}")
    elif findings.count:
        out.note(f"Findings: {findings.count}, {len(findings.first)} of them shown")
