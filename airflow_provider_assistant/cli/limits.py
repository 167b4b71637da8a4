"""``airflow assistant limits``."""

from __future__ import annotations

import argparse

from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.runner import OK, command, open_hook
from airflow_provider_assistant.lake.flattening import flatten


@command
def limits(out: Console, args: argparse.Namespace) -> int:
    """Show the tenant's limits."""
    hook = open_hook(out, args)
    tenant_id = hook.resolve_tenant_id()
    with out.busy("reading limits"):
        raw = hook.get_limits().raw
    out.result({"tenant_id": tenant_id, "limits": raw})
    out.table(("limit", "value"), [(leaf.metric, leaf.text) for leaf in flatten(raw)])
    return OK
