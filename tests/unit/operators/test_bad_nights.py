"""The learned rate once stopped tasks: it grew with the time since the last 429. On virtual clocks."""

from __future__ import annotations

import time

import pytest

from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.adversary.request_service import Answer, Request, Service, Try
from tests.adversary.world import World

HOUR = 3_600.0
WELL, REFUSED = Answer(), Answer(status=429, retry_after="1")


# The first poll is the task's, the others are the trigger's. The rate is fitted at the second 429.
@pytest.mark.parametrize(
    ("interval", "answers"),
    [(1e4, (WELL, REFUSED, WELL)), (600.0, (WELL, REFUSED, *[WELL] * 144, REFUSED, *[WELL] * 144, REFUSED))],
    ids=["rare polls", "a day of polls"],
)
def test_a_sensor_polls_on_long_after_a_429(interval, answers):
    service = Service(requests={"r1": Request("s", "Anything?", 2 * len(answers))})

    def waiting():
        options = {"poke_interval": interval, "timeout": 200 * HOUR, "deferrable": True}
        return AssistantChatRequestSensor(task_id="task", request_id="r1", **options)

    began = time.process_time()
    with World(service).entered() as night:
        ended = night.tried(Try(answers), lambda context: night.executed(waiting, context), number=1)
    assert ended.error is None, ended.error
    assert ended.result["state"] == "complete"
    # Without the repair, it takes minutes.
    assert time.process_time() - began < 60.0


def test_a_load_with_slow_responses_goes_on_after_a_429():
    rows = [{"id": n, "title": f"T{n}", "question": "Q", "answer": f"A{n}", "category": "c"} for n in range(5)]
    answers = (REFUSED, Answer(latency=300.0), Answer(latency=HOUR))
    with World(Service(), timeout=2 * HOUR, max_concurrency=1).entered() as night:
        load = AssistantLoadQAOperator(task_id="task", source=rows, key_columns="id")
        ended = night.tried(Try(answers), load.execute, number=1)
    assert ended.error is None, ended.error
    assert ended.result["created"] == 5
