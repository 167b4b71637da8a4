"""The routes that settle entries: by the rules of the command line, with a line in Airflow's audit log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantLedgerError, sentence
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.queries import AmbiguousEntry, find_unresolved
from airflow_provider_assistant.ledger.resolution import check_not_under_way, resolve
from airflow_provider_assistant.ledger.schema import OUTDATED, documents
from airflow_provider_assistant.ledger.scopes import site_of
from airflow_provider_assistant.ledger.upkeep import DeletedDocuments, ForgetReport, forget
from airflow_provider_assistant.ui.access import RightsDep, may_see_pages
from airflow_provider_assistant.ui.audit import write_audit_log
from airflow_provider_assistant.ui.ids import STALE, EntryId, parse_id
from airflow_provider_assistant.ui.ledgers import engine_of, reading, select_ledger
from airflow_provider_assistant.ui.models import LedgerRef, SettleOutcome, UnavailableError
from airflow_provider_assistant.ui.rows import outdated_document_ids
from airflow_provider_assistant.ui.settle_matching import (
    DELETED,
    EVENT,
    NEXT,
    OUTCOMES,
    settle_matching,
    settled_text,
)
from airflow_provider_assistant.ui.task_models import SettleItem, SettleReply, SettleRequest

router = APIRouter(prefix="/api/settle", dependencies=[Depends(may_see_pages)])

# Number of items in a line of the audit log.
LOGGED = 100
_UNKNOWN = "The ledger does not list it: it may be settled already."
GONE = "It has changed since the page was loaded. Load the page again."


@router.post("/preview")
def preview(request: SettleRequest, rights: RightsDep) -> SettleReply:
    """Return what settling would do, without changes."""
    if request.matching:
        return settle_matching(request, request.matching, rights)
    return _Settling(request, rights.may_settle, is_preview=True).run()


@router.post("")
def settle(request: SettleRequest, rights: RightsDep, user: GetUserDep) -> SettleReply:
    """Settle entries. Items that are refused do not prevent the others."""
    if request.matching:
        if request.confirmation is None:
            raise HTTPException(422, "Confirm what the preview replied.")
        return settle_matching(request, request.matching, rights, user.get_name())
    settling = _Settling(request, rights.may_settle, is_preview=False)
    reply = settling.run()
    if reply.settled:
        _log(user.get_name(), settling.ledger, request, reply, settling.dags)
    return reply


@dataclass(frozen=True, slots=True)
class _Deleted:
    """
    One item of a request that says that documents are deleted.

    :param shown: Its name in the reply.
    :param names: Ids of the documents, or the label of one key.
    """

    shown: str
    names: list[str]
    is_label: bool = False


class _Settling:
    """One request, checked completely before the first change: 403 changes nothing."""

    def __init__(self, request: SettleRequest, may_settle: Callable[[str | None], bool], *, is_preview: bool) -> None:
        self._request = request
        self._may_settle = may_settle
        self._is_preview = is_preview
        self._items: list[SettleItem] = []
        self.ledger: LedgerRef = select_ledger(request.ledger)
        # The DAGs of all entries that the request concerns, for the audit log.
        self.dags: set[str | None] = set()
        self._sites: set[str] = set()

    def run(self) -> SettleReply:
        """
        Return the result.

        :raises HTTPException: 403 if the user may not settle one of the entries; 422 for an invalid request.
        """
        request = self._request
        if not (request.ids or request.document_ids or request.labels):
            raise HTTPException(422, "Name at least one entry.")
        if request.outcome != "deleted" and (request.document_ids or request.labels):
            raise HTTPException(422, "Documents of findings can only be settled as deleted.")
        try:
            # A dict drops repeated ids and keeps their order.
            ids = [parse_id(text) for text in dict.fromkeys(request.ids)]
        except ValueError as error:
            raise HTTPException(422, "An id is not one of this page.") from error
        try:
            if request.outcome == "deleted":
                self._delete(ids)
            else:
                self._resolve(ids, request.outcome)
        except (UnavailableError, AssistantLedgerError) as error:
            return SettleReply(
                is_preview=self._is_preview,
                settled=0,
                refused=len(ids),
                text=str(error),
                items=self._items,
            )
        return self._reply()

    def _resolve(self, ids: list[EntryId], outcome: SettleOutcome) -> None:
        entry_by_id: dict[EntryId, AmbiguousEntry | None] = {}
        with reading(self.ledger) as opened:
            for entry_id in ids:
                if entry_id.kind in OUTDATED:
                    raise HTTPException(422, "Outdated documents can only be settled as deleted.")
                entry_by_id[entry_id] = find_unresolved(
                    opened.connection, opened.leases, entry_id.kind, entry_id.scope, entry_id.key
                )
        self._check_rights([entry.run.dag_id for entry in entry_by_id.values() if entry])
        with engine_of(self.ledger) as engine, Ledger(engine) as ledger:
            for entry_id, entry in entry_by_id.items():
                self._resolve_one(ledger, entry_id, entry, outcome)

    def _resolve_one(
        self, ledger: Ledger, entry_id: EntryId, entry: AmbiguousEntry | None, outcome: SettleOutcome
    ) -> None:
        if entry is None:
            self._add(entry_id.key[:12], False, GONE)
            return
        if entry.claimed_at != entry_id.claimed_at:
            self._add(entry.label, False, GONE)
            return
        try:
            check_not_under_way(entry, "Wait until its task has ended.")
            resolve(ledger, entry, OUTCOMES[outcome], dry_run=self._is_preview)
        except AssistantInputError as error:
            self._add(entry.label, False, _refusal(entry, outcome, error))
        else:
            self._add(entry.label, True, NEXT[entry.kind, outcome])
            self._sites.add(str(entry.site))

    def _delete(self, ids: list[EntryId]) -> None:
        if any(entry_id.kind not in OUTDATED for entry_id in ids):
            raise HTTPException(422, "Ambiguous entries can be settled as created or not created.")
        row_by_id = outdated_rows(self.ledger, ids)
        self._check_rights([row.dag_id for row in row_by_id.values() if row])
        items_by_site: dict[str | None, list[_Deleted]] = {}
        for entry_id, row in row_by_id.items():
            if row is None:
                self._add(entry_id.key[:12], False, GONE)
            else:
                items_by_site.setdefault(row.site_id, []).append(_deleted(entry_id, row))
                self._sites.add(str(site_of(row)))
        items_of_findings = self._items_of_findings()
        if items_of_findings:
            items_by_site.setdefault(self._request.site_id, []).extend(items_of_findings)
        with engine_of(self.ledger) as engine, Ledger(engine) as ledger:
            for site_id, items in items_by_site.items():
                # Without a right on every document, nothing is changed. Other errors are shown below.
                with contextlib.suppress(AssistantInputError):
                    report = self._forget(ledger, site_id, items, dry_run=True)
                    if report.refused:
                        raise HTTPException(403, "Forbidden")
            for site_id, items in items_by_site.items():
                self._forget_on_site(ledger, site_id, items)

    def _items_of_findings(self) -> list[_Deleted]:
        """Return the documents and labels of the findings that the request names."""
        document_ids = dict.fromkeys(self._request.document_ids)
        labels = dict.fromkeys(self._request.labels)
        items = [_Deleted(shown=document_id, names=[document_id]) for document_id in document_ids]
        items += [_Deleted(shown=label, names=[label], is_label=True) for label in labels]
        return items

    def _forget_on_site(self, ledger: Ledger, site_id: str | None, items: list[_Deleted]) -> None:
        try:
            report = self._forget(ledger, site_id, items, dry_run=self._is_preview)
        except AssistantInputError as error:
            for item in items:
                self._add(item.shown, False, sentence(str(error)))
            return
        unknown_names = set(report.unknown)
        for item in items:
            if unknown_names.issuperset(item.names):
                self._add(item.shown, False, _UNKNOWN)
            else:
                self._add(item.shown, True, DELETED)

    def _forget(self, ledger: Ledger, site_id: str | None, items: list[_Deleted], *, dry_run: bool) -> ForgetReport:
        def may_change(dag_id: str | None) -> bool:
            self.dags.add(dag_id)
            return self._may_settle(dag_id)

        names: list[str] = []
        labels: list[str] = []
        for item in items:
            if item.is_label:
                labels += item.names
            else:
                names += item.names
        deleted = DeletedDocuments(names=names, labels=labels)
        return forget(ledger, deleted, site_id, dry_run=dry_run, may_change=may_change)

    def _check_rights(self, dags: list[str | None]) -> None:
        """
        Check the rights on all DAGs.

        :raises HTTPException: 403 if the user may not settle the entries of one of them, or of any DAG at all.
        """
        self.dags.update(dags)
        checked_dags = set(dags)
        # The ids of findings do not tell the DAG: the request names it.
        if self._request.document_ids or self._request.labels:
            checked_dags.add(self._request.dag_id)
        if not all(self._may_settle(dag_id) for dag_id in checked_dags):
            raise HTTPException(403, "Forbidden")

    def _add(self, name: str, accepted: bool, text: str) -> None:
        self._items.append(SettleItem(name=name, accepted=accepted, text=text))

    def _reply(self) -> SettleReply:
        settled = sum(item.accepted for item in self._items)
        refused = len(self._items) - settled
        text = settled_text(settled, self._request.outcome, is_preview=self._is_preview)
        consequences = {item.text for item in self._items if item.accepted}
        if len(consequences) == 1:
            # All entries have the same consequence: say it once.
            text = f"{text} {consequences.pop()}"
        if refused:
            text = f"{text} {refused} cannot be settled."
        return SettleReply(
            is_preview=self._is_preview,
            settled=settled,
            refused=refused,
            text=text,
            items=self._items,
            sites=sorted(self._sites),
        )


def _deleted(entry_id: EntryId, row: Any) -> _Deleted:
    """Return what says that the outdated documents of a row are deleted."""
    ids = outdated_document_ids(entry_id.kind, row)
    if entry_id.kind == STALE and not ids:
        return _Deleted(shown=row.label, names=[row.label], is_label=True)
    return _Deleted(shown=row.label, names=ids)


def outdated_rows(ledger: LedgerRef, ids: list[EntryId]) -> dict[EntryId, Any]:
    """Return the row of each entry that still is as the page showed it, else None."""
    columns = documents.c
    row_by_id = {}
    with reading(ledger) as opened:
        for entry_id in ids:
            query = sa.select(documents).where(
                columns.scope == entry_id.scope,
                columns.key == entry_id.key,
                columns.claimed_at == entry_id.claimed_at,
                OUTDATED[entry_id.kind],
            )
            row_by_id[entry_id] = opened.connection.execute(query).one_or_none()
    return row_by_id


def _refusal(entry: AmbiguousEntry, outcome: SettleOutcome, error: AssistantInputError) -> str:
    """Return why an entry is refused; the command line's messages name its options."""
    if outcome == "created" and entry.kind == "document" and entry.sent_hash is None:
        return (
            "The ledger does not have the content that was sent, because the task was killed. Use the command line "
            "with the source: airflow assistant ledger resolve … --as created --file …"
        )
    if outcome == "created" and entry.kind == "chat_request":
        return (
            "The id of the request is needed, and only a single chat request can be settled as created. Use the "
            "command line: airflow assistant ledger resolve … --id …"
        )
    return sentence(str(error))


def _log(user: str, ledger: LedgerRef, request: SettleRequest, reply: SettleReply, dags: set[str | None]) -> None:
    """
    Write a line per DAG to Airflow's audit log.

    :param dags: DAGs of the settled entries; if there is none, the line names the DAG of the request.
    """
    names = [item.name for item in reply.items if item.accepted]
    facts = {
        "ledger": ledger.name,
        "outcome": request.outcome,
        "entries": len(names),
        "names": names[:LOGGED],
    }
    dag_ids: list[str | None] = sorted(dags, key=str)
    if not dag_ids:
        dag_ids = [request.dag_id]
    write_audit_log(EVENT, user, dict.fromkeys(dag_ids, facts))
