"""Settling of all entries that match the filters of a list, in one step with one line in Airflow's audit log."""

from __future__ import annotations

from typing import Literal

from fastapi import HTTPException

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantLedgerError, sentence
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.resolution import ByHand
from airflow_provider_assistant.ledger.settling import SettledAll, settle_all
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.ui.access import Rights
from airflow_provider_assistant.ui.audit import write_audit_log
from airflow_provider_assistant.ui.ledgers import engine_of, select_ledger
from airflow_provider_assistant.ui.models import SettleOutcome, UnavailableError
from airflow_provider_assistant.ui.selected import SelectedSite
from airflow_provider_assistant.ui.task_models import Matching, SettleItem, SettleReply, SettleRequest

EVENT = "assistant_settle"
OUTCOMES: dict[SettleOutcome, ByHand] = {"created": "created", "not_created": "failed"}
# What the next load does, by kind and outcome.
NEXT = {
    ("document", "created"): "The next load does not send this row, unless its content has changed.",
    ("document", "not_created"): "The next load sends this row again, if it is still in the source.",
    ("chat_request", "not_created"): "The next try of the task submits this chat again.",
    ("rating", "created"): "The next try of the task does not send this rating.",
    ("rating", "not_created"): "The next try of the task sends this rating again.",
}
DELETED = (
    "The ledger forgets the deleted documents. If the source still has a row of one that was current, the next load "
    "creates it again."
)
# What follows for all entries of a list.
_NEXT_OF_ALL = {
    "created": "Loads and retries do not send them again, unless the content of a row has changed.",
    "not_created": "The next loads and retries send them again, if their sources still have them.",
    "deleted": DELETED,
}
# Number of entries that the reply lists.
_LISTED = 10


def settle_matching(request: SettleRequest, matching: Matching, rights: Rights, user: str | None = None) -> SettleReply:
    """
    Settle all entries that match.

    :param user: Name of the user who has confirmed it. Default: None, to reply what it would do.
    :raises HTTPException: 409 if the list is another one than the confirmed one; 403 if the user may not settle any of
        the entries; 422 for an invalid request.
    """
    ledger_ref = select_ledger(request.ledger)
    site = SelectedSite(matching.site_id, matching.service, matching.tenant_id)
    selection = site.selection(rights.selected, source=matching.source, label_part=matching.label_part)
    outcome: ByHand | Literal["deleted"] = "deleted"
    if request.outcome != "deleted":
        outcome = OUTCOMES[request.outcome]
    confirmation = request.confirmation if user else None
    try:
        with engine_of(ledger_ref) as engine, Ledger(engine) as ledger:
            report = settle_all(
                ledger,
                matching.which,
                selection,
                outcome,
                confirmation=confirmation,
                may_change=rights.may_settle,
            )
    except AssistantInputError as error:
        status = 409 if error.field == "confirm" else 422
        raise HTTPException(status, sentence(str(error))) from error
    except (UnavailableError, AssistantLedgerError) as error:
        return SettleReply(is_preview=user is None, settled=0, refused=0, text=str(error), items=[])
    if user and report.settled:
        _log(user, ledger_ref.name, request, matching, report)
    return _reply(request, report, is_preview=user is None)


def settled_text(entries: int, outcome: SettleOutcome, *, is_preview: bool) -> str:
    """Return the sentence that says how many entries were settled, or would be."""
    subject = counted(entries, "entry was", "entries were")
    if is_preview:
        subject = counted(entries, "entry would be", "entries would be")
    return f"{subject} settled as {outcome.replace('_', ' ')}."


def _reply(request: SettleRequest, report: SettledAll, *, is_preview: bool) -> SettleReply:
    consequence = _NEXT_OF_ALL[request.outcome]
    text = settled_text(report.settled, request.outcome, is_preview=is_preview)
    if report.settled:
        text = f"{text} {consequence}"
    kept = report.kept.total()
    if kept:
        reasons = [f"{count:,}: {reason}" for reason, count in report.kept.most_common()]
        text = f"{text} {kept:,} more stay as they are. {' '.join(reasons)}"
    items = [SettleItem(name=label, accepted=True, text=consequence) for label in report.labels[:_LISTED]]
    return SettleReply(
        is_preview=is_preview,
        settled=report.settled,
        refused=kept,
        text=text,
        items=items,
        sites=sorted(map(str, report.sites)),
        confirmation=report.confirmation,
    )


def _log(user: str, ledger: str, request: SettleRequest, matching: Matching, report: SettledAll) -> None:
    """Write one line to Airflow's audit log; it names the DAG if all entries are of one."""
    facts = {
        "ledger": ledger,
        "outcome": request.outcome,
        "entries": report.settled,
        "filter": matching.model_dump(exclude_none=True),
        "dags": sorted(map(str, report.dag_ids)),
        "names": report.labels,
    }
    dag_id = None
    if len(report.dag_ids) == 1:
        (dag_id,) = report.dag_ids
    write_audit_log(EVENT, user, {dag_id: facts})
