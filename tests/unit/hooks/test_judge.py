"""The connection of a judge: base URL, key and model."""

from __future__ import annotations

import json

import pytest

from airflow_provider_assistant.client.http_common import key_headers
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.judge import judge_connection


@pytest.fixture
def connect(monkeypatch):
    def connect(model=None, **fields):
        connection = {"conn_type": "pydanticai", "extra": {"model": "openai:small"}, **fields}
        monkeypatch.setenv("AIRFLOW_CONN_MODELS", json.dumps(connection))
        return judge_connection("models", model, 8)

    return connect


def test_host_key_and_model_are_those_of_the_connection(connect):
    settings, model = connect(host="http://localhost:11434/v1/", password=" canary-key ")
    assert (settings.base_url, model, settings.max_concurrency) == ("http://localhost:11434/v1", "small", 8)
    headers = key_headers(settings)
    assert headers["Authorization"] == "Bearer canary-key"
    assert "X-API-Key" not in headers
    assert "canary" not in repr(settings)


def test_a_host_without_a_key_gets_no_header(connect):
    assert not {"Authorization", "X-API-Key"} & set(key_headers(connect(host="http://localhost/v1").client))


def test_openai_needs_no_host_and_every_other_provider_does(connect):
    assert connect(password="x").client.base_url == "https://api.openai.com/v1"
    with pytest.raises(AssistantInputError, match="OpenAI-compatible base URL of 'anthropic'"):
        connect("anthropic:large", password="x")
    for host in (None, "https://api.openai.com/v1/"):
        with pytest.raises(AssistantInputError, match="has no API key, which https:"):
            connect(host=host, password=" ")


@pytest.mark.parametrize(
    ("given", "name"), [("ollama:llama3:8b", "llama3:8b"), ("large", "large"), (" openai:large ", "large")]
)
def test_the_model_of_the_task_wins_and_loses_its_provider(connect, given, name):
    assert connect(given, host="https://models.example.com/v1").model == name


@pytest.mark.parametrize("extra", [{}, {"model": ""}, {"model": 7}, {"model": "openai:"}])
def test_a_model_is_required(connect, extra):
    with pytest.raises(AssistantInputError, match="no model is given"):
        connect(extra=extra)


@pytest.mark.parametrize(
    "host",
    [
        "models.example.com",
        "https://canary@models.example.com/v1",
        "https://",
        "https://a/v1?canary=1",
        "ftp://canary/v1",
        "https://[::canary/v1",
    ],
)
def test_a_host_is_a_base_url_and_a_wrong_one_is_not_repeated(connect, host):
    with pytest.raises(AssistantInputError, match="must be a base URL with its protocol") as raised:
        connect(host=host, password="x")
    assert "canary" not in str(raised.value)


def test_a_key_that_no_header_can_carry_is_refused(connect):
    with pytest.raises(AssistantInputError, match="characters that an HTTP header cannot carry") as raised:
        connect(password="canary\u00e9")
    assert "canary" not in str(raised.value)


def test_plain_http_to_another_machine_is_a_warning(connect, caplog):
    connect(host="http://models.example.com/v1", password="x")
    assert "travels unencrypted to models.example.com" in caplog.text


def test_a_rotated_key_is_read_again_with_the_same_model(connect):
    settings, _ = connect("small", host="https://models.example.com/v1", password="key-of-yesterday")
    current, _ = connect("small", host="https://models.example.com/v1", password="key-of-today")
    assert settings.read_again() == current
    assert settings.read_again().api_key == "key-of-today"
