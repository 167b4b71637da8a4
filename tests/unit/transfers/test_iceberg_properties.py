"""The connection of an Iceberg catalog: its properties, and its secrets."""

from __future__ import annotations

import json

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.transfers import iceberg_properties as iceberg
from airflow_provider_assistant.transfers.iceberg_properties import iceberg_properties

HOST = "https://catalog.example.com/ws/v1"


@pytest.fixture
def masked(monkeypatch):
    masked: list[str] = []
    monkeypatch.setattr(iceberg, "mask_secret", masked.append)
    return masked


@pytest.mark.parametrize(
    ("fields", "expected", "secrets"),
    [
        (
            {"host": f"{HOST}/", "login": "id", "password": "canary"},
            {"type": "rest", "uri": HOST, "credential": "id:canary"},
            ["id:canary"],
        ),
        (
            {"host": HOST, "extra": {"warehouse": "w", "s3.secret-access-key": "canary", "ssl": True, "n": 8}},
            {"type": "rest", "uri": HOST, "warehouse": "w", "s3.secret-access-key": "canary", "ssl": "true", "n": "8"},
            ["canary"],
        ),
        (
            {"login": "user", "password": "p", "extra": {"type": "sql", "uri": "postgresql://user:canary@host/db"}},
            {"type": "sql", "uri": "postgresql://user:canary@host/db"},
            ["canary"],
        ),
        (
            {"host": HOST, "extra": {"auth": {"type": "oauth2", "oauth2": {"client_secret": "canary"}}}},
            {"type": "rest", "uri": HOST, "auth": {"type": "oauth2", "oauth2": {"client_secret": "canary"}}},
            ["canary"],
        ),
    ],
)
def test_the_fields_are_properties_and_the_secrets_are_masked(fields, expected, secrets, masked, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps({"conn_type": "iceberg", **fields}))
    assert iceberg_properties("catalog") == expected
    assert masked == secrets
    masked.clear()
    assert iceberg_properties("catalog", {"token": "other"}) == {**expected, "token": "other"}
    assert masked == [*secrets, "other"]


def test_half_a_credential_is_refused(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps({"conn_type": "iceberg", "host": HOST, "login": "id"}))
    with pytest.raises(AssistantInputError, match="only one of client id"):
        iceberg_properties("catalog")
