"""Safety checks before the first request of a load: the owner of its keys, and the share of documents it changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger import ScopeLedger
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
    if not options.adopt:
        check_owner(ledger.source, plan.foreign)
    if options.allow_mass_change:
        return None
    changed = plan.changed if options.on_change in {"create", "replace"} else 0
    if missing_in != "source":
        missing = 0
        if missing_in == "groups":
            for _stale_document in ledger.stale_in_groups(plan.groups, plan.has):
                missing += 1
        if changed + missing >= LEAST_DOCUMENTS:
            # Counting the documents of a large source takes longer than a load of a few rows.
            check_extent(ledger.source, documents=ledger.size(), changed=changed, missing=missing)
        return None
    documents = ledger.size()
    # A document is kept, changed or missing.
    missing = documents - plan.kept - plan.changed
    check_extent(ledger.source, documents=documents, changed=changed, missing=max(0, missing))
    if not documents and plan.count(RowAction.UNCHANGED):
        log.warning(
            "The documents of these rows belong to other sources than %r, so that no document is found whose row is "
            "gone. If this load was renamed, set source_name (--source-name) to its old name.",
            ledger.source,
        )
    if plan.count(RowAction.DUPLICATE):
        # A repeated row counts as a document twice, so the number is too low.
        return None
    return missing


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
    if affected < LEAST_DOCUMENTS or affected <= LARGEST_SHARE * documents:
        return
    raise AssistantInputError(
        f"{affected} of {documents} documents of source {source!r} would be replaced ({changed}) or become stale "
        f"({missing})",
        safe=NOTHING_SENT,
        todo="Check that the source is complete and that its key columns are those of "
        "earlier loads. If the change is intended, set allow_mass_change=True for one run; if the source contains only "
        "new rows, set on_missing='ignore'; if it contains only some pages, set group_columns and on_missing='group'.",
        field="source",
    )
