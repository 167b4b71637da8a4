"""Errors keep their class and fields when they travel in an event."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_provider_assistant.client.defaults import get_client_defaults, set_client_defaults
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAuthenticationError,
    AssistantError,
    AssistantInputError,
    AssistantLedgerError,
    AssistantRateLimitError,
    AssistantRequestLostError,
    AssistantRequestTimeoutError,
)
from airflow_provider_assistant.triggers import events
from airflow_provider_assistant.triggers.events import failure_of, raise_failure
from tests.versions import deserialize, serialize


@pytest.mark.parametrize(
    "error",
    [
        AssistantError("m"),
        AssistantInputError("m", field="site_id"),
        AssistantAuthenticationError("m", status=401, endpoint="chat.request", detail="no"),
        AssistantRateLimitError("m", status=429, endpoint="chat.request", retry_after=5.5),
        AssistantAmbiguousError("m", endpoint="chat.async", attempts=3),
        AssistantRequestTimeoutError("m", request_id="r", status="queued"),
        AssistantRequestLostError("m", safe="S.", todo="T."),
        AssistantLedgerError("m"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_its_class_and_fields(error):
    event = deserialize(json.loads(json.dumps(serialize(failure_of(error)))))
    with pytest.raises(AssistantError) as caught:
        raise_failure(event)
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert vars(caught.value) == vars(error)


@pytest.mark.parametrize("event", [None, {}, {"error": None}, {"error": "text"}, {"open": 0, "deadline": 1.0}])
def test_an_event_without_an_error_raises_none(event):
    assert raise_failure(event) is None


@pytest.mark.parametrize("name", ["AssistantQuotaError", "annotations", "__name__", "AirflowException", "", None])
def test_an_unknown_error_class_becomes_assistant_error(name):
    with pytest.raises(AssistantError, match="used up") as caught:
        raise_failure({"error": {"type": name, "fields": {"happened": "used up", "left": 0}}})
    assert type(caught.value) is AssistantError
    assert caught.value.left == 0


def test_fields_may_be_missing():
    with pytest.raises(AssistantRateLimitError) as caught:
        raise_failure({"error": {"type": "AssistantRateLimitError"}})
    assert caught.value.retry_after is None


@pytest.mark.parametrize(("not_before", "waited"), [(0.0, 0.0), (1007.0, 7.0), (1e12, 10.0)])
async def test_an_event_waits_until_the_scheduler_has_seen_the_deferral(not_before, waited, monkeypatch):
    monkeypatch.setattr(events, "SETTLING_SECONDS", 10.0)
    waits = []

    async def asleep(seconds):
        waits.append(seconds)

    previous = set_client_defaults(replace(get_client_defaults(), now=lambda: 1000.0, asleep=asleep))
    try:
        await events.wait_until(not_before)
    finally:
        set_client_defaults(previous)
    assert sum(waits) == waited
