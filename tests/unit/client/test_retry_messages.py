"""What is logged about retries: the first failure, and an outage every ten seconds."""

from __future__ import annotations

import random

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import Transport
from airflow_provider_assistant.exceptions import AssistantError

CALL = endpoints.get_limits("acme-inc")
REFUSED = TransportFailure("connection", "connection refused", sent=False)
REPLY = Response(200, {"content-type": "application/json"}, b'{"limits": {}}')


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Away(Transport):
    """Answer nothing until a time."""

    def __init__(self, clock: Clock, until: float, failure: TransportFailure | Response) -> None:
        self.clock, self.until, self.failure = clock, until, failure
        self.tries = 0

    def exchange(self, call):
        self.tries += 1
        return REPLY if self.clock.time >= self.until else self.failure


FAILURES = {"refused": REFUSED, "a gateway's 503": Response(503, {"content-type": "text/html"}, b"<html>away</html>")}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("seconds", [1, 30, 79, 1000])
def test_an_outage_is_told_every_ten_seconds(seconds, failure, caplog):
    clock = Clock()
    away = Away(clock, clock.time + seconds, failure)
    settings = ClientSettings("http://127.0.0.1:1/api/v1", "key-of-a-test")
    client = AssistantClient(settings, transport=away, now=clock.now, sleep=clock.sleep, rng=random.Random(seconds))
    started = clock.time
    with caplog.at_level("INFO"):
        if seconds < 80:
            client.send(CALL)
        else:
            with pytest.raises(AssistantError, match="Nothing was answered for"):
                client.send(CALL)
    messages = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    took = clock.time - started
    assert messages[0].startswith("Trying again in ")
    assert sum("Trying again in" in message for message in messages) <= 2
    silent = [message for message in messages if "has not answered for" in message]
    assert (took - 10) // 15 <= len(silent) <= took / 10
    assert all("; trying again in " in message for message in silent)
    assert away.tries > len(messages) or seconds == 1
    assert ("The service answers again" in caplog.text) == (bool(silent) and seconds < 80)


def test_failures_between_answers_are_each_told(caplog):
    clock = Clock()
    away = Away(clock, 0.0, REFUSED)
    settings = ClientSettings("http://127.0.0.1:1/api/v1", "key-of-a-test")
    with AssistantClient(settings, transport=away, now=clock.now, sleep=clock.sleep, rng=random.Random(1)) as client:
        for _ in range(3):
            away.until = clock.time + 0.1
            client.send(CALL)
    assert caplog.text.count("Trying again in") == 3
