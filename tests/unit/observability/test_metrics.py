"""What a metrics backend of Airflow receives: every exchange, retry and completion, with its tags."""

from __future__ import annotations

import contextlib
import gc
import random
import re
import time
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow_provider_assistant.client.rate_limiter import AdaptiveRateLimiter

from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.versions import measured_by

MESSAGE = ChatMessage(session_id="s", message="Anything?")


class Backend:
    """Keeps what Airflow hands to its metrics backend."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, frozenset[tuple[str, str]]]] = Counter()
        self.timed: list[tuple[str, dict[str, str], timedelta]] = []
        self.shown: list[tuple[str, dict[str, str], float]] = []

    def incr(self, stat, count=1, rate=1, *, tags=None):
        self.counted[stat, frozenset((tags or {}).items())] += count

    def timing(self, stat, dt, *, tags=None):
        self.timed.append((stat, dict(tags or {}), dt))

    def gauge(self, stat, value, rate=1, delta=False, *, tags=None):
        self.shown.append((stat, dict(tags or {}), value))

    def seconds(self, name):
        return [dt.total_seconds() for stat, _, dt in self.timed if stat == name]

    def timer(self, *args, **tags):
        """Measure nothing: Airflow measures its own work in this way, the package does not."""
        return contextlib.nullcontext(SimpleNamespace(duration=0.0))

    def ours(self):
        return {(name, tags): count for (name, tags), count in self.counted.items() if name.startswith("assistant.")}


@pytest.fixture
def backend(only_new_garbage):
    """Record metrics; a client that an earlier test has left sends its counts when it is deleted, but not now."""
    recording = Backend()
    with measured_by(recording):
        yield recording


@pytest.fixture
def waits():
    return []


@pytest.fixture
def client(service, waits):
    settings = ClientSettings(service.url, "dev-acme-full", retry=flow.RetryPolicy(attempts=3))

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
    await drive(client, endpoints.get_limits("acme-inc"), how)
    tags = {"endpoint": "limits", "status": "200"}
    assert backend.ours() == counts(requests=[(tags, 1)])
    ((name, timed_tags, taken),) = backend.timed
    assert (name, timed_tags) == ("assistant.request_duration", tags)
    assert isinstance(taken, timedelta)
    assert timedelta(0) < taken < timedelta(seconds=30)


@both
async def test_a_refusal_is_a_request_and_nothing_else(how, service, client, backend):
    await drive(client, endpoints.get_limits("globex"), how)
    assert backend.ours() == counts(requests=[({"endpoint": "limits", "status": "404"}, 1)])


@both
async def test_no_answer(how, service, client, backend):
    service.answer("drop", times=2)
    await drive(client, endpoints.chat("acme-docs", MESSAGE), how)
    tags, answered = {"endpoint": "chat", "status": "connection"}, {"endpoint": "chat", "status": "200"}
    assert backend.ours() == counts(requests=[(tags, 2), (answered, 1)], retries=[({"endpoint": "chat"}, 2)])


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
    assert timedelta(seconds=60) <= taken < timedelta(seconds=600)


def test_many_exchanges_are_all_counted_and_some_measured(backend):
    now = 0.0
    requests = metrics.Requests(now=lambda: now)
    for _ in range(250):
        requests.add("chat", "200", 0.1)
    assert sum(backend.ours().values()) == metrics.SENT_EACH_SECOND == len(backend.timed)
    requests.add("chat", "429", 0.1)
    requests.add("limits", "200", 0.1)
    assert len(backend.timed) == 102
    now = 1.0
    requests.add("chat", "200", 0.1)
    tags = {"endpoint": "chat", "status": "200"}
    assert backend.ours()["assistant.requests", frozenset(tags.items())] == 251
    assert len(backend.timed) == 103


@pytest.mark.parametrize("status", ["200", "429", "503"])
def test_what_is_held_back_is_sent_in_the_end(status, backend):
    requests = metrics.Requests(now=lambda: 0.0)
    for _ in range(150):
        requests.add("chat", status, 0.1)
    requests.flush()
    requests.flush()
    assert set(backend.ours().values()) == {150}
    assert len(backend.ours()) == (1 if status == "200" else 2)


@pytest.mark.usefixtures("only_new_garbage")  # the clients of earlier tests send what they hold back when collected
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_client_holds_nothing_back_when_it_goes(is_closed, service, backend, monkeypatch):
    monkeypatch.setattr(metrics, "SENT_EACH_SECOND", 0)
    backend.counted.clear()
    client = AssistantClient(ClientSettings(service.url, "dev-acme-full"))
    client.send(endpoints.get_limits("acme-inc"))
    assert backend.ours() == {}
    if is_closed:
        client.close()
    else:
        del client
        gc.collect()
    assert backend.ours() == counts(requests=[({"endpoint": "limits", "status": "200"}, 1)])


def test_a_limiter_shows_what_it_lets_through(backend):
    now = 0.0
    limiter = AdaptiveRateLimiter(8, now=lambda: now)
    limiter.failed()
    limiter.refused(3.0)
    limiter.refused(3.0)
    for _ in range(3):
        limiter.accepted()
    assert [value for name, _, value in backend.shown if name == metrics.IN_FLIGHT_LIMIT] == [8, 4, 2, 3]
    assert backend.seconds(metrics.BACKOFF_DURATION) == [3.0]


async def test_a_poll_is_late_by_what_passes_from_when_it_was_due(service, backend):
    service.behave(processing_seconds=3600)
    chat = ChatMessage(session_id="s", message="Anything?")
    now = 1000.0

    def clock():
        return now

    async def asleep(seconds):
        nonlocal now
        now += seconds + 2.0

    async with AssistantClient(ClientSettings(service.url, "dev-acme-full"), asleep=asleep) as client:
        submitted = await client.asend(endpoints.submit_chat("acme-docs", chat))
        call = endpoints.get_chat_request("acme-docs", submitted.request_id)
        with contextlib.suppress(AssistantError):
            await client.arun(flow.wait_for(call, since=now, deadline=now + 25, interval=10, now=clock))
    assert backend.seconds(metrics.POLL_LAG) == [2.0, 2.0, 2.0]


def test_a_clock_that_is_set_back_is_no_lag(backend):
    metrics.poll_lag(-5.0)
    assert backend.seconds(metrics.POLL_LAG) == [0.0]


def test_rows_that_came_to_no_end_of_a_kind_are_not_sent(backend):
    metrics.rows("qa", {"created": 2, "failed": 0})
    assert backend.ours() == counts(rows=[({"kind": "qa", "outcome": "created"}, 2)])


def test_a_load_that_fails_counts_its_rows(service, connection, backend, run_operator):
    service.answer("status:401", path="documents")
    row = {"title": "t", "question": "q", "answer": "a", "category": "c"}
    assert run_operator(AssistantLoadQAOperator, source=[row]).state == "failed"
    rows = {tags: count for (name, tags), count in backend.ours().items() if name == metrics.ROWS}
    assert rows == {frozenset({("kind", "qa"), ("outcome", "failed")}): 1}


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


NAMES = [value for value in vars(metrics).values() if isinstance(value, str) and value.startswith("assistant.")]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_what_airflow_accepts(name):
    assert re.fullmatch(r"[a-z][a-z0-9_.]{0,240}", name)  # Airflow rejects or rewrites anything else
    assert name.startswith("assistant.")
