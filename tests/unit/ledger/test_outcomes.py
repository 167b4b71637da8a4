"""What a reply and an error mean for the ledger."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.replies import ApiReply, CreatedDocument
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantResponseError,
    AssistantServerError,
)
from airflow_provider_assistant.ledger import (
    Claim,
    outcome_of,
    outcome_of_error,
    outcome_of_reply,
)

CLAIM = Claim("k", "id=7", None)


@pytest.mark.parametrize(
    ("reply", "created_id", "status"),
    [
        (CreatedDocument({"id": 5, "status": "draft"}, CallInfo(201, 3, 2)), "5", "draft"),
        (CreatedDocument({"document_id": "d", "active": False}, CallInfo(200)), "d", "inactive"),
        (CreatedDocument({"status": "success", "id": "d"}, CallInfo(200)), "d", None),
        (CreatedDocument(None, CallInfo(204)), None, None),
        (ApiReply({"status": "draft"}, CallInfo(200)), None, None),
    ],
)
def test_outcome_of_a_reply(reply, created_id, status):
    recorded = outcome_of_reply(CLAIM, "hash", reply)
    assert recorded.claim is CLAIM
    assert (recorded.outcome, recorded.content_hash, recorded.error) == ("created", "hash", None)
    assert (recorded.created_id, recorded.status) == (created_id, status)
    info = reply.call_info
    sent = (recorded.http_status, recorded.attempts, recorded.ambiguous)
    assert sent == (info.status, info.attempts, info.ambiguous)


@pytest.mark.parametrize(
    ("error", "outcome", "http_status"),
    [
        (AssistantBadRequestError("400", status=400), "rejected", 400),
        (AssistantServerError("503", status=503), "failed", 503),
        (AssistantConnectionError("refused"), "failed", None),
        (AssistantAmbiguousError("dropped"), "ambiguous", None),
        (AssistantResponseError("not JSON"), "ambiguous", None),
    ],
)
@pytest.mark.parametrize("ambiguous", [0, 1, 3])
def test_outcome_of_an_error(error, outcome, http_status, ambiguous):
    assert outcome_of(error) == outcome
    recorded = outcome_of_error(CLAIM, "hash", error, outcome, ambiguous)
    assert (recorded.outcome, recorded.http_status) == (outcome, http_status)
    assert (recorded.content_hash, recorded.created_id, recorded.error) == ("hash", None, str(error))
    # An ambiguous request counts, also if nobody has counted it.
    assert recorded.ambiguous == (max(1, ambiguous) if outcome == "ambiguous" else ambiguous)
