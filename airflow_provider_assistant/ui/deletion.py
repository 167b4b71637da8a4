"""
The routes that delete superseded documents at the service, with a line in Airflow's audit log.

Only documents are deleted that the ledger created and lists as superseded, through a connection to
the same site that manages documents. A document is deactivated before it is deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException

from airflow_provider_assistant.api.document_routes import Change
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantError, AssistantLedgerError, sentence
from airflow_provider_assistant.ledger import Ledger, RunRef
from airflow_provider_assistant.ledger.document_changes import DocumentChanges, KnownDocument
from airflow_provider_assistant.ledger.schema import UNRESOLVED
from airflow_provider_assistant.ledger.scopes import Site, site_of
from airflow_provider_assistant.loading.managed_site import ManagedSite
from airflow_provider_assistant.loading.site_client import RouteMissingError, SiteClient
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.ui.access import RightsDep, may_see_pages
from airflow_provider_assistant.ui.audit import write_audit_log
from airflow_provider_assistant.ui.connections import SiteConnection, managing_connection
from airflow_provider_assistant.ui.ids import SUPERSEDED, parse_id
from airflow_provider_assistant.ui.ledgers import engine_of, select_ledger
from airflow_provider_assistant.ui.models import UnavailableError
from airflow_provider_assistant.ui.settle import GONE, outdated_rows
from airflow_provider_assistant.ui.task_models import DeleteRequest, SettleItem, SettleReply

router = APIRouter(prefix="/api/delete", dependencies=[Depends(may_see_pages)])

EVENT = "assistant_delete"
# Run of the changes in the ledger: no DAG run makes them.
RUN_ID = "page in Airflow's UI"
# Maximum number of documents that one request deletes, and of seconds that it takes.
MOST_DELETED = 50
SECONDS = 25.0
# Maximum number of seconds of one request to the service, and until its list shows the deletion.
REQUEST_SECONDS, VISIBLE_SECONDS = 10.0, 5.0
_LATE = "The time was over before it was done. Repeat it: a document that is gone counts as deleted."
_TOO_MANY = f"Not yet: at most {MOST_DELETED} documents are deleted at once. Repeat it."
_ROUTE_MISSING = (
    "The service does not have a route that manage_documents of the connection describes. "
    "`airflow assistant documents check` tests them."
)


@router.post("/preview")
def preview(request: DeleteRequest, rights: RightsDep) -> SettleReply:
    """Return what would be deleted, without a request to the service."""
    return _Deletion(request, rights.may_settle, is_preview=True).run()


@router.post("")
def delete(request: DeleteRequest, rights: RightsDep, user: GetUserDep) -> SettleReply:
    """Delete documents. Those that are refused do not prevent the others."""
    deletion = _Deletion(request, rights.may_settle, is_preview=False)
    try:
        return deletion.run()
    finally:
        # Also if an error comes after the first deletion.
        deletion.log(user.get_name())


@dataclass(slots=True)
class _Group:
    """The documents of one source on one site."""

    site: SiteConnection
    changes: DocumentChanges
    rows: list[Any] = field(default_factory=list)
    documents: list[KnownDocument] = field(default_factory=list)


@dataclass(slots=True)
class _Tried:
    """
    The documents that a request tried to delete.

    :param not_deleted: Those that were refused, or of which it is not known.
    """

    deleted: list[str] = field(default_factory=list)
    not_deleted: list[str] = field(default_factory=list)


class _Deletion:
    """One request, checked completely before the first change: 403 changes nothing."""

    def __init__(
        self,
        request: DeleteRequest,
        may_settle: Callable[[str | None], bool],
        *,
        is_preview: bool,
    ) -> None:
        self._request = request
        self._may_settle = may_settle
        self._is_preview = is_preview
        self._items: list[SettleItem] = []
        self._ledger = select_ledger(request.ledger)
        self._deadline = time.monotonic() + SECONDS
        # The documents that were tried, by DAG, for the audit log.
        self._tried: dict[str | None, _Tried] = {}

    def run(self) -> SettleReply:
        """
        Return the result.

        :raises HTTPException: 403 if the user may not settle one of the entries; 422 for an invalid
            request.
        """
        try:
            ids = [parse_id(text) for text in dict.fromkeys(self._request.ids)]
        except ValueError as error:
            raise HTTPException(422, "An id is not one of this page.") from error
        if any(entry_id.kind != SUPERSEDED for entry_id in ids):
            raise HTTPException(422, "Only superseded documents can be deleted.")
        try:
            row_by_id = outdated_rows(self._ledger, ids)
            rows = [row for row in row_by_id.values() if row is not None]
            if not all(self._may_settle(row.dag_id) for row in rows):
                raise HTTPException(403, "Forbidden")
            for entry_id, row in row_by_id.items():
                if row is None:
                    self._add(entry_id.key[:12], False, GONE)
            with engine_of(self._ledger) as engine, Ledger(engine) as ledger:
                for group in self._groups(ledger, rows):
                    self._delete(group)
        except (UnavailableError, AssistantLedgerError) as error:
            self._add("ledger", False, sentence(str(error)))
        return self._reply()

    def log(self, user: str) -> None:
        """Write a line per DAG to Airflow's audit log, if anything was tried."""
        facts_by_dag: dict[str | None, dict[str, Any]] = {}
        for dag_id, tried in self._tried.items():
            facts_by_dag[dag_id] = {
                "ledger": self._ledger.name,
                "deleted": tried.deleted,
                "not_deleted": tried.not_deleted,
            }
        write_audit_log(EVENT, user, facts_by_dag)

    # -- what to delete ------------------------------------------------------------------------

    def _groups(self, ledger: Ledger, rows: Sequence[Any]) -> list[_Group]:
        """Return the rows that can be deleted, by source; add an item for each of the others."""
        groups: dict[tuple[str, str], _Group] = {}
        connections: dict[Site, SiteConnection | str] = {}
        room = MOST_DELETED
        for row in rows:
            site = site_of(row)
            if site not in connections:
                connections[site] = managing_connection(site)
            connection = connections[site]
            if isinstance(connection, str):
                self._add(row.label, False, connection)
                continue
            group = groups.get((row.scope, row.source))
            if group is None:
                group = _Group(connection, _changes_of(ledger, row))
            documents = _documents_of(row)
            refusal = _refusal(row, documents, group)
            if refusal is None and len(documents) > room:
                refusal = _TOO_MANY
            if refusal is not None:
                self._add(row.label, False, refusal)
                continue
            room -= len(documents)
            group.rows.append(row)
            group.documents += documents
            groups[row.scope, row.source] = group
        return list(groups.values())

    # -- deleting ------------------------------------------------------------------------------

    def _delete(self, group: _Group) -> None:
        reasons: dict[str, str] = {}
        if not self._is_preview:
            left = self._deadline - time.monotonic()
            reasons = dict.fromkeys((document.document_id for document in group.documents), _LATE)
            try:
                # After the time is over, the reasons that remain say so.
                with contextlib.suppress(TimeoutError):
                    asyncio.run(asyncio.wait_for(_delete(group, reasons), max(left, 0.0)))
            except AssistantLedgerError as error:
                reasons = dict.fromkeys(reasons, str(error))
        for row in group.rows:
            self._add_row(row, group.site.conn_id, reasons)

    def _add_row(self, row: Any, conn_id: str, reasons: Mapping[str, str]) -> None:
        document_ids = json.loads(row.superseded)
        deleted = [document_id for document_id in document_ids if document_id not in reasons]
        if self._is_preview:
            text = f"Deactivates and deletes through connection {conn_id!r}: {', '.join(deleted)}"
            self._add(row.label, True, sentence(text))
            return
        kept = [document_id for document_id in document_ids if document_id in reasons]
        tried = self._tried.setdefault(row.dag_id, _Tried())
        tried.deleted += deleted
        tried.not_deleted += kept
        if kept:
            self._add(row.label, False, sentence(f"{kept[0]}: {reasons[kept[0]]}"))
        else:
            self._add(row.label, True, sentence(f"Deleted: {', '.join(deleted)}"))

    def _add(self, name: str, accepted: bool, text: str) -> None:
        self._items.append(SettleItem(name=name, accepted=accepted, text=text))

    def _reply(self) -> SettleReply:
        settled = sum(item.accepted for item in self._items)
        refused = len(self._items) - settled
        keys = counted(settled, "key")
        text = f"The superseded documents of {keys} were deleted at the service."
        if self._is_preview:
            text = f"The superseded documents of {keys} would be deleted at the service."
        if refused:
            text = f"{text} {refused} cannot be deleted."
        return SettleReply(
            is_preview=self._is_preview,
            settled=settled,
            refused=refused,
            text=text,
            items=self._items,
        )


def _changes_of(ledger: Ledger, row: Any) -> DocumentChanges:
    run = RunRef(dag_id=row.dag_id, run_id=RUN_ID, task_id=row.task_id, map_index=-1)
    return DocumentChanges(
        ledger.engine,
        site_of(row),
        scope=row.scope,
        source=row.source,
        run=run,
        now=lambda: datetime.now(UTC),
    )


def _documents_of(row: Any) -> list[KnownDocument]:
    documents = []
    for document_id in json.loads(row.superseded):
        document = KnownDocument(
            key=row.key,
            label=row.label,
            document_id=document_id,
            reason="superseded",
            group=row.group_label,
            successor=row.document_id if row.content_hash else None,
        )
        documents.append(document)
    return documents


def _refusal(row: Any, documents: Sequence[KnownDocument], group: _Group) -> str | None:
    """Return why the superseded documents of an entry must stay; None if they need not."""
    if row.outcome in UNRESOLVED:
        return "A task is sending newer content, or its outcome is not known. Settle this entry first."
    uses = group.changes.uses_of({document.document_id for document in documents})
    if uses:
        return "Another row needs the same document."
    return None


async def _delete(group: _Group, reasons: dict[str, str]) -> None:
    """
    Deactivate and delete documents, and record each change.

    :param reasons: Has all ids at first. Those of deleted documents are removed, and the others get
        the reason.
    """
    settings = replace(
        group.site.client,
        timeout=min(group.site.client.timeout, REQUEST_SECONDS),
        # People repeat the request themselves.
        retry=RetryPolicy(attempts=1, max_backoff=VISIBLE_SECONDS),
    )
    left = {document.document_id: document for document in group.documents}
    site_id = group.rows[0].site_id
    changes: list[Change] = ["deactivate", "delete"]
    if group.site.routes.set_status is None:
        changes = ["delete"]
    async with AssistantClient(settings) as client:
        site = SiteClient(client, ManagedSite(site_id, group.site.routes))
        await _keep_needed(site, group, left, reasons)
        for change in changes:
            await _change(site, change, group.changes, left, reasons)
        site.watched = set(left)
        await _look(site)
    for document_id in list(left):
        if document_id in site.states:
            document = left.pop(document_id)
            reasons[document_id] = "the service accepted the deletion, but still lists the document"
            group.changes.record([document], "delete", reasons[document_id])
    group.changes.record_removed(list(left.values()), "delete")
    for document_id in left:
        del reasons[document_id]


async def _keep_needed(
    site: SiteClient,
    group: _Group,
    left: dict[str, KnownDocument],
    reasons: dict[str, str],
) -> None:
    """Remove the documents whose newer document is not in use: the assistant still needs them."""
    words = group.site.routes.words
    statuses: dict[str, str | None] = {}
    for row in group.rows:
        is_current = row.content_hash is not None and row.document_id is not None
        if is_current and (row.status is None or words.state(row.status) != "active"):
            statuses[row.document_id] = row.status
    if not statuses:
        return
    site.watched = set(statuses)
    problem = ""
    try:
        await site.look()
    except AssistantError as error:
        problem = str(error)
    for document_id, document in list(left.items()):
        successor = document.successor
        if successor not in statuses:
            continue
        status = statuses[successor]
        if site.can_look:
            status = site.states.get(successor, "not in the list")
        if problem or (status is not None and status not in {"active", "unknown"}):
            del left[document_id]
            state = problem or status
            reasons[document_id] = f"the newer document {successor} is not in use: {state}"


async def _change(
    site: SiteClient,
    change: Change,
    changes: DocumentChanges,
    left: dict[str, KnownDocument],
    reasons: dict[str, str],
) -> None:
    """Make one change of all documents that are left. Those that the service refuses are removed."""
    if not left:
        return

    def claim(document_ids: Sequence[str]) -> None:
        changes.claim([left[document_id] for document_id in document_ids], change)

    refused: dict[str, str] = {}
    try:
        for refusal in await site.change(change, list(left), claim):
            refused[refusal.document_id] = refusal.reason
    except RouteMissingError:
        refused = dict.fromkeys(left, _ROUTE_MISSING)
    except AssistantError as error:
        refused = dict.fromkeys(left, str(error))
    for document_id, reason in refused.items():
        changes.record([left.pop(document_id)], change, reason)
        reasons[document_id] = reason
    if change == "deactivate":
        changes.record(list(left.values()), change)


async def _look(site: SiteClient) -> None:
    """Look for deleted documents in the list; it may show a deletion late, or not be readable."""
    with contextlib.suppress(AssistantError):
        await site.look()
        await site.look_until(lambda: not site.states, VISIBLE_SECONDS)
