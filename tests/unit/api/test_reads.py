"""Reads by name: their requests, and what messages say about them."""

from __future__ import annotations

from datetime import date

import pytest

from airflow_provider_assistant.api import endpoints, errors
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.privacy import WITHHELD, user_label
from airflow_provider_assistant.api.reads import READS, day_range, read, with_query
from airflow_provider_assistant.exceptions import AssistantInputError

IDS = {"tenant_id": "t/1", "site_id": "s 1", "email": "Ada+x@example.com"}
PATHS = {
    "limits": "/m2m/tenants/t%2F1/limits",
    "tenant": "/m2m/tenants/t%2F1",
    "usage": "/m2m/tenants/t%2F1/usage",
    "usage_history": "/m2m/tenants/t%2F1/usage/history",
    "tenant_statistics": "/m2m/tenants/t%2F1/statistics",
    "site": "/m2m/sites/s%201",
    "statistics": "/m2m/sites/s%201/statistics",
    "sessions": "/m2m/sites/s%201/sessions",
    "user_statistics": "/m2m/sites/s%201/users/Ada%2Bx%40example.com/statistics",
}


def test_every_read_has_its_path_and_only_reads():
    assert list(READS) == list(PATHS)
    for name, path in PATHS.items():
        call = read(name, **IDS)
        assert (call.method, call.path, call.endpoint, call.json) == ("GET", path, name, None)
        assert call.repeatable
        for secret in ("Ada", "example.com"):
            assert secret not in str(call)


def test_reads_of_the_specification_are_the_calls_of_its_endpoints():
    assert read("limits", tenant_id="acme") == endpoints.get_limits("acme")
    assert read("statistics", site_id="docs") == endpoints.get_statistics("docs")


def test_params_are_encoded_and_not_shown():
    call = read("sessions", site_id="docs", params={"user": "ada@example.com", "from": "2026-11-01"})
    assert call.path == "/m2m/sites/docs/sessions?user=ada%40example.com&from=2026-11-01"
    assert str(call) == "GET sessions for site 'docs'"
    assert call.private == ("ada@example.com",)
    longer = with_query("/m2m/x?a=1", {"b": "ä"})
    assert longer == "/m2m/x?a=1&b=%C3%A4"
    assert str(endpoints.other("GET", longer)) == "GET other for /m2m/x"


@pytest.mark.parametrize(
    "email", ["", " ", None, 5, "ada", "ada@", "a@b@c", "ada@example.com\ud800", "a" * 251 + "@b.c"]
)
def test_an_invalid_address_is_refused_and_not_repeated(email):
    with pytest.raises(AssistantInputError) as caught:
        read("user_statistics", site_id="docs", email=email)
    assert caught.value.field == "email"
    assert "ada" not in str(caught.value)


@pytest.mark.parametrize(("name", "field"), [("usage", "tenant_id"), ("sessions", "site_id"), ("limit", "read")])
def test_what_is_missing_is_named(name, field):
    with pytest.raises(AssistantInputError) as caught:
        read(name)
    assert caught.value.field == field


def test_a_path_that_leaves_the_base_url_is_refused_without_its_address():
    with pytest.raises(AssistantInputError, match="base URL") as caught:
        endpoints.other("GET", "https://elsewhere.example/users/ada%40example.com?email=ada@example.com")
    assert "ada" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": "user ada@example.com not found"}',
        b'{"error": "user ADA%40EXAMPLE.COM not found"}',
        b'{"error": {"message": "no statistics of \\u0061da"}}',
        b"<html><title>No page /users/ada&#64;example.com</title></html>",
        b"GET /users/ada%2540example.com",
    ],
)
@pytest.mark.parametrize("status", [400, 403, 404, 429, 500, 302])
def test_an_error_withholds_a_text_that_repeats_the_user(body, status):
    calls = [
        read("user_statistics", site_id="docs", email="ada@example.com"),
        endpoints.other("GET", "/m2m/sites/docs/people/ada@example.com"),
        endpoints.other("GET", with_query("/m2m/sites/docs/people", {"email": "ada@example.com"})),
    ]
    for call in calls:
        error = errors.from_response(call, Response(status, {}, body), 0.0)
        assert error.detail == WITHHELD
        assert "ada" not in f"{error} {error.serialize()}".casefold()


def test_an_error_shows_a_text_that_does_not_repeat_the_user():
    call = read("user_statistics", site_id="docs", email="ada@example.com")
    error = errors.from_response(call, Response(403, {}, b'{"error": "not on this plan"}'), 0.0)
    assert error.detail == "not on this plan"
    assert f"GET user_statistics for {user_label('ada@example.com')} of site 'docs'" in str(error)


@pytest.mark.parametrize("kind", ["timeout", "connection"])
def test_a_failure_withholds_a_text_that_repeats_the_user(kind):
    call = read("user_statistics", site_id="docs", email="ada@example.com")
    error = errors.from_failure(call, TransportFailure(kind, "bad line: /users/ada%40example.com", sent=True))
    assert WITHHELD in str(error)
    assert "ada" not in str(error)


def test_a_range_of_days():
    assert day_range(None, None) == {}
    assert day_range(date(2026, 1, 2), None) == {"from": "2026-01-02"}
    assert day_range(date(2026, 1, 2), date(2026, 2, 1)) == {"from": "2026-01-02", "to": "2026-02-01"}
