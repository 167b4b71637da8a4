"""The routes that settle entries: by the rules of the command line, with a line in Airflow's audit log."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException

from airflow_provider_assistant.error import sentence
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantLedgerError
from airflow_provider_assistant.ledger import Filter, Ledger, Site, queries
from airflow_provider_assistant.ledger.settle import NOT_ALLOWED, Report, Settled
from airflow_provider_assistant.ledger.settle import settle as settle_entries
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_pages
from airflow_provider_assistant.ui.audit import write_audit_log
from airflow_provider_assistant.ui.ledger import opened_engine
from airflow_provider_assistant.ui.models import SettleReply, SettleRequest, UnavailableError

router = APIRouter(prefix="/api/settle", dependencies=[Depends(may_see_pages)])

EVENT = "assistant_settle"
# What follows, by outcome.
NEXT: dict[Settled, str] = {
    "created": "Loads and retries do not send them again, unless the content of a row has changed.",
    "not-created": "The next loads and retries send what does not exist, if their sources still have it.",
    "removed": "The ledger no longer counts them as documents. If the source still has such a row, and it has no newer "
    "document, the next load creates it again.",
}
# Number of entries that a reply lists.
LISTED = 10


@router.post("/preview")
def preview(request: SettleRequest, rights: RightsDep) -> SettleReply:
    """Return what settling would do, without changes."""
    return _settle(request, rights, user=None)


@router.post("")
def settle(request: SettleRequest, rights: RightsDep, user: GetUserDep) -> SettleReply:
    """Settle the entries that the preview has shown."""
    if request.confirmation is None:
        raise HTTPException(422, "Confirm what the preview replied.")
    return _settle(request, rights, user=user.get_name())


def _settle(request: SettleRequest, rights: Rights, user: str | None) -> SettleReply:
    """
    Settle entries, or return what it would do.

    :param user: Name of the user who has confirmed it; None for a preview.
    :raises HTTPException: 403 if the user may not change the DAG of an entry; 409 if the list is another one than the
        confirmed one; 422 for an invalid request. Nothing was changed.
    """
    selected = _selected(request)
    try:
        with opened_engine() as engine, Ledger(engine, warn_if_new=False) as ledger:
            report = settle_entries(ledger, selected, request.outcome, may_change=rights.may_settle)
            missing = _missing(ledger, request, selected, report)
            if report.kept[NOT_ALLOWED]:
                raise HTTPException(403, "Forbidden")
            if user is not None:
                report = settle_entries(
                    ledger,
                    selected,
                    request.outcome,
                    confirmation=request.confirmation,
                    may_change=rights.may_settle,
                )
    except AssistantInputError as error:
        raise HTTPException(409 if error.field == "confirm" else 422, sentence(str(error))) from error
    except (UnavailableError, AssistantLedgerError) as error:
        return SettleReply(settled=0, text=str(error))
    if user is not None and report.settled:
        _log(user, request, report)
    return SettleReply(
        settled=report.settled,
        text=_text(request.outcome, report, missing, is_preview=user is None),
        labels=report.labels[:LISTED],
        sites=sorted(map(str, report.sites)),
        confirmation=report.confirmation,
    )


def _selected(request: SettleRequest) -> Filter:
    if bool(request.ids) == bool(request.document_ids):
        raise HTTPException(422, "Name entries or documents.")
    if request.ids:
        return Filter(ids=set(request.ids))
    if request.site_id is None or request.service is None or request.outcome != "removed":
        raise HTTPException(422, "Documents need their site, and can only be settled as removed.")
    site = Site(request.service, request.site_id)
    return Filter(remote_ids=set(request.document_ids), site=site, which="created")


def _missing(ledger: Ledger, request: SettleRequest, selected: Filter, report: Report) -> str:
    """Return how many of the named entries or documents are not there, and why; empty if all are."""
    if request.document_ids:
        rows = ledger.read(queries.entries, ledger.clock, selected, limit=queries.MOST).rows
        count = len(set(request.document_ids) - {row["remote_id"] for row in rows})
        reason = "Not a document of this site in the ledger."
    else:
        count = len(set(request.ids)) - report.settled - report.kept.total()
        reason = "Settled already, or changed since the page was loaded. Load the page again."
    return f"{count:,}: {reason}" if count > 0 else ""


def _text(outcome: Settled, report: Report, missing: str, *, is_preview: bool) -> str:
    subject = counted(report.settled, "entry was", "entries were")
    if is_preview:
        subject = counted(report.settled, "entry would be", "entries would be")
    sentences = [f"{subject} settled as {outcome.replace('-', ' ')}."]
    if report.settled:
        sentences.append(NEXT[outcome])
    reasons = [f"{count:,}: {reason}" for reason, count in report.kept.most_common()]
    if missing:
        reasons.append(missing)
    if reasons:
        sentences.append(f"Others stay as they are. {' '.join(reasons)}")
    return " ".join(sentences)


def _log(user: str, request: SettleRequest, report: Report) -> None:
    """Write one line to Airflow's audit log; it names the DAG if all entries are of one."""
    facts: dict[str, Any] = {"outcome": request.outcome, "entries": report.settled, "names": report.labels}
    dag_id = None
    if len(report.dag_ids) == 1:
        (dag_id,) = report.dag_ids
    else:
        facts["dags"] = sorted(map(str, report.dag_ids))
    write_audit_log(EVENT, user, dag_id, facts)
