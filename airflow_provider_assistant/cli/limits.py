"""``airflow assistant limits``."""

from __future__ import annotations

import argparse

from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.runner import OK, command, open_hook
from airflow_provider_assistant.lake.flattening import flatten, with_digits
from airflow_provider_assistant.loading.limits import document_limits


@command
def limits(out: Console, args: argparse.Namespace) -> int:
    """Show the tenant's limits."""
    hook = open_hook(out, args)
    tenant_id = hook.resolve_tenant_id()
    with out.busy("reading limits"):
        reply = hook.get_limits()
    documents = document_limits(reply.raw, args.limits_field)
    out.result({"tenant_id": tenant_id, "limits": reply.raw, "documents_left": documents.left})
    out.table(("limit", "value"), [(leaf.metric, leaf.text) for leaf in flatten(with_digits(reply.raw_json or "null"))])
    out.note(str(documents))
    return OK
