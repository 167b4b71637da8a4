"""``airflow assistant ledger move``: give a service of the ledger another name."""

from __future__ import annotations

import argparse

from airflow_provider_assistant.cli.output import GOOD, Console
from airflow_provider_assistant.cli.runner import OK, command, open_ledger
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger.moving import Move
from airflow_provider_assistant.ledger.moving import move as move_entries
from airflow_provider_assistant.ledger.queries import kind_name
from airflow_provider_assistant.texts import counted


@command
def move(out: Console, args: argparse.Namespace) -> int:
    """Move the entries of a service to its new name."""
    for name in ("service", "to_service", "site", "tenant", "to_tenant"):
        value = getattr(args, name)
        if value is not None and not value.strip():
            raise AssistantInputError(f"{name.replace('_', '-')} is empty", field=name)
    wanted = Move(args.service, args.to_service, args.site, args.tenant, args.to_tenant)
    with open_ledger(args) as ledger:
        counts = move_entries(ledger, wanted, dry_run=args.dry_run)
    out.result({**counts, "dry_run": args.dry_run})
    verb = "Would move" if args.dry_run else "Moved"
    listed = ", ".join(counted(count, kind_name(kind)) for kind, count in counts.items() if count)
    out.line(f"{verb} to service {args.to_service!r}: {listed}.", GOOD)
    return OK
