"""``airflow assistant read``."""

from __future__ import annotations

import argparse

from airflow_provider_assistant.api.reads import with_query
from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.rows import pairs
from airflow_provider_assistant.cli.runner import OK, command, open_hook
from airflow_provider_assistant.lake.flattening import flatten, with_digits


@command
def read(out: Console, args: argparse.Namespace) -> int:
    """Show the reply of a route, found by its name or its path."""
    hook = open_hook(out, args)
    params = pairs("--param", args.param)
    with out.busy("reading"):
        if args.what.startswith("/"):
            reply = hook.call("GET", with_query(args.what, params))
        else:
            reply = hook.read(args.what, email=args.email, params=params)
    out.result(reply.raw)
    values = flatten(with_digits(reply.raw_json or "null"))
    out.table(("field", "value"), [(value.metric, value.text) for value in values])
    return OK
