"""``airflow assistant limits``."""

from __future__ import annotations

import argparse
from typing import Any

from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.runner import OK, command, open_hook
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.lake.flattening import flatten, with_digits
from airflow_provider_assistant.loading.document_limits import document_limits
from airflow_provider_assistant.loading.limits import lacks_usage, unread_usage


@command
def limits(out: Console, args: argparse.Namespace) -> int:
    """Show the tenant's limits."""
    hook = open_hook(out, args)
    tenant_id = hook.resolve_tenant_id()
    usage = None
    with out.busy("reading limits"):
        reply = hook.get_limits()
        if lacks_usage(reply.raw, args.limits_field):
            usage = _usage(out, hook)
    documents = document_limits(reply.raw, args.limits_field, usage)
    result = {
        "tenant_id": tenant_id,
        "limits": reply.raw,
        "usage": usage,
        "documents_left": documents.left,
    }
    out.result(result)
    out.table(("limit", "value"), [(leaf.metric, leaf.text) for leaf in flatten(with_digits(reply.raw_json or "null"))])
    out.note(str(documents))
    return OK


def _usage(out: Console, hook: AssistantHook) -> Any:
    """Return the usage of the tenant; None, with a note, if it cannot be read."""
    try:
        return hook.get_usage().raw
    except AssistantError as error:
        _, message = unread_usage(error)
        out.note(message)
        return None
