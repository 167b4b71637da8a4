"""Nights of chat batches: every question is asked once, and every answer is in the file."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
from hypothesis import strategies as st

from airflow_provider_assistant.chat_batch.answers import STATUSES
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from tests.adversary.request_service import TRIES, Service, Try, answer_to
from tests.adversary.world import FinishedRequest, World

MAX_PAUSE = 300.0
LONG_WAIT = 1e6
# The first polls of a request come sooner than one interval after its submission.
EARLY = 4
# These errors concern every question and stop a batch.
SITE_WIDE = {401, 403, 404, 429}


@dataclass(frozen=True)
class BatchNight:
    """
    One chat batch with several tries, the last of which are without faults.

    :param tries: Tries with faults; some fault-free ones follow.
    :param questions: Number of questions.
    :param mode: ``sync`` or ``async``.
    :param deferrable: Whether the task defers.
    :param ledger: Whether the task uses a ledger.
    :param reuse: Whether a cleared task reuses the requests of earlier tries.
    :param clears: Numbers of the tries, from 1, before which the task was cleared.
    :param retries: Maximum number of retries per request.
    :param timeout: Response timeout of the client, in seconds.
    :param wait_timeout: Longest total wait for the answers, in seconds.
    :param interval: Seconds between two polls of one request.
    :param ends_after: Number of polls after which a request ends.
    :param failing: Numbers of the questions whose requests fail.
    :param is_strict: Whether one question without an answer fails the task.
    """

    tries: tuple[Try, ...]
    questions: int = 3
    mode: Literal["async", "sync"] = "async"
    deferrable: bool = False
    ledger: bool = True
    reuse: bool = True
    clears: frozenset[int] = frozenset()
    retries: int = 2
    timeout: float = 30.0
    wait_timeout: float = 600.0
    interval: float = 20.0
    ends_after: int = 1
    failing: frozenset[int] = frozenset()
    is_strict: bool = False

    @property
    def sends(self) -> float:
        """Maximum number of requests for one question, including those answered with 429."""
        return self.retries + 1 + MAX_PAUSE + 10

    @property
    def polls(self) -> float:
        """Maximum number of polls of one request."""
        return self.wait_timeout / self.interval + EARLY

    @property
    def is_once(self) -> bool:
        """Whether every try reuses the requests of earlier tries."""
        return self.ledger and (self.reuse or not self.clears)


def check_batch(night: BatchNight) -> None:
    """Ask a batch of questions."""
    failing = frozenset(_message(number) for number in night.failing)
    service = Service(night.ends_after, failing if night.mode == "async" else frozenset())
    world = World(service, timeout=night.timeout, retries=night.retries)
    world.most = night.questions * (night.sends + 3 * night.polls + night.retries + 80) + 100_000
    with world.entered():
        listed: Counter[str] = Counter()
        received: dict[str, int] = {}
        for number, attempt in enumerate(night.tries, 1):
            ended = _tried(world, night, attempt, number)
            _check_try(night, attempt, ended, world, is_first=number == 1)
            listed += _listed(world)
            received |= _received(attempt, ended, service)
        _check_end(night, world, listed, received)


def _make(world: World, night: BatchNight, wait_timeout: float) -> Callable[[], Any]:
    source = [{"key": f"k{number}", "message": _message(number)} for number in range(night.questions)]

    def make() -> Any:
        return AssistantChatBatchOperator(
            task_id="task", source=source, key_columns="key", output_path=str(_output(world)), mode=night.mode,
            deferrable=night.deferrable, ledger=night.ledger, reuse=night.reuse, timeout=wait_timeout,
            poll_interval=night.interval, max_failed=0 if night.is_strict else night.questions,
        )  # fmt: skip

    return make


def _tried(
    world: World, night: BatchNight, attempt: Try, number: int, wait_timeout: float | None = None
) -> FinishedRequest:
    make = _make(world, night, night.wait_timeout if wait_timeout is None else wait_timeout)
    return world.tried(
        attempt, lambda context: world.executed(make, context), number=number, is_clear=number in night.clears
    )


def _check_try(night: BatchNight, attempt: Try, ended: FinishedRequest, world: World, *, is_first: bool) -> None:
    polls = Counter(entry.item for entry in ended.sent("chat.request"))
    restarts = 1 + (attempt.killed_at is not None)
    # The timeout of a deferred task is stored as a time of day, so setting the clock back before the trigger starts
    # extends it.
    is_moved = night.deferrable and attempt.jump
    assert not polls or is_moved or max(polls.values()) <= (night.polls + 1) * restarts, "the polls are bounded"
    longest = (night.retries + 1) * (night.timeout + 1.2 * MAX_PAUSE + 2) + 3 * MAX_PAUSE
    waiting = night.wait_timeout + 3 * night.timeout + 1000
    assert is_moved or ended.seconds <= 2 * night.questions * longest + waiting + 300, "the time is bounded"
    late = set()
    for entry in ended.sent("chat"):
        assert entry.item not in late, "a chat that timed out is not sent again in the same try"
        if entry.is_late:
            late.add(entry.item)
    assert not world.service.sent_to_closed, "no message is sent to a session that may be closed"
    if ended.error is not None:
        return
    result = ended.result
    assert result["rows"] == night.questions == sum(result[status] for status in STATUSES), "the counts add up"
    rows = _rows(world)
    assert Counter(row["status"] for row in rows) == +Counter({status: result[status] for status in STATUSES})
    for row in rows:
        is_answered = row["status"] == "complete" and not (night.mode == "sync" and _has_odd_bodies(night))
        assert not is_answered or row["answer"] == answer_to(row["message"]), row["answer"]
        assert row["seconds"] is None or row["seconds"] >= 0
    done = [entry for entry in ended.entries if entry.endpoint in {"chat", "chat.async"} and 200 <= entry.status < 300]
    assert result["submitted"] <= len(done), "what was submitted is what the service accepted"
    odd = [answer for answer in (*attempt.answers, attempt.then) if not answer.is_well]
    is_disturbed = any(answer.forgets or answer.status in SITE_WIDE for answer in attempt.answers)
    if is_first and attempt.is_undisturbed and attempt.then.is_well and not is_disturbed and night.wait_timeout > 100:
        assert night.questions - result["complete"] <= len(odd) + len(world.service.failing), (
            "one bad answer costs one question"
        )


def _has_odd_bodies(night: BatchNight) -> bool:
    """Return whether a question may have received a JSON answer without text."""
    return any(answer.body != "good" for attempt in night.tries for answer in (*attempt.answers, attempt.then))


def _check_end(night: BatchNight, world: World, listed: Counter[str], received: dict[str, int]) -> None:
    service, number = world.service, len(night.tries)
    wanted = {_message(at) for at in range(night.questions)} - service.failing
    ended = None
    for _ in range(3):
        number += 1
        ended = _tried(world, night, Try(), number, LONG_WAIT)
        listed += _listed(world)
        if ended.error is None and ended.result["complete"] == len(wanted):
            break
    assert ended is not None
    assert ended.error is None or (night.is_strict and service.failing), f"a retry converges: {ended.error!r}"
    found = {row["message"] for row in _rows(world) if row["status"] == "complete"}
    assert found == wanted, "a retry converges"
    if not night.is_once:
        return
    asked = _asked(service)
    for message, times in received.items():
        assert asked[message] == times, f"the answer to {message!r} was received and is asked for again"
    if not service.failing:
        again = _tried(world, night, Try(), number + 1, LONG_WAIT)
        assert not [entry for entry in again.entries if entry.endpoint in {"chat", "chat.async"}], "all is asked once"
        is_lost = any(answer.forgets for attempt in night.tries for answer in (*attempt.answers, attempt.then))
        for message, times in asked.items():
            assert times == 1 or is_lost or listed[message], f"{message!r} was asked {times} times, and is not listed"


def _received(attempt: Try, ended: FinishedRequest, service: Service) -> dict[str, int]:
    """Return how often the questions answered in this try had been asked, unless it was killed or the disk was full."""
    if ended.is_killed or attempt.killed_at is not None or attempt.disk_full or attempt.ledger_away:
        return {}
    asked = _asked(service)
    return {entry.answered: asked[entry.answered] for entry in ended.entries if entry.answered}


def _asked(service: Service) -> Counter[str]:
    found: Counter[str] = Counter()
    for asked in (service.chats, service.submitted):
        for (_, message), times in asked.items():
            found[message] += times
    return found


def _listed(world: World) -> Counter[str]:
    """Return the questions in the findings, which may have been asked twice."""
    path = _output(world).with_name(".answers.findings.parquet")
    rows: list[dict[str, Any]] = []
    # A killed try has no findings.
    with contextlib.suppress(ValueError, FileNotFoundError):
        rows = pq.read_table(path).to_pylist()
    numbers = {f"k{number}": _message(number) for number in range(100)}
    return Counter(
        message
        for row in rows
        for key, message in numbers.items()
        if row["kind"] in {"possibly_duplicated", "ambiguous"} and key in row["key"].split("=")
    )


def _rows(world: World) -> list[dict[str, Any]]:
    return pq.read_table(_output(world)).to_pylist()


def _output(world: World) -> Path:
    return world.folder / "out" / "answers.parquet"


def _message(number: int) -> str:
    return f"Question {number}?"


# -- generation ------------------------------------------------------------------------------------

BATCH_NIGHTS = st.builds(
    BatchNight,
    tries=st.lists(TRIES, min_size=1, max_size=3).map(tuple),
    questions=st.integers(1, 6),
    mode=st.sampled_from(["async", "async", "sync"]),
    deferrable=st.booleans(),
    ledger=st.sampled_from([True, True, True, False]),
    reuse=st.sampled_from([True, True, False]),
    clears=st.sampled_from([frozenset(), frozenset(), frozenset({2}), frozenset({2, 3})]),
    retries=st.integers(0, 3),
    timeout=st.sampled_from([30.0, 3600.0]),
    wait_timeout=st.sampled_from([0.0, 60.0, 600.0]),
    interval=st.sampled_from([1.0, 20.0]),
    ends_after=st.sampled_from([0, 1, 5]),
    failing=st.sampled_from([frozenset(), frozenset(), frozenset({0})]),
    is_strict=st.booleans(),
)
