"""``airflow assistant ledger rekey``: give the entries of an older ledger the keys that their rows have today."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from airflow_provider_assistant.cli.output import GOOD, WARNING, Out
from airflow_provider_assistant.cli.running import OK, command
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.loading.rekey import rekey as bring_up_to_date


@command
def rekey(out: Out, args: argparse.Namespace) -> int:  # noqa: ARG001 (every command takes them)
    """Bring the keys of an older ledger to today's form."""
    with Ledger.open() as ledger:
        found = bring_up_to_date(ledger)
    out.result(asdict(found))
    out.line(f"{found.changed} keys changed, {found.same} were as they are today", GOOD)
    if found.taken:
        out.line(f"{found.taken} rows had been created twice, under two types; a load lists one as stale", WARNING)
    return OK
