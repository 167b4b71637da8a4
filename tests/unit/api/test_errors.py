from __future__ import annotations

import email.utils

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.api import endpoints, errors
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.payloads import QADocument
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantError

GET = endpoints.get_statistics("docs")
POST = endpoints.create_qa_document("docs", QADocument(title="t", question="q", answer="a", category="c"))
NOW = 1_700_000_000.0


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            (None, None),
            ("", None),
            ("0", 0.0),
            ("120", 120.0),
            (" 1.5 ", 1.5),
            ("-5", None),
            ("soon", None),
            ("1e3", None),
            ("NaN", None),
            ("٣", None),
            (email.utils.formatdate(NOW + 30, usegmt=True), 30.0),
            (email.utils.formatdate(NOW - 30, usegmt=True), 0.0),
            ("Tue, 14 Nov 2023 22:13:50", 30.0),
            ("Tue, 99 Nov 2023 22:13:50 GMT", None),
            ("inf", None),
            ("0x10", None),
            ("9" * 400, None),
            ("3, 3", None),
            ("999999999", 86_400.0),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
            ("Fri, 31 Dec 9999 23:59:59 -2359", 86_400.0),
            ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
        ],
    )
    def test_forms(self, value: str | None, seconds: float | None) -> None:
        assert errors.parse_retry_after(value, NOW) == seconds

    @given(st.floats(min_value=0, max_value=10**9), st.integers(min_value=0, max_value=86_400))
    def test_a_date_becomes_seconds_from_now(self, now: float, ahead: int) -> None:
        date = email.utils.formatdate(int(now) + ahead, usegmt=True)
        assert errors.parse_retry_after(date, float(int(now))) == ahead


class TestFromResponse:
    @pytest.mark.parametrize(
        ("body", "detail"),
        [
            (b'{"error": {"code": "x", "message": "No such site."}}', "No such site."),
            (b'{"error": "No such site."}', "No such site."),
            (b'{"detail": "No such site."}', "No such site."),
            (b'{"message": "No such site."}', "No such site."),
            (b'{"data": {"error": {"message": "No such site."}}}', "No such site."),
            (b'{"detail": [{"loc": ["x"]}]}', "loc: x"),
            (b"<html><title>No such\nsite.</title><body>x", "No such site."),
            (b"<p>No such &quot;site&quot;.</p>", 'No such "site".'),
            (b"plain\x1b[31m words", "plain [31m words"),
            (b"", ""),
            (b"null", ""),
        ],
    )
    def test_detail(self, body: bytes, detail: str) -> None:
        assert errors.from_response(GET, Response(404, {}, body), NOW).detail == detail

    def test_every_row_says_what_to_do(self) -> None:
        for status, row in errors.STATUSES.items():
            error = errors.from_response(GET, Response(status, {"x-request-id": "abc"}, b""), NOW)
            assert type(error) is row.error
            assert row.todo in str(error)
            assert row.condition in str(error)
            assert error.request_id == "abc"

    def test_the_table_has_the_statuses_of_the_specification_and_those_with_advice_of_their_own(self) -> None:
        own = {status for status, row in errors.STATUSES.items() if row.own_todo}
        assert set(errors.STATUSES) - own == {400, 401, 403, 404, 429}


@pytest.mark.parametrize(
    ("outcome", "of_create"),
    [
        (Response(500, {}, b""), True),
        (Response(502, {}, b""), True),
        (Response(429, {}, b""), False),
        (Response(404, {}, b""), False),
        (TransportFailure("connection", "", sent=False), False),
        (TransportFailure("connection", "", sent=True), True),
        (TransportFailure("timeout", "", sent=True), True),
    ],
)
def test_which_failures_are_ambiguous(outcome: Response | TransportFailure, of_create: bool) -> None:
    assert errors.may_have_happened(POST, outcome) is of_create
    assert errors.may_have_happened(GET, outcome) is False


def test_which_errors_are_transient() -> None:
    transient = {
        status
        for status in range(300, 600)
        if errors.is_transient(errors.from_response(GET, Response(status, {}, b""), NOW))
    }
    assert transient == {408, 425, 429, *range(500, 600)} - {501, 511}
    assert errors.is_transient(errors.from_failure(GET, TransportFailure("timeout", "", sent=True)))
    assert not errors.is_transient(AssistantAPIError("a redirect", status=302))
    assert not errors.is_transient(AssistantError("anything else"))


@pytest.mark.parametrize(
    ("status", "refused", "lost"),
    [
        (302, False, False), (400, True, True), (401, True, False), (403, True, False), (404, True, True),
        (408, False, False), (409, True, True), (410, True, True), (422, True, True), (425, False, False),
        (429, False, False), (500, False, False),
    ],
)  # fmt: skip
def test_what_a_status_means_for_a_request_and_for_a_poll(status: int, refused: bool, lost: bool) -> None:
    error = errors.from_response(GET, Response(status, {}, b""), NOW)
    assert (errors.is_refused(error), errors.is_lost(error)) == (refused, lost)
    assert refused == isinstance(error, AirflowFailException)
