from __future__ import annotations

import contextlib
import email.utils
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.api import endpoints, errors
from airflow_provider_assistant.api.call import Call, CallInfo, Response
from airflow_provider_assistant.api.payloads import QADocument
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantConnectionError,
    AssistantError,
    AssistantGatewayError,
    AssistantServerError,
    AssistantTimeoutError,
)

GET = endpoints.get_statistics("docs")
POST = endpoints.create_qa_document("docs", QADocument(title="t", question="q", answer="a", category="c"))
NOW = 1_700_000_000.0


def error_of(call: Call[Any], outcome: Response | AssistantError) -> AssistantAPIError:
    with pytest.raises(AssistantError) as caught:
        errors.reply_of(call, outcome, CallInfo(0), NOW)
    return caught.value


def page(status: int, body: str = "<html><title>403 Forbidden</title>", **headers: str) -> Response:
    return Response(status, {"content-type": "text/html", **headers}, body.encode())


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


class TestErrorOfResponse:
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
            (b"<style>p { a: b }</style><p>No such site.</p>", "No such site."),
            (b"plain\x1b[31m words", "plain [31m words"),
            (b"", ""),
        ],
    )
    def test_the_reason_of_the_service_is_shown(self, body: bytes, detail: str) -> None:
        assert error_of(GET, Response(404, {}, body)).detail == detail

    def test_every_row_says_what_to_do(self) -> None:
        for status, row in errors.STATUSES.items():
            error = error_of(GET, Response(status, {"x-request-id": "abc"}, b""))
            if status in errors.ONLY_GATEWAYS:
                continue
            assert isinstance(error, row.error)
            assert (row.own_todo or row.error.default_todo) in str(error)
            assert row.meaning in str(error)
            assert error.request_id == "abc"


@pytest.mark.parametrize(
    ("outcome", "retryable", "maybe_done"),
    [
        *[(Response(status, {}, b""), False, False) for status in (400, 401, 403, 404, 405, 409, 413, 415, 422, 501)],
        *[(Response(status, {}, b""), True, False) for status in (408, 425, 429)],
        *[(Response(status, {}, b""), True, True) for status in (500, 502, 503, 504, 520, 599)],
        # A gateway judges no row: its refusals were not carried out, its 5xx may have been.
        *[(page(status), True, False) for status in (302, 401, 403, 404, 405, 407, 413, 421, 431, 495, 511)],
        *[(page(status), True, True) for status in (200, 502, 503)],
        (Response(201, {}, b"{"), True, True),
        (AssistantConnectionError(), True, False),
        (AssistantConnectionError(maybe_done=True), True, True),
        (AssistantTimeoutError(maybe_done=True), True, True),
    ],
)
def test_the_two_facts_of_each_outcome(outcome: Response | AssistantError, retryable: bool, maybe_done: bool) -> None:
    error = error_of(POST, outcome)
    assert (error.retryable, error.maybe_done) == (retryable, maybe_done)
    assert error_of(GET, outcome).maybe_done is False, "a read does no harm"
    assert isinstance(error, AirflowFailException) is not retryable, "Airflow retries what may pass"


@pytest.mark.parametrize(
    ("status", "refused", "lost"),
    [
        (400, True, True), (401, True, False), (403, True, False), (404, True, True), (408, False, False),
        (409, True, True), (410, True, True), (422, True, True), (425, False, False), (429, False, False),
        (500, False, False),
    ],
)  # fmt: skip
def test_what_a_status_means_for_a_request_and_for_a_poll(status: int, refused: bool, lost: bool) -> None:
    error = error_of(GET, Response(status, {}, b""))
    assert (errors.is_refused(error), errors.is_lost(error)) == (refused, lost)
    is_of_service = status == 409
    gateway = error_of(GET, page(status))
    assert (errors.is_refused(gateway), errors.is_lost(gateway)) == (is_of_service, is_of_service)


class TestWhoAnswered:
    @pytest.mark.parametrize("body", ["", "{}", '{"a": 1}', "[1]", "null", "gone", "site not found", " 7 < 8"])
    @pytest.mark.parametrize("status", [200, 404, 500])
    def test_json_text_and_nothing_may_be_of_the_api(self, body: str, status: int) -> None:
        assert not errors.is_of_gateway(Response(status, {}, body.encode()))

    @pytest.mark.parametrize("body", ["<!DOCTYPE html>", "\ufeff<html>", "\r\n <?xml ?>", "<h1>x", "<!-- a --><p>"])
    @pytest.mark.parametrize("status", [200, 404, 500])
    def test_markup_is_of_a_gateway(self, body: str, status: int) -> None:
        assert errors.is_of_gateway(Response(status, {}, body.encode()))

    @pytest.mark.parametrize(
        ("outcome", "said"),
        [
            (page(403, "<html><title>Attack ID 4711</title>"), "Attack ID 4711"),
            (page(404), "check the base URL"),
            (page(301, location="https://other.example/api/v1/m2m/sites/docs/statistics"), "https://other.example/api"),
            (page(302, location="https://login.example/?next=/api"), "This is not the assistant's API"),
            (page(407), "HTTPS_PROXY"),
            (page(413), "forwards only smaller requests"),
            (page(496), "client_cert"),
            (page(511), "Log in to the network"),
        ],
    )
    def test_its_words_and_what_to_do_are_shown(self, outcome: Response | AssistantError, said: str) -> None:
        error = error_of(GET, outcome)
        assert isinstance(error, AssistantGatewayError)
        assert said in str(error)

    @pytest.mark.parametrize("status", [500, 502, 503])
    def test_a_gateway_s_5xx_is_a_failure_of_the_service(self, status: int) -> None:
        assert isinstance(error_of(POST, page(status)), AssistantServerError)

    @given(st.binary(max_size=200), st.sampled_from([b"<", b"<!--", b"<a ", b""]), st.sampled_from([200, 404]))
    def test_no_body_is_too_odd(self, body: bytes, first: bytes, status: int) -> None:
        response = Response(status, {}, first + body * 50)
        with contextlib.suppress(AssistantError):
            errors.reply_of(GET, response, CallInfo(0), NOW)
