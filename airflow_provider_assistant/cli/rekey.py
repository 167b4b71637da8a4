"""``airflow assistant ledger rekey``: convert the keys of an older ledger to the current format."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from airflow_provider_assistant.cli.output import GOOD, WARNING, Console
from airflow_provider_assistant.cli.runner import OK, command, open_ledger
from airflow_provider_assistant.loading.rekey import rekey as convert


@command
def rekey(out: Console, args: argparse.Namespace) -> int:
    """Convert the keys of an older ledger to the current format."""
    with open_ledger(args) as ledger:
        found = convert(ledger)
    out.result(asdict(found))
    out.line(f"{found.changed} keys changed, {found.same} were up to date", GOOD)
    if found.taken:
        out.line(
            f"{found.taken} rows were created twice, with keys of two types; the next load lists one document as stale",
            WARNING,
        )
    return OK
