"""What a metrics backend of Airflow receives: every exchange, retry and completion, with its tags."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections import Counter
from datetime import timedelta

import pytest

from airflow_provider_assistant import metrics
from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.models import ChatMessage
from airflow_provider_assistant.client import AssistantClient, ClientSettings
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.operators.statistics import AssistantLimitsOperator
from tests.versions import measured_by

MESSAGE = ChatMessage(session_id="s", message="Anything?")


class Backend:
    """Keeps what Airflow hands to its metrics backend."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, frozenset[tuple[str, str]]]] = Counter()
        self.timed: list[tuple[str, dict[str, str], timedelta]] = []

    def incr(self, stat, count=1, rate=1, *, tags=None):
        self.counted[stat, frozenset((tags or {}).items())] += count

    def timing(self, stat, dt, *, tags=None):
        self.timed.append((stat, dict(tags or {}), dt))

    def timer(self, *args, **tags):
        """Measure nothing: Airflow 3.1 measures in this way, the package does not."""
        return contextlib.nullcontext()

    def ours(self):
        return {(name, tags): count for (name, tags), count in self.counted.items() if name.startswith("assistant.")}


@pytest.fixture
def backend():
    recording = Backend()
    with measured_by(recording):
        yield recording


@pytest.fixture
def waits():
    return []


@pytest.fixture
def client(service, waits):
    settings = ClientSettings(service.url, "dev-acme-full", retry=flow.RetryRule(attempts=3))

    async def asleep(seconds):
        waits.append(seconds)

    return AssistantClient(settings, sleep=waits.append, asleep=asleep, rng=random.Random(0))


def counts(**tagged):
    return {
        (f"assistant.{name}", frozenset(tags.items())): count
        for name, entries in tagged.items()
        for tags, count in entries
    }


async def drive(client, call, how):
    try:
        if how == "sync":
            with client:
                return client.send(call)
        async with client:
            return await client.asend(call)
    except AssistantError as error:
        return error


both = pytest.mark.parametrize("how", ["sync", "async"])


@both
async def test_success(how, client, backend):
    await drive(client, endpoints.get_limits("acme"), how)
    tags = {"endpoint": "limits", "status": "200"}
    assert backend.ours() == counts(requests=[(tags, 1)])
    ((name, timed_tags, taken),) = backend.timed
    assert (name, timed_tags) == ("assistant.request_duration", tags)
    assert isinstance(taken, timedelta)
    assert timedelta(0) < taken < timedelta(seconds=30)


@both
async def test_429_then_success(how, service, client, backend, waits):
    service.answer("retry-after:7")
    await drive(client, endpoints.get_statistics("acme-docs"), how)
    assert backend.ours() == counts(
        requests=[
            ({"endpoint": "statistics", "status": "429"}, 1),
            ({"endpoint": "statistics", "status": "200"}, 1),
        ],
        rate_limited=[({"endpoint": "statistics"}, 1)],
        retries=[({"endpoint": "statistics"}, 1)],
    )
    assert len(waits) == 1
    assert waits[0] >= 7


@both
async def test_5xx_until_the_end(how, service, client, backend):
    service.answer("status:503", times=2)
    service.answer("html:502")
    await drive(client, endpoints.chat("acme-docs", MESSAGE), how)
    seen = [({"endpoint": "chat", "status": "503"}, 2), ({"endpoint": "chat", "status": "502"}, 1)]
    assert backend.ours() == counts(requests=seen, server_errors=seen, retries=[({"endpoint": "chat"}, 2)])


@both
async def test_a_refusal_is_a_request_and_nothing_else(how, service, client, backend):
    await drive(client, endpoints.get_limits("globex"), how)
    assert backend.ours() == counts(requests=[({"endpoint": "limits", "status": "404"}, 1)])


@both
async def test_no_answer(how, service, client, backend):
    service.answer("drop", times=3)
    await drive(client, endpoints.chat("acme-docs", MESSAGE), how)
    tags = {"endpoint": "chat", "status": "connection"}
    assert backend.ours() == counts(requests=[(tags, 3)], retries=[({"endpoint": "chat"}, 2)])


@both
@pytest.mark.parametrize(("message", "state"), [("Anything?", "complete"), ("impossible", "failed")])
async def test_completion(how, message, state, service, client, backend):
    service.behave(fail_messages="impossible")
    chat = ChatMessage(session_id="s", message=message)
    submitted = await drive(client, endpoints.submit_chat("acme-docs", chat), "sync")
    now = time.time()
    waiting = flow.wait_for(
        endpoints.get_chat_request("acme-docs", submitted.request_id),
        since=now - 60, deadline=now + 60, interval=0, now=time.time,
    )  # fmt: skip
    if how == "sync":
        with client:
            client.run(waiting)
    else:
        async with client:
            await client.arun(waiting)
    ((tags, taken),) = [(tags, taken) for name, tags, taken in backend.timed if name == metrics.COMPLETION_DURATION]
    assert tags == {"state": state}
    assert timedelta(seconds=60) <= taken < timedelta(seconds=90)


def test_an_operator_reports(service, connection, backend, run_operator):
    assert run_operator(AssistantLimitsOperator).state == "success"
    assert backend.ours() == counts(requests=[({"endpoint": "limits", "status": "200"}, 1)])


@pytest.mark.parametrize("name", [value for name, value in vars(metrics).items() if name.isupper()])
def test_names_are_what_airflow_accepts(name):
    assert re.fullmatch(r"[a-z][a-z0-9_.]{0,240}", name)  # Airflow rejects or rewrites anything else
    assert name.startswith("assistant.")
