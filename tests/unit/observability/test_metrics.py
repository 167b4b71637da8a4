"""What a metrics backend of Airflow receives: every request and completion, with its tags."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from datetime import timedelta
from random import Random
from types import SimpleNamespace

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.throttle import Throttle
from airflow_provider_assistant.exceptions import AssistantRateLimitError
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.versions import measured_by


class Backend:
    """Keeps what the package hands to Airflow's metrics backend."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, frozenset[tuple[str, str]]]] = Counter()
        self.timed: list[tuple[str, dict[str, str], timedelta]] = []
        self.shown: list[tuple[str, dict[str, str], float]] = []

    def incr(self, stat, count=1, rate=1, *, tags=None):
        self.counted[stat, frozenset((tags or {}).items())] += count

    def timing(self, stat, dt, *, tags=None):
        if stat.startswith("assistant."):
            self.timed.append((stat, dict(tags or {}), dt))

    def gauge(self, stat, value, rate=1, delta=False, *, tags=None):
        self.shown.append((stat, dict(tags or {}), value))

    def timer(self, *args, **tags):
        """Measure nothing: Airflow measures its own work in this way, the package does not."""
        return contextlib.nullcontext(SimpleNamespace(duration=0.0))

    def counts(self, name):
        return [(dict(tags), count) for (stat, tags), count in self.counted.items() if stat == name]

    def seconds(self, name):
        return [dt.total_seconds() for stat, _, dt in self.timed if stat == name]


@pytest.fixture
def backend():
    recording = Backend()
    with measured_by(recording):
        yield recording


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_every_request_is_counted_and_timed_also_a_retried_one(how, service, backend):
    service.answer("drop", times=2)
    settings = ClientSettings(service.url, "dev-acme-full", retry=RetryPolicy(attempts=3, initial_backoff=0.0))
    call = endpoints.chat("acme-docs", ChatMessage(session_id="s", message="Anything?"))
    if how == "sync":
        with AssistantClient(settings) as client:
            client.send(call)
    else:
        async with AssistantClient(settings) as client:
            await client.asend(call)
    failed, answered = {"endpoint": "chat", "status": "connection"}, {"endpoint": "chat", "status": "200"}
    assert backend.counts(metrics.REQUESTS) == [(failed, 2), (answered, 1)]
    assert [(name, tags) for name, tags, _ in backend.timed] == [
        (metrics.REQUEST_DURATION, tags) for tags in (failed, failed, answered)
    ]
    assert all(0 < seconds < 30 for seconds in backend.seconds(metrics.REQUEST_DURATION))


def test_several_429s_during_a_pause_are_one_pause(backend):
    throttle = Throttle(8, RetryPolicy(), now=lambda: 0.0, rng=Random(1))
    for _ in range(2):
        throttle.refused(AssistantRateLimitError("429", retry_after=3.0))
    assert backend.seconds(metrics.BACKOFF_DURATION) == [pytest.approx(3.0, rel=0.2)]


def test_a_clock_that_is_set_back_is_no_lag(backend):
    metrics.poll_lag(-5.0)
    assert backend.seconds(metrics.POLL_LAG) == [0.0]


def test_a_load_that_fails_counts_its_rows_by_outcome(service, connection, backend, run_operator):
    service.answer("status:401", path="documents")
    row = {"title": "t", "question": "q", "answer": "a", "category": "c"}
    assert run_operator(AssistantLoadQAOperator, source=[row]).state == "failed"
    assert backend.counts(metrics.ROWS) == [({"kind": "qa", "outcome": "failed"}, 1)]


def test_an_evaluation_shows_what_there_is(backend):
    metrics.evaluation("a", "none", means={"chrf": None, "my.scorer": 0.5}, coverage=0.9, pass_rate=None)
    assert backend.shown == [
        ("assistant.evaluation_score", {"evaluation": "a", "scorer": "my.scorer"}, 0.5),
        ("assistant.evaluation_coverage", {"evaluation": "a"}, 0.9),
    ]
    metrics.evaluation("a", "failed", means={}, coverage=0.9, pass_rate=0.1)
    assert backend.shown[-1] == ("assistant.evaluation_passed", {"evaluation": "a"}, 0)


@pytest.mark.parametrize("name", ["nightly: a|b,c=d#e", "Prüfung\n", "x" * 300])
def test_names_that_users_chose_are_fit_for_every_backend(name, backend):
    metrics.evaluation(name, "none", means={}, coverage=1.0, pass_rate=None)
    ((_, tags, _),) = backend.shown
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", tags["evaluation"])
