"""``airflow assistant erase``: erase what is kept of a person."""

from __future__ import annotations

import argparse

from airflow.providers.common.compat.sdk import conf

from airflow_provider_assistant.cli.output import GOOD, WARNING, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.erasure.erase import Places, Report, as_json, erase, find, record
from airflow_provider_assistant.erasure.person import Person
from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.lake.postgres import postgres_engine
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.location import airflow_home
from airflow_provider_assistant.loading.findings import findings_folder
from airflow_provider_assistant.storage.opening import usable_path
from airflow_provider_assistant.texts import counted

# Lines about the erasures, in AIRFLOW_HOME.
AUDIT = "assistant_erasures.jsonl"
REMAINS = (
    "Not erased: what the service itself holds (ask its operator to delete the sessions); texts that mention the "
    "person in rows of others; XCom, rendered fields and logs of Airflow; the sources of your questions; backups; "
    "deleted rows of PostgreSQL until VACUUM."
)


@command
def erase_person(out: Console, args: argparse.Namespace) -> int:
    """Erase what is kept of a person. Exit code 1 if something could not be reached, or was written meanwhile."""
    sessions, emails = args.session or [], args.email or []
    _check(sessions, emails)
    person = Person(sessions, emails)
    with Ledger.open() as ledger:
        warehouse = postgres_engine(args.warehouse_conn_id) if args.warehouse_conn_id else None
        places = Places(ledger=ledger, roots=_roots(args), warehouse=warehouse, schema=args.schema)
        with out.busy("looking in all places"):
            report = find(person, places)
        if args.dry_run:
            return _show(out, person, report, {"dry_run": True, "remaining": {}})
        if report.total and not args.yes:
            _confirm(out, report)
        erased: Report | None = None
        try:
            with out.busy("erasing"):
                erased, remaining = erase(person, places)
        finally:
            record(airflow_home() / AUDIT, {"session": sessions, "email": emails}, erased)
    remaining_counts = {place: dict(counts) for place, counts in remaining.counts.items() if counts}
    return _show(out, person, erased, {"dry_run": False, "remaining": remaining_counts})


def _check(sessions: list[str], emails: list[str]) -> None:
    if not sessions and not emails:
        raise AssistantInputError("give --session or --email", safe=NOTHING_CHANGED, field="session")
    for email in emails:
        if "@" not in email.strip("@ "):
            raise AssistantInputError(f"--email {email!r} is not an address", safe=NOTHING_CHANGED, field="email")
    if not all(session.strip() for session in sessions):
        raise AssistantInputError("--session is empty", safe=NOTHING_CHANGED, field="session")


def _roots(args: argparse.Namespace) -> list[str]:
    """Return the folders and files of the arguments, the lake and the findings, each once."""
    roots = [args.lake, *(args.path or [])]
    configured_lake = conf.get("assistant", "lake_path", fallback="")
    # These may not have been written yet. A folder that the user names must exist.
    defaults = [None if args.lake else configured_lake, str(findings_folder())]
    roots += [folder for folder in defaults if folder and usable_path(folder).is_dir()]
    return list(dict.fromkeys(filter(None, roots)))


def _confirm(out: Console, report: Report) -> None:
    """Ask before anything is erased."""
    if not out.is_for_people:
        happened = f"--output {out.output} needs --yes or --dry-run"
        raise AssistantInputError(happened, safe=NOTHING_CHANGED, field="yes")
    out.result(None, _rows(report))
    if not out.is_confirmed("Erase this? It cannot be restored."):
        raise AssistantInputError("not confirmed", safe=NOTHING_CHANGED, todo="Type yes, or give --yes.", field="yes")


def _show(out: Console, person: Person, report: Report, more: dict[str, object]) -> int:
    verb = "Would erase" if more["dry_run"] else "Erased"
    sessions = sorted(person.sessions)
    listed = f" Sessions: {', '.join(sessions)}." if sessions else ""
    text = f"{verb} {report.total} in {counted(len(report.counts), 'place')}.{listed}"
    out.result({"sessions": sessions, **as_json(report), **more}, _rows(report), text=text, style=GOOD)
    for path, reason in report.not_reached.items():
        out.line(f"Not reached: {path}: {reason}", WARNING)
    if more["remaining"]:
        out.line(f"Written meanwhile, so run this again: {more['remaining']}", WARNING)
    out.note(REMAINS)
    return WRONG if report.not_reached or more["remaining"] else OK


def _rows(report: Report) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for place, counts in report.counts.items():
        for what, count in counts.items():
            rows.append({"place": place, "what": what, "number": count})
    return rows
