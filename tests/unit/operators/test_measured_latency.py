"""How long the service took: from the submission to the reply, or to the poll that found the end."""

from __future__ import annotations

import pytest

from tests.unit.operators.batches import many, rows_of

TOOK = 0.6


@pytest.mark.parametrize("interval", [0.1, 0.4])
def test_the_latency_of_each_question(interval, service, connection, execute, output):
    service.behave(processing_seconds=TOOK)
    result = execute(many(8), poll_interval=interval, max_concurrency=8)
    for row in rows_of(output):
        took = (row["completed_at"] - row["submitted_at"]).total_seconds()
        assert row["seconds"] == pytest.approx(took, abs=1e-5)
        # The request began before the service accepted it.
        assert TOOK - 0.5 <= row["seconds"] <= TOOK + interval + 0.5
    assert TOOK - 0.5 <= result["seconds_p50"] <= result["seconds_p95"]


def test_a_batch_that_takes_long_to_submit_measures_its_first_questions(service, connection, execute, output):
    """Polls do not wait for the last submission."""
    service.answer("delay:0.1", path="chat/async$", times=None)
    execute(many(20), max_concurrency=1, poll_interval=0.2)
    assert all(row["seconds"] < 1 for row in rows_of(output))
