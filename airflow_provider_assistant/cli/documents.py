"""``airflow assistant documents``: list the documents of a site, and compare them with the ledger."""

from __future__ import annotations

import argparse
from collections import Counter
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


@command
def list_documents(out: Console, args: argparse.Namespace) -> int:
    """List the documents of a site."""
    hook = open_hook(out, args)
    with out.busy("reading the list"):
        documents = [_values(document) for document in hook.list_documents()]
    out.result(documents, documents, text=None if documents else "No document.")
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
    fields = {"title": "title", "status": "status", "created_at": "time of creation", "content": "content"}
    missing = []
    for field, name in fields.items():
        if documents and not any(getattr(document, field) for document in documents):
            missing.append(name)
    passed = not unknown_words and "title" not in missing and "status" not in missing
    out.result(
        {
            "passed": passed,
            "documents": len(documents),
            "states": dict(states),
            "unknown_words": dict(unknown_words),
            "not_shown": missing,
            "routes": routes.model_dump(mode="json"),
        },
        [{"state": state, "documents": count} for state, count in sorted(states.items())],
        text=f"{hook.location()}: {counted(len(documents), 'document')}",
        style=GOOD if passed else WARNING,
    )
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
    rows = rows_of(args, scope.site.site_id) if args.file else None
    source = source_name(args) if args.file else "documents reconcile"

    async def compare() -> Difference:
        async with AssistantClient(hook.settings.client) as client:
            reconciliation = Reconciliation(client, hook.document_routes(), ledger, attempts)
            return await reconciliation.compare(rows, apply=args.apply)

    with Ledger.open() as ledger, ledger.of(scope, source, command_run()) as attempts, out.busy("reading the list"):
        difference = run_coroutine(compare())
    unknown = [_values(document) for document in difference.unknown]
    missing = [
        {"label": entry["label"], "source": entry["source"], "document_id": entry["remote_id"]}
        for entry in difference.missing
    ]
    done = "is recorded" if args.apply else "would be recorded with --apply"
    sentences = [
        f"{counted(len(unknown), 'document')} of the site not in the ledger.",
        f"{counted(len(missing), 'document')} of the ledger not on the site; that they are removed {done}.",
    ]
    if rows is not None:
        sentences.append(f"{counted(len(difference.adopted), 'row')} whose document was unknown; it {done}.")
    result = {"unknown": unknown, "missing": missing, "adopted": difference.adopted, "applied": args.apply}
    out.result(result, unknown, missing, text="\n".join(sentences))
    return WRONG if unknown or missing else OK


def _values(document: SiteDocument) -> dict[str, Any]:
    return {
        "document_id": document.document_id,
        "state": document.state,
        "status": document.status,
        "title": document.title,
        "created_at": document.created_at,
        "updated_at": document.updated_at,
    }
