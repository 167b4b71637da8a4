"""Safety checks before the first request of a load: its service, the owner of its keys, and how much it changes."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger import DocumentScope, ScopeLedger, Site
from airflow_provider_assistant.ledger.other_sites import sites_of_source
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.preflight import LoadPlan, RowAction
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# A load is refused if it would replace or leave stale more than this share of its source's documents, and at least
# this many of them: such a load is usually a mistake.
LARGEST_SHARE = 0.5
LEAST_DOCUMENTS = 50
LISTED = 3


def check_plan(plan: LoadPlan, ledger: ScopeLedger, options: LoadOptions, missing_in: str | None) -> int | None:
    """
    Refuse a load that would replace documents of other sources or most of its source's documents.

    :param missing_in: Which documents without a row are stale: ``source`` for all, ``groups`` for those in the groups
        of the source, None for none.
    :return: Number of documents that are missing from the source; None if it is not known.
    """
    if plan.count(RowAction.SEND):
        check_service(plan, ledger)
    if not options.adopt:
        check_owner(ledger.source, plan.foreign)
        if missing_in:
            warn_of_old_sources(plan, ledger, has_whole_source=missing_in == "source")
    changed = plan.changed if options.on_change in {"create", "replace"} else 0
    if options.allow_mass_change:
        return None
    if missing_in != "source":
        _check_part(plan, ledger, changed, missing_in)
        return None
    documents = ledger.size()
    # A document is kept, changed or missing.
    missing = max(0, documents - plan.kept - plan.changed)
    if _is_mass_change(documents, changed + missing):
        # Another load of this source may have created documents since the preflight.
        missing = sum(1 for _stale_document in ledger.stale(plan.has))
    check_extent(ledger.source, documents=documents, changed=changed, missing=missing)
    return missing


def _check_part(plan: LoadPlan, ledger: ScopeLedger, changed: int, missing_in: str | None) -> None:
    """Check the extent of a load that has only a part of its source."""
    missing = 0
    if missing_in == "groups":
        for _stale_document in ledger.stale_in_groups(plan.groups, plan.has):
            missing += 1
    if changed + missing >= LEAST_DOCUMENTS:
        # Counting the documents of a large source takes longer than a load of a few rows.
        check_extent(ledger.source, documents=ledger.size(), changed=changed, missing=missing)


def check_service(plan: LoadPlan, ledger: ScopeLedger) -> None:
    """
    Refuse a load that would create documents again that the ledger has at another address of the service.

    A connection whose ``service_name`` differs from its address names another service, unless the documents were
    created at the same address.
    """
    scope = ledger.scope
    if not isinstance(scope, DocumentScope):
        return
    site = scope.site
    for other, keys in sites_of_source(ledger.engine, scope, ledger.source, site.may_be):
        count = sum(1 for key in keys if plan.has(key))
        if not count:
            continue
        if site.has_own_name and other.service != site.service and other.address_name != site.address_name:
            if not ledger.size():
                log.warning(
                    "The ledger has %s of source %r on %s (%s). This load creates them on %s as well, because the "
                    "connection gives this service another name.",
                    counted(count, "document"), ledger.source, other, other.url, site,
                )  # fmt: skip
            continue
        raise AssistantInputError(
            f"the ledger has {counted(count, 'document')} of this load, of source {ledger.source!r}, on {other} "
            f"({other.url}); this connection leads to {site} ({site.url}), where the load would create them again",
            safe=NOTHING_SENT,
            todo=_how_to_go_on(other, site),
            field="service_name",
        )


def _how_to_go_on(other: Site, site: Site) -> str:
    """Return how to say whether a service is the one that the ledger knows by another name or tenant."""
    fields = []
    if other.service != site.service:
        fields.append(f"service_name to {other.service!r}")
    command = f"airflow assistant ledger move {shlex.quote(other.service)} {shlex.quote(site.service)}"
    if other.tenant_id is not None and site.tenant_id is None:
        fields.append(f"tenant_id to {other.tenant_id!r}")
    elif other.tenant_id != site.tenant_id:
        command += f" --site {shlex.quote(site.site_id)} --to-tenant {shlex.quote(str(site.tenant_id))}"
    ways = []
    if fields:
        ways.append(f"set {' and '.join(fields)} in the extra of the connection")
    if site.tenant_id is not None or other.tenant_id is None:
        ways.append(f"run `{command}`")
    same = ", or ".join(ways)
    if other.service == site.service or other.address_name == site.address_name:
        return f"It is the same service: {same}."
    return (
        f"If it is the same service at another address, {same}. If it is another service, such as a test system, set "
        "service_name in the extra of the connection to a name that is not its host, such as 'test'."
    )


def warn_of_old_sources(plan: LoadPlan, ledger: ScopeLedger, *, has_whole_source: bool) -> None:
    """Warn if documents of these rows belong to other sources, whose missing rows this load does not look for."""
    for old_source, count in sorted(plan.shared.items(), key=lambda item: (-item[1], item[0]))[:LISTED]:
        gone = ""
        if has_whole_source:
            missing: list[str] = []
            missing_count = 0
            for document in ledger.stale(plan.has, old_source):
                missing_count += 1
                if len(missing) < LISTED:
                    missing.append(repr(document.label))
            if missing_count:
                more = ", …" if missing_count > len(missing) else ""
                gone = f"; {missing_count} more of its documents have no row here ({', '.join(missing)}{more})"
        log.warning(
            "The documents of %s belong to source %r and not to this load's source, %r%s. Documents of %r whose rows "
            "are gone are not looked for. If this load was renamed, keep the name with source_name=%r "
            "(--source-name), or take the keys over with adopt=True (--adopt) for one run.",
            counted(count, "row"), old_source, ledger.source, gone, old_source, old_source,
        )  # fmt: skip


def check_owner(source: str, foreign: Mapping[str, int]) -> None:
    """
    Refuse a load that would replace documents of other sources.

    :param foreign: Number of keys with other content by the name of the source that they belong to.
    """
    if not foreign:
        return
    # The source with the most keys comes first; of equal ones, the first by name.
    owner_names = sorted(foreign, key=lambda name: (-foreign[name], name))
    owners = ", ".join(f"{foreign[name]} of source {name!r}" for name in owner_names[:LISTED])
    key_count = counted(sum(foreign.values()), "key")
    raise AssistantInputError(
        f"this load, of source {source!r}, has {key_count} of another source, with other content: {owners}",
        safe=NOTHING_SENT,
        todo=f"If this load was renamed, set source_name={owner_names[0]!r} (--source-name); if these are different "
        "rows that share their keys, set a namespace (--namespace); to take the keys over, set adopt=True (--adopt) "
        "for one run.",
        field="source_name",
    )


def check_extent(source: str, *, documents: int, changed: int, missing: int) -> None:
    """
    Refuse a load that would replace or leave stale most documents of its source.

    :param documents: Number of its documents on the site.
    :param changed: Number of documents that would be created again with other content.
    :param missing: Number of documents that are no longer in the source and would become stale.
    :raises AssistantInputError: ``changed`` and ``missing`` are more than half of the documents, and at least 50.
    """
    affected = changed + missing
    if not _is_mass_change(documents, affected):
        return
    effects = []
    if changed:
        effects.append(f"replace {changed} of them with other content")
    if missing:
        effects.append(f"leave {missing} of them stale")
    raise AssistantInputError(
        f"source {source!r} has {counted(documents, 'document')}, and this load would {' and '.join(effects)}",
        safe=NOTHING_SENT,
        todo="Check that the source is complete and that its key columns are those of "
        "earlier loads. If the change is intended, set allow_mass_change=True for one run; if the source contains only "
        "new rows, set on_missing='ignore'; if it contains only some pages, set group_columns and on_missing='group'.",
        field="source",
    )


def _is_mass_change(documents: int, affected: int) -> bool:
    return affected >= LEAST_DOCUMENTS and affected > LARGEST_SHARE * documents
