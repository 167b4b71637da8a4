"""``airflow assistant read``."""

from __future__ import annotations

import argparse

from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.rows import pairs
from airflow_provider_assistant.cli.runner import OK, command, open_hook
from airflow_provider_assistant.lake.rows import values_of, with_digits


@command
def read(out: Console, args: argparse.Namespace) -> int:
    """Show the limits, the statistics, or the reply of the route with a path."""
    hook = open_hook(out, args)
    params = pairs("--param", args.param)
    with out.busy("reading"):
        reply = hook.read(args.what, params)
    values = values_of(with_digits(reply.raw_json))
    out.result(reply.raw, [{"field": value.metric, "value": value.text} for value in values])
    return OK
