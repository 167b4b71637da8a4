"""``airflow assistant documents``: list the documents of a site, and compare them with the ledger."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from typing import Any

from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.cli.output import GOOD, WARNING, Console
from airflow_provider_assistant.cli.rows import command_run, document_scope, rows_of, source_name
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_hook
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.loading.reconcile import Difference, Reconciliation
from airflow_provider_assistant.texts import counted

# Rows of a list that are shown.
SHOWN = 20


@command
def list_documents(out: Console, args: argparse.Namespace) -> int:
    """List the documents of a site."""
    hook = open_hook(out, args)
    with out.busy("reading the list"):
        documents = list(hook.list_documents())
    out.result([_values(document) for document in documents])
    _table(out, documents)
    return OK


@command
def check(out: Console, args: argparse.Namespace) -> int:
    """Read the list of documents once, and show what is understood of it. Exit code 1 if it is too little."""
    hook = open_hook(out, args)
    routes = hook.document_routes()
    with out.busy("reading the list"):
        documents = list(hook.list_documents())
    states = Counter(document.state for document in documents)
    unknown_words = Counter(document.status or "" for document in documents if document.state == "other")
    shown = {
        "title": sum(1 for document in documents if document.title),
        "status": sum(1 for document in documents if document.status),
        "time of creation": sum(1 for document in documents if document.created_at),
        "content": sum(1 for document in documents if document.content),
    }
    missing = [name for name, count in shown.items() if documents and not count]
    passed = not unknown_words and "title" not in missing and "status" not in missing
    out.result(
        {
            "passed": passed,
            "documents": len(documents),
            "states": dict(states),
            "unknown_words": dict(unknown_words),
            "not_shown": missing,
            "routes": routes.model_dump(mode="json"),
        }
    )
    out.line(f"{hook.location()}: {counted(len(documents), 'document')}", GOOD if passed else WARNING)
    out.table(("state", "documents"), sorted(states.items()))
    if missing:
        out.note(f"The list shows no {', no '.join(missing)}. status_field in manage_documents names the status.")
    for word, count in unknown_words.most_common():
        out.note(
            f"{count} have the status {word!r}, whose meaning is not known: add it to the words in manage_documents."
        )
    if documents:
        out.note(f"The fields of a document: {', '.join(sorted(map(str, documents[0].raw)))}.")
    return OK if passed else WRONG


@command
def reconcile_documents(out: Console, args: argparse.Namespace) -> int:
    """Compare the ledger with the documents of a site. Exit code 1 if they differ."""
    hook = open_hook(out, args)
    scope = document_scope(hook, args)
    rows = rows_of(args.file, args, scope.site.site_id) if args.file else None
    source = source_name(args) if args.file else "documents reconcile"

    async def compare() -> Difference:
        async with AssistantClient(hook.settings.client) as client:
            reconciliation = Reconciliation(client, hook.document_routes(), ledger, attempts)
            return await reconciliation.compare(rows, apply=args.apply)

    with (
        Ledger.open() as ledger,
        ledger.of(scope, source, command_run()) as attempts,
        out.busy("reading the list"),
    ):
        difference = run_coroutine(compare())
    missing = [
        {"label": entry["label"], "source": entry["source"], "document_id": entry["remote_id"]}
        for entry in difference.missing
    ]
    out.result(
        {
            "unknown": [_values(document) for document in difference.unknown],
            "missing": missing,
            "adopted": difference.adopted,
            "applied": args.apply,
        }
    )
    done = "is recorded" if args.apply else "would be recorded with --apply"
    out.line(f"{counted(len(difference.unknown), 'document')} of the site not in the ledger.")
    _table(out, difference.unknown[:SHOWN])
    out.line(f"{counted(len(missing), 'document')} of the ledger not on the site; that they are removed {done}.")
    out.table(("label", "source", "document"), [tuple(one.values()) for one in missing[:SHOWN]])
    if rows is not None:
        out.line(f"{counted(len(difference.adopted), 'row')} whose document was unknown; it {done}.")
    differs = bool(difference.unknown or missing)
    return WRONG if differs else OK


def _values(document: SiteDocument) -> dict[str, Any]:
    return {
        "document_id": document.document_id,
        "state": document.state,
        "status": document.status,
        "title": document.title,
        "created_at": _iso(document.created_at),
        "updated_at": _iso(document.updated_at),
    }


def _table(out: Console, documents: Iterable[SiteDocument]) -> None:
    cells = [tuple(_values(document).values()) for document in documents]
    out.table(("id", "state", "status", "title", "created", "updated"), cells)


def _iso(moment: Any) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None
