"""Build the connection form for Airflow 3.1."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.connection import ConnectionExtra


@pytest.fixture
def wtforms(monkeypatch):
    """Install a stub of WTForms, which may be missing."""

    def kind(name):
        return lambda label, *, description, default: (name, label, description, default)

    names = ("BooleanField", "IntegerField", "StringField")
    monkeypatch.setitem(sys.modules, "wtforms", SimpleNamespace(**{name: kind(name) for name in names}))


def test_the_form_has_every_extra(wtforms):
    fields = AssistantHook.get_connection_form_widgets()
    assert set(fields) == set(ConnectionExtra.model_fields)
    assert fields["verify"] == ("BooleanField", "Verify TLS", "Verify the service's certificate.", True)
    assert fields["retries"][0] == "IntegerField"
    assert fields["timeout"] == (
        "StringField",
        "Timeout (s)",
        "Maximum seconds until a response is complete. Default: 30.",
        None,
    )


def test_airflow_s_own_fields_are_hidden_or_renamed():
    shown = AssistantHook.get_ui_field_behaviour()
    assert shown["hidden_fields"] == ["schema", "login", "port"]
    assert shown["relabeling"] == {"host": "Base URL", "password": "API key"}
    assert shown["placeholders"] == {"host": "https://assistant.example.com/api/v1"}
