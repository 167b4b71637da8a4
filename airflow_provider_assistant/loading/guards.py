"""Refuse loads that are probably mistakes: by their plan, before the first request, and by the first replies."""

from __future__ import annotations

import logging
import shlex

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger import Ledger, ScopeLedger, queries
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.plan import CHANGES, Plan
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# A load is refused if it would replace or remove more than this share of its source's documents, and at least this
# many: such a load is usually a mistake. Removals begin earlier, because small sites are lost as a whole.
LARGEST_SHARE = 0.5
LEAST_CHANGED, LEAST_REMOVED = 50, 10
LISTED = 3


def check_plan(plan: Plan, ledger: Ledger, scope_ledger: ScopeLedger, options: LoadOptions) -> None:
    """
    Refuse a load that is probably a mistake.

    :raises AssistantInputError: The load would create documents again that the ledger has under another name of the
        service, has keys of another source, changed rows although ``on_change`` is ``fail``, or would replace or
        remove most of its source's documents.
    """
    if plan.actions()["send"]:
        _check_service(ledger, scope_ledger)
    _check_owner(plan, scope_ledger.source)
    if options.on_change == "fail":
        _check_unchanged(plan)
    if not options.allow_mass_change:
        _check_extent(plan, ledger, scope_ledger, options)


def _check_service(ledger: Ledger, scope_ledger: ScopeLedger) -> None:
    """Refuse a load whose documents the ledger has under another name of the service."""
    site = scope_ledger.scope.site
    others = ledger.read(queries.other_services, scope_ledger.scope, scope_ledger.source)
    if ledger.read(queries.documents_of, scope_ledger.scope, scope_ledger.source):
        return
    for service, count in others.items():
        if site.has_own_name:
            log.warning(
                "The ledger has %s of source %r at service %r. This load creates them at %r as well, because the "
                "connection gives this service another name.",
                counted(count, "document"),
                scope_ledger.source,
                service,
                site.service,
            )
            continue
        command = f"airflow assistant ledger rename {shlex.quote(service)} {shlex.quote(site.service)}"
        raise AssistantInputError(
            f"the ledger has {counted(count, 'document')} of this load, of source {scope_ledger.source!r}, at service "
            f"{service!r}; this connection leads to {site} ({site.url}), where the load would create them again",
            safe=NOTHING_SENT,
            todo=f"If it is the same service at another address, set service_name to {service!r} in the extra of the "
            f"connection, or run `{command}`. If it is another service, such as a test system, set service_name to a "
            "name of its own, such as 'test'.",
            field="service_name",
        )


def _check_owner(plan: Plan, source: str) -> None:
    """Refuse a load with keys that only other sources have, with other content; warn if the content is equal."""
    for name, count in plan.owners("share").items():
        log.warning(
            "%s of this load, of source %r, %s those of source %r: both sources need them from now on. If this load "
            "was renamed, set source_name=%r (--source-name).",
            counted(count, "document"),
            source,
            "is one of" if count == 1 else "are",
            name,
            name,
        )
    owners = plan.owners("send")
    if not owners:
        return
    listed = ", ".join(f"{count} of source {name!r}" for name, count in list(owners.items())[:LISTED])
    first = next(iter(owners))
    raise AssistantInputError(
        f"this load, of source {source!r}, has {counted(sum(owners.values()), 'key')} of another source, with other "
        f"content: {listed}",
        safe=NOTHING_SENT,
        todo=f"If this load was renamed, set source_name={first!r} (--source-name); if these are different rows that "
        "share their keys, set a namespace (--namespace).",
        field="source_name",
    )


def _check_unchanged(plan: Plan) -> None:
    for row in plan.rows(*CHANGES):
        if row.has_changed:
            raise AssistantInputError(
                f"row {row.number} ({row.label}) has changed, and on_change is 'fail'",
                safe=NOTHING_SENT,
                field="on_change",
            )


def _check_extent(plan: Plan, ledger: Ledger, scope_ledger: ScopeLedger, options: LoadOptions) -> None:
    """Refuse a load that would replace or remove most documents of its source."""
    changed = plan.count_changed(*CHANGES)
    # If the load only lists stale documents, those that an earlier load has found are no change of this one.
    known = 0 if options.removal else plan.count_gone(is_known=True)
    missing = plan.count_gone() - known
    least = LEAST_REMOVED if options.removal and missing >= LEAST_REMOVED else LEAST_CHANGED
    affected = changed + missing
    if affected < least:
        return
    source = scope_ledger.source
    documents = ledger.read(queries.documents_of, scope_ledger.scope, source) - known
    if affected <= LARGEST_SHARE * documents:
        return
    effects = []
    if changed:
        effects.append(f"replace {changed} of them with other content")
    if missing:
        effects.append(f"{options.removal or 'list as stale'} {missing} of them")
    raise AssistantInputError(
        f"source {source!r} has {counted(documents, 'document')}, and this load would {' and '.join(effects)}",
        safe=NOTHING_SENT,
        todo="Check that the source is complete and that its key columns are those of earlier loads. If the change is "
        "intended, set allow_mass_change=True for one run; if the source contains only new rows, set "
        "on_missing='ignore'; if it contains only some pages, set group_columns and missing_in='groups'.",
        field="source",
    )


def wrong_mapping(count: int, reason: str) -> AssistantInputError:
    """Return the error of a load whose first rows the service rejected."""
    return AssistantInputError(
        f"the service rejected the first {counted(count, 'row')}, and has accepted none. Its last reason: {reason}",
        todo="The mapping is probably wrong, and not the rows: name the column of each field that the service wants, "
        'such as columns={"title": "subject"} (--column title=subject), or a value for all rows, such as '
        'constants={"title": "FAQ"} (--constant title=FAQ).',
        field="columns",
    )
