"""A service that fails during a load."""

from __future__ import annotations

import random
import time

import pytest

from airflow_provider_assistant.exceptions import AssistantIncompleteError
from tests.integration.faults.attempts import CONCURRENCY, findings
from tests.integration.faults.conftest import in_slow

ROWS = range(300)
SHARE = 0.1


@pytest.mark.parametrize(
    "fault", ["store-then-drop", "store-then-status:502", *in_slow("store-then-html:504", "truncate")]
)
def test_stored_without_a_response(fault, case, measured):
    case.service.faults(fault_rate=SHARE, fault_status=fault, seed=3)
    attempt = case.attempt(ROWS, retries=5)
    result = None
    for _ in range(3):
        try:
            result = case.run(attempt)
            break
        except AssistantIncompleteError:
            case.service.faults(fault_rate=0.0)
    audit = case.audit(ROWS, attempt)
    assert audit.duplicates
    audit.complete(len(ROWS))
    assert result
    assert result["possibly_duplicated"] == len(audit.suspected)
    measured(listed=len(audit.suspected), duplicates=audit.duplicates)


@pytest.mark.parametrize(
    "fault", ["store-then-drop", "drop", *in_slow("store-then-status:502", "status:502", "truncate")]
)
def test_stored_or_not_without_duplicates(fault, case, measured):
    case.service.faults(fault_rate=SHARE, fault_status=fault, seed=4)
    attempt = case.attempt(ROWS, retries=5, options={"on_ambiguous": "skip"})
    result = case.run(attempt)
    case.service.faults(fault_rate=0.0)
    audit = case.audit(ROWS, attempt)
    audit.exact()
    assert result["ambiguous"] == len(audit.ambiguous) > 0
    assert result["created"] + result["ambiguous"] == len(ROWS)
    assert case.run(attempt)["ambiguous"] == result["ambiguous"]
    again = case.audit(ROWS, attempt)
    again.exact()
    measured(listed=len(audit.ambiguous), missing=len(audit.missing), duplicates=again.duplicates)


def test_an_answer_without_a_body_is_an_answer(case, measured):
    case.service.faults(fault_rate=SHARE, fault_status="empty", seed=3)
    attempt = case.attempt(ROWS)
    assert case.run(attempt)["created"] == len(ROWS)
    audit = case.audit(ROWS, attempt)
    audit.complete()
    assert not audit.duplicates
    measured(duplicates=0)


@pytest.mark.parametrize("kill", [True, *in_slow(False)])
def test_restarted_midway(kill, case, measured):
    attempt = case.attempt(ROWS, retries=8)
    loader = case.start(attempt)
    case.wait_for(random.Random(7).randrange(50, 250))
    case.service.restart(kill=kill)
    ended = loader.wait()
    tries = 1
    if ended.result is None:
        case.run(attempt)
        tries = 2
    audit = case.audit(ROWS, attempt)
    audit.complete()
    measured(tries=tries, listed=len(audit.suspected), duplicates=audit.duplicates)


@pytest.mark.parametrize("retries", [0, *in_slow(1)])
def test_down_until_the_retry(retries, case, measured):
    attempt = case.attempt(ROWS, retries=retries)
    loader = case.start_and_hold(attempt, 100)
    case.service.stop(kill=True)
    stopped = time.monotonic()
    ended = loader.wait(90)
    seconds = time.monotonic() - stopped
    assert ended.result is None
    assert "Traceback" not in (ended.error or "")
    case.service.start()
    case.agree()
    there = case.service.count_documents()
    result = case.run(attempt)
    audit = case.audit(ROWS, attempt)
    audit.complete()
    assert result["created"] + result["unchanged"] == len(ROWS)
    measured(seconds=round(seconds, 1), ended_at=there, listed=len(audit.suspected), duplicates=audit.duplicates)


@pytest.mark.slow
def test_a_storm_of_502_stops_the_load(case, measured):
    attempt = case.attempt(ROWS, retries=5)
    case.service.faults(rules=[{"action": "status:502", "times": None, "skip": 100}])
    ended = case.run_apart(attempt)
    sent = len(case.service.journal(method="POST", limit=100_000))
    assert ended.error
    assert "502" in ended.error
    assert sent <= 100 + 3 * max(25, CONCURRENCY)
    case.agree()
    assert {found["kind"] for found in findings(attempt.findings_path)} <= {"ambiguous", "failed"}
    case.service.faults(rules=[])
    case.run(attempt)
    audit = case.audit(ROWS, attempt)
    audit.complete()
    measured(sent_after_the_first=sent - 100, listed=len(audit.suspected), duplicates=audit.duplicates)
