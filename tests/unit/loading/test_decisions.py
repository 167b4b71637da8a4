"""What a row, a ledger entry, a reply and an error mean for a load."""

from __future__ import annotations

import pytest
from airflow_provider_assistant.loading.decisions import (
    SEND,
    UNCHANGED,
    classify,
    decide,
    is_repeat,
)
from airflow_provider_assistant.loading.fingerprints import RowFingerprint

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAmbiguousPermanentError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantInputError,
    AssistantResponseError,
    AssistantServerError,
)
from airflow_provider_assistant.ledger import LedgerEntry
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import PreparedRow

ROW = PreparedRow(7, RowFingerprint("k", "new"), "id=7")
BAD = AssistantBadRequestError("400 Bad Request: no title", status=400, detail="no title")


def entry(state, content_hash=None):
    return LedgerEntry(state, "created", "claim", "kb", content_hash, None, created_id="doc-1")


def options(**given):
    return LoadOptions(max_concurrency=4, **given)


@pytest.mark.parametrize("known", [None, entry("none"), entry("ambiguous"), entry("created", "old")])
def test_a_row_that_is_not_on_the_site_is_sent(known):
    decision = decide(ROW, known, options())
    assert decision == SEND
    assert decision.is_sent


def test_a_bad_row_is_rejected_whatever_the_ledger_says():
    bad = PreparedRow(7, ROW.fingerprint, "id=7", problem="column 'title' is empty")
    decision = decide(bad, entry("created", "new"), options())
    assert (decision.outcome, decision.reason, decision.is_sent) == ("rejected", "column 'title' is empty", False)


def test_a_row_with_the_same_content_is_unchanged():
    assert decide(ROW, entry("created", "new"), options(on_change="fail")) is UNCHANGED


def test_a_row_that_another_task_has_claimed_is_skipped():
    decision = decide(ROW, entry("leased"), options())
    assert (decision.outcome, decision.error) == ("skipped", None)
    assert "another task" in decision.reason


def test_a_changed_row_may_be_skipped():
    decision = decide(ROW, entry("created", "old"), options(on_change="skip"))
    assert (decision.outcome, decision.document_id, decision.error) == ("skipped", "doc-1", None)


def test_a_changed_row_may_stop_the_load():
    decision = decide(ROW, entry("created", "old"), options(on_change="fail"))
    assert (decision.outcome, decision.is_sent) == (None, False)
    assert isinstance(decision.error, AssistantInputError)
    assert decision.error.field == "on_change"
    assert "row 7 (id=7)" in str(decision.error)


@pytest.mark.parametrize("on_ambiguous", ["skip", "fail"])
def test_an_ambiguous_row_may_be_left_alone_or_stop_the_load(on_ambiguous):
    decision = decide(ROW, entry("ambiguous"), options(on_ambiguous=on_ambiguous))
    assert (decision.outcome, decision.is_sent) == ("ambiguous", False)
    assert isinstance(decision.error, AssistantAmbiguousPermanentError) == (on_ambiguous == "fail")


@pytest.mark.parametrize("ambiguous", [0, 1])
@pytest.mark.parametrize(
    ("error", "outcome", "more"),
    [
        (BAD, "rejected", 0),
        (AssistantServerError("503", status=503), "failed", 0),
        (AssistantConnectionError("failed"), "failed", 0),
        (AssistantAmbiguousError("dropped"), "ambiguous", 1),
        (AssistantResponseError("not JSON"), "ambiguous", 1),
    ],
)
def test_outcome_of_an_error(error, outcome, more, ambiguous):
    failure = classify(error, ambiguous, "retry")
    if outcome == "rejected":
        assert (failure.outcome, failure.reason, failure.ambiguous) == ("rejected", "no title", 0)
    else:
        # An earlier request may have created the document, whatever the last error is.
        assert failure.outcome == ("ambiguous" if ambiguous else outcome)
        assert (failure.reason, failure.ambiguous) == (str(error), ambiguous + more)
    assert failure.error is None


def test_a_file_that_cannot_be_opened_is_rejected_unless_an_earlier_request_is_ambiguous():
    error = AssistantInputError("the file has changed")
    assert classify(error, 0, "retry").outcome == "rejected"
    assert classify(error, 1, "retry").outcome == "ambiguous"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (None, False),
        (entry("ambiguous")._replace(sent_hash="new"), True),
        (entry("ambiguous", "old")._replace(sent_hash="new"), True),
        (entry("ambiguous")._replace(sent_hash="old"), False),
        (entry("ambiguous", "new"), False),
        (entry("none")._replace(sent_hash="new"), False),
        (entry("created", "new")._replace(sent_hash="new"), False),
    ],
)
def test_a_repeat_sends_the_content_of_an_ambiguous_attempt(known, expected):
    assert is_repeat(known, "new") is expected


@pytest.mark.parametrize("detail", ["", "duplicate operation"])
def test_a_409_is_rejected_with_what_happened(detail):
    happened = "409 Conflict: a document like this exists already at the service"
    error = AssistantBadRequestError(happened, status=409, detail=detail)
    failure = classify(error, 0, "retry")
    assert (failure.outcome, failure.reason) == ("rejected", happened)


@pytest.mark.parametrize("error", [AssistantAmbiguousError("dropped"), AssistantResponseError("not JSON")])
def test_an_ambiguous_error_may_stop_the_load(error):
    assert isinstance(classify(error, 0, "fail").error, AssistantAmbiguousPermanentError)
    assert classify(error, 0, "skip").error is None
    assert classify(AssistantServerError("503", status=503), 0, "fail").error is None
