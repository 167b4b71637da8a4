"""The routes that settle entries: by the rules of the command line, with a line in Airflow's audit log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, HTTPException

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantLedgerError, sentence
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.queries import AmbiguousEntry, find_unresolved
from airflow_provider_assistant.ledger.resolution import ByHand, check_not_under_way, resolve
from airflow_provider_assistant.ledger.schema import documents
from airflow_provider_assistant.ledger.upkeep import DeletedDocuments, ForgetReport, forget
from airflow_provider_assistant.ui.access import RightsDep, may_see_pages
from airflow_provider_assistant.ui.ids import SUPERSEDED, EntryId, parse_id
from airflow_provider_assistant.ui.ledgers import engine_of, reading, select_ledger
from airflow_provider_assistant.ui.models import LedgerRef, SettleOutcome, UnavailableError
from airflow_provider_assistant.ui.task_models import SettleItem, SettleReply, SettleRequest

router = APIRouter(prefix="/api/settle", dependencies=[Depends(may_see_pages)])

EVENT = "assistant_settle"
# Number of items in a line of the audit log.
LOGGED = 100
_OUTCOMES: dict[SettleOutcome, ByHand] = {"created": "created", "not_created": "failed"}
# What the next load does, by kind and outcome.
_NEXT = {
    ("document", "created"): "The next load does not send this row, unless its content has changed.",
    ("document", "not_created"): "The next load sends this row again, if it is still in the source.",
    ("chat_request", "not_created"): "The next try of the task submits this chat again.",
    ("rating", "created"): "The next try of the task does not send this rating.",
    ("rating", "not_created"): "The next try of the task sends this rating again.",
}
_DELETED = (
    "The ledger forgets the deleted documents. If the source still has a row of one that was current, the next load "
    "creates it again."
)
_UNKNOWN = "The ledger does not list it: it may be settled already."
_GONE = "It has changed since the page was loaded. Load the page again."


@router.post("/preview")
def preview(request: SettleRequest, rights: RightsDep) -> SettleReply:
    """Return what settling would do, without changes."""
    return _Settling(request, rights.may_settle, is_preview=True).run()


@router.post("")
def settle(request: SettleRequest, rights: RightsDep, user: GetUserDep) -> SettleReply:
    """Settle entries. Items that are refused do not prevent the others."""
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
        self.dags: set[str | None] = set()

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
            ids = [parse_id(text) for text in dict.fromkeys(request.ids)]
        except ValueError as error:
            raise HTTPException(422, "An id is not one of this page.") from error
        try:
            if request.outcome == "deleted":
                self._delete(ids)
            else:
                self._resolve(ids, request.outcome)
        except (UnavailableError, AssistantLedgerError) as error:
            text = str(error)
            return SettleReply(is_preview=self._is_preview, settled=0, refused=len(ids), text=text, items=self._items)
        return self._reply()

    def _resolve(self, ids: list[EntryId], outcome: SettleOutcome) -> None:
        with reading(self.ledger) as opened:
            found = [
                (one, find_unresolved(opened.connection, opened.leases, one.kind, one.scope, one.key))
                for one in ids
                if one.kind != SUPERSEDED
            ]
        if len(found) < len(ids):
            raise HTTPException(422, "Superseded documents can only be settled as deleted.")
        self._check_rights([entry.run.dag_id for _, entry in found if entry])
        with engine_of(self.ledger) as engine, Ledger(engine) as ledger:
            for one, entry in found:
                self._resolve_one(ledger, one, entry, outcome)

    def _resolve_one(self, ledger: Ledger, one: EntryId, entry: AmbiguousEntry | None, outcome: SettleOutcome) -> None:
        if entry is None or entry.claimed_at != one.claimed_at:
            self._add(entry.label if entry else one.key[:12], False, _GONE)
            return
        try:
            check_not_under_way(entry, "Wait until its task has ended.")
            resolve(ledger, entry, _OUTCOMES[outcome], dry_run=self._is_preview)
        except AssistantInputError as error:
            self._add(entry.label, False, _refusal(entry, outcome, error))
        else:
            self._add(entry.label, True, _NEXT[entry.kind, outcome])

    def _delete(self, ids: list[EntryId]) -> None:
        if any(one.kind != SUPERSEDED for one in ids):
            raise HTTPException(422, "Ambiguous entries can be settled as created or not created.")
        rows = self._superseded(ids)
        self._check_rights([row.dag_id for row in rows.values() if row])
        by_site: dict[str | None, list[_Deleted]] = {}
        for one, row in rows.items():
            if row is None:
                self._add(one.key[:12], False, _GONE)
            else:
                item = _Deleted(row.label, json.loads(row.superseded))
                by_site.setdefault(row.site_id, []).append(item)
        listed = self._listed()
        if listed:
            by_site.setdefault(self._request.site_id, []).extend(listed)
        with engine_of(self.ledger) as engine, Ledger(engine) as ledger:
            for site_id, items in by_site.items():
                # Without a right on every document, nothing is changed. Other errors are shown below.
                with contextlib.suppress(AssistantInputError):
                    if self._forget(ledger, site_id, items, dry_run=True).refused:
                        raise HTTPException(403, "Forbidden")
            for site_id, items in by_site.items():
                self._forget_on_site(ledger, site_id, items)

    def _listed(self) -> list[_Deleted]:
        """Return the documents and labels of the findings that the request names."""
        documents = [_Deleted(name, [name]) for name in dict.fromkeys(self._request.document_ids)]
        labels = [_Deleted(name, [name], is_label=True) for name in dict.fromkeys(self._request.labels)]
        return [*documents, *labels]

    def _superseded(self, ids: list[EntryId]) -> dict[EntryId, Any]:
        """Return the row of each entry that still is as the page showed it, else None."""
        c, found = documents.c, {}
        with reading(self.ledger) as opened:
            for one in ids:
                same = (c.scope == one.scope, c.key == one.key, c.claimed_at == one.claimed_at)
                query = sa.select(documents).where(*same, c.superseded.is_not(None))
                found[one] = opened.connection.execute(query).one_or_none()
        return found

    def _forget_on_site(self, ledger: Ledger, site_id: str | None, items: list[_Deleted]) -> None:
        try:
            report = self._forget(ledger, site_id, items, dry_run=self._is_preview)
        except AssistantInputError as error:
            for item in items:
                self._add(item.shown, False, sentence(str(error)))
            return
        for item in items:
            is_known = not set(item.names) <= set(report.unknown)
            self._add(item.shown, is_known, _DELETED if is_known else _UNKNOWN)

    def _forget(self, ledger: Ledger, site_id: str | None, items: list[_Deleted], *, dry_run: bool) -> ForgetReport:
        def may_change(dag_id: str | None) -> bool:
            self.dags.add(dag_id)
            return self._may_settle(dag_id)

        names: list[str] = []
        labels: list[str] = []
        for item in items:
            found = labels if item.is_label else names
            found.extend(item.names)
        deleted = DeletedDocuments(names, labels)
        return forget(ledger, deleted, site_id, dry_run=dry_run, may_change=may_change)

    def _check_rights(self, dags: list[str | None]) -> None:
        """
        Check the rights on all DAGs.

        :raises HTTPException: 403 if the user may not settle the entries of one of them, or of any DAG at all.
        """
        named = [self._request.dag_id] if self._request.document_ids or self._request.labels else []
        self.dags.update(dags)
        if not all(map(self._may_settle, {*dags, *named})):
            raise HTTPException(403, "Forbidden")

    def _add(self, name: str, accepted: bool, text: str) -> None:
        self._items.append(SettleItem(name=name, accepted=accepted, text=text))

    def _reply(self) -> SettleReply:
        settled = sum(item.accepted for item in self._items)
        refused = len(self._items) - settled
        word = self._request.outcome.replace("_", " ")
        does = "would be" if self._is_preview else "was" if settled == 1 else "were"
        text = f"{settled} {'entry' if settled == 1 else 'entries'} {does} settled as {word}."
        texts = {item.text for item in self._items if item.accepted}
        if len(texts) == 1:
            text = f"{text} {texts.pop()}"
        if refused:
            text = f"{text} {refused} cannot be settled."
        return SettleReply(is_preview=self._is_preview, settled=settled, refused=refused, text=text, items=self._items)


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
    """Write a line per DAG to Airflow's audit log."""
    names = [item.name for item in reply.items if item.accepted]
    facts = {
        "ledger": ledger.name,
        "outcome": request.outcome,
        "entries": len(names),
        "names": names[:LOGGED],
    }
    with create_session() as session:
        for dag_id in sorted(dags, key=str) or [request.dag_id]:
            extra = json.dumps(facts)
            session.add(Log(event=EVENT, owner=user, owner_display_name=user, extra=extra, dag_id=dag_id))
