"""``airflow assistant documents``: list the documents of a site, and check the routes for them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from airflow_provider_assistant.api.document_routes import DocumentRoutes
from airflow_provider_assistant.cli.document_changes import ChangeCheck
from airflow_provider_assistant.cli.document_list import CheckResult, check_list
from airflow_provider_assistant.cli.output import BAD, DIM, GOOD, WARNING, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_hook
from airflow_provider_assistant.exceptions import AssistantInputError

# Longest --timeout: a day.
LONGEST = 86_400.0
STYLES = {"ok": GOOD, "problem": BAD, "absent": DIM}


@command
def list_documents(out: Console, args: argparse.Namespace) -> int:
    """List the documents of a site."""
    hook = open_hook(out, args)
    rows = []
    with out.busy("reading the list"):
        for document in hook.list_documents():
            values = (
                document.document_id,
                document.state,
                document.status,
                document.title,
                _iso(document.created_at),
                _iso(document.updated_at),
            )
            rows.append(values)
    columns = ("document_id", "state", "status", "title", "created_at", "updated_at")
    out.result([dict(zip(columns, row, strict=True)) for row in rows])
    out.table(("id", "state", "status", "title", "created", "updated"), rows)
    return OK


def _iso(moment: Any) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None


@command
def check(out: Console, args: argparse.Namespace) -> int:
    """Check the routes of documents. Exit code 1 if one does not work or is not understood."""
    if not 0 < args.timeout <= LONGEST:
        raise AssistantInputError(
            f"--timeout must be more than 0 and at most {LONGEST:.0f} seconds, not {args.timeout}",
            field="timeout",
        )
    hook = open_hook(out, args)
    is_managed = hook.settings.documents is not None
    if not is_managed:
        out.note(f"Connection {args.conn_id!r} does not manage documents yet: checking the usual routes.")
    with out.busy("reading the list"):
        report = check_list(hook, hook.settings.documents or DocumentRoutes())
    _show(out, report.results)
    routes = report.routes
    steps: list[CheckResult] = []
    left = None
    if args.write and report.is_readable:
        changes = ChangeCheck(hook, routes, args.timeout, is_empty=not report.documents)
        try:
            for step in changes.results():
                _show(out, [step])
                steps.append(step)
        finally:
            left = changes.left
            if left:
                out.logged(f"Left at {hook.location()}: {left}. Delete it there.", WARNING)
        routes = changes.routes
    elif args.write:
        out.line("Nothing was created: the list must be readable first.", WARNING)
    setting = _setting(routes)
    text = json.dumps(setting, ensure_ascii=False)
    out.line(f'Extra of connection {args.conn_id!r}: "manage_documents": {text}')
    passed = all(result.verdict != "problem" for result in (*report.results, *steps))
    passed = passed and left is None and (report.is_readable or not args.write)
    out.result(
        {
            "passed": passed,
            "is_managed": is_managed,
            "site_url": hook.site().url,
            "list": report.as_dict(),
            "steps": [asdict(step) for step in steps],
            "left": left,
            "manage_documents": setting,
        }
    )
    return OK if passed else WRONG


def _show(out: Console, results: Iterable[CheckResult]) -> None:
    for result in results:
        style = STYLES[result.verdict]
        seconds = "" if result.seconds is None else f"{result.seconds:.2f} s"
        out.fields(
            (result.verdict, style, 7),
            (result.step, "", 10),
            (seconds, DIM, 8),
            (result.detail, DIM, 0),
        )


def _setting(routes: DocumentRoutes) -> bool | dict[str, Any]:
    """Return ``manage_documents`` of the connection: what differs from the usual routes."""
    return routes.model_dump(mode="json", exclude_defaults=True) or True
