"""Nights of single operations: a chat, an async chat request, a session, a rating, a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout, AirflowSkipException
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantLedgerError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRequestFailedError,
    AssistantRequestLostError,
    AssistantRequestTimeoutError,
    AssistantResponseError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat import (
    AssistantChatOperator,
    AssistantCloseSessionOperator,
)
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.adversary.request_service import TRIES, WORDS, Answer, Request, Service, Try, answer_to
from tests.adversary.world import FinishedRequest, World

MAX_PAUSE = 60.0
# The maximum number of 429s whose pauses add up to MAX_PAUSE, if the first of them are short.
REFUSALS = MAX_PAUSE + 5
# Maximum time that a task spends on an unreachable ledger, in seconds.
LEDGER = 60.0
# Long enough for every request to end.
PATIENT = 1e6
SESSION, MESSAGE = "session-1", "What is this?"


@dataclass(frozen=True)
class ChatNight:
    """
    One task with several tries, the last of which is without faults.

    :param tries: Tries with faults; a fault-free one follows.
    :param retries: Maximum number of retries per request.
    :param timeout: Response timeout of the client, in seconds.
    :param on_ambiguous: What to do with an ambiguous message.
    """

    tries: tuple[Try, ...]
    retries: int = 2
    timeout: float = 30.0
    on_ambiguous: Literal["retry", "skip", "fail"] = "retry"

    def world(self, service: Service) -> World:
        """Return the simulated environment of this night."""
        world = World(service, timeout=self.timeout, retries=self.retries)
        world.most = self.requests
        return world

    @property
    def requests(self) -> float:
        """Maximum number of requests per call."""
        return self.retries + 1 + REFUSALS

    @property
    def seconds(self) -> float:
        """Maximum duration of one call, in seconds."""
        return self.requests * self.timeout + 1.2 * MAX_PAUSE * (self.retries + 2) + 30


def check_chat(night: ChatNight) -> None:
    """Send a sync chat."""
    service = Service()
    with night.world(service).entered() as world:

        def execute(context: dict[str, Any]) -> Any:
            task = AssistantChatOperator(
                task_id="task", session_id=SESSION, message=MESSAGE, on_ambiguous=night.on_ambiguous
            )
            return task.execute(context)

        for number, attempt in enumerate(night.tries, 1):
            before = service.chats.total()
            ended = world.tried(attempt, execute, number=number)
            made = service.chats.total() - before
            _check_single(night, attempt, ended)
            if night.on_ambiguous != "retry":
                assert made <= 1, "what may have arrived is not sent again"
            elif ended.error is None:
                assert made <= 1 + ended.xcom.get("possibly_duplicated", 0), "what was asked twice is counted"
            assert ended.error is not None or ended.result["seconds"] >= 0
            if ended.error is None and ended.entries[-1].answered:
                assert ended.result["text"] == answer_to(MESSAGE)
        good = world.tried(Try(), execute, number=len(night.tries) + 1)
        assert good.error is None, repr(good.error)
        assert good.result["text"] == answer_to(MESSAGE)


def check_close(night: ChatNight) -> None:
    """Close a session."""
    service = Service()
    with night.world(service).entered() as world:

        def execute(context: dict[str, Any]) -> Any:
            return AssistantCloseSessionOperator(task_id="task", session_id=SESSION).execute(context)

        for number, attempt in enumerate(night.tries, 1):
            _check_single(night, attempt, world.tried(attempt, execute, number=number))
        good = world.tried(Try(), execute, number=len(night.tries) + 1)
        assert good.error is None, repr(good.error)
        assert service.closed[SESSION] >= 1


def check_upload(night: ChatNight) -> None:
    """Upload a file with the hook."""
    service, content = Service(), bytes(range(256)) * 300
    with night.world(service).entered() as world:
        path = world.folder / "Größe und Maß.bin"
        path.write_bytes(content)

        def execute(context: dict[str, Any]) -> Any:
            return AssistantHook().upload_document(path).as_dict()

        for number, attempt in enumerate(night.tries, 1):
            _check_single(night, attempt, world.tried(attempt, execute, number=number))
        good = world.tried(Try(), execute, number=len(night.tries) + 1)
        assert good.result["document_id"] == f"d{len(service.files)}"
        assert set(service.files) == {(path.name, content)}, "all of the file arrives, under its name"


def check_rating(night: ChatNight) -> None:
    """Rate one answer."""
    service, rating = Service(), (SESSION, "r1", "good")
    with night.world(service).entered() as world:

        def execute(context: dict[str, Any]) -> Any:
            task = AssistantFeedbackOperator(task_id="task", session_id=SESSION, request_id="r1", feedback="good")
            return task.execute(context)

        is_sent = False
        for number, attempt in enumerate(night.tries, 1):
            ended = world.tried(attempt, execute, number=number)
            assert not (is_sent and ended.entries), "what was acknowledged is not sent again"
            _check_single(night, attempt, ended)
            is_sent = is_sent or (ended.error is None and attempt.ledger_away is None)
        good = world.tried(Try(), execute, number=len(night.tries) + 1)
        assert good.error is None, repr(good.error)
        assert rating in service.ratings
        again = world.tried(Try(), execute, number=len(night.tries) + 2)
        assert again.error is None
        assert not again.entries, "what was rated is not rated again"


def _check_single(night: ChatNight, attempt: Try, ended: FinishedRequest) -> None:
    """Check the result of a call against its parameters and the documented errors."""
    assert ended.seconds <= night.seconds + LEDGER, "the time is bounded"
    error = ended.error
    if ended.is_killed or isinstance(error, AssistantLedgerError):
        return
    statuses = [entry.status for entry in ended.entries]
    if error is None:
        assert not statuses or 200 <= statuses[-1] < 300
        return
    assert statuses, f"nothing was wrong with the task itself: {error!r}"
    check_permanence(error, attempt, statuses, night.on_ambiguous)
    assert not [status for status in statuses[:-1] if 300 <= status < 500 and status not in PASSING], (
        "a refusal is not repeated"
    )
    if attempt.is_undisturbed and attempt.then.is_well and not attempt.odd:
        raise AssertionError(f"all was well: {error!r}")


# Client errors that are transient.
PASSING = {408, 425, 429}


def check_permanence(error: BaseException, attempt: Try, statuses: list[int], on_ambiguous: str = "retry") -> None:
    """Check that an error is an AirflowFailException exactly if a retry cannot help."""
    if on_ambiguous != "retry" or isinstance(error, AirflowSkipException):
        return
    is_for_good = isinstance(error, AirflowFailException)
    last = statuses[-1]
    if last >= 500 or last in PASSING or last == 0 or isinstance(error, AssistantResponseError):
        assert not is_for_good, f"a transient error can be retried: {error!r}"
    elif last in {400, 401, 403, 404} and not isinstance(error, AssistantRequestLostError) and len(statuses) == 1:
        assert is_for_good, f"a permanent error is not retried: {error!r}"


# -- waiting ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WaitingNight(ChatNight):
    """
    An async chat request that is submitted and polled by an operator, or only polled by a sensor.

    :param deferrable: Whether the task defers.
    :param ledger: Whether the task uses a ledger.
    :param reuse: Whether a cleared task reuses its request.
    :param clears: Numbers of the tries, from 1, before which the task was cleared.
    :param patience: Longest total wait, in seconds.
    :param interval: Seconds between polls.
    :param ends_after: Number of polls after which the request ends.
    :param fails: Whether the request fails.
    """

    deferrable: bool = False
    ledger: bool = True
    reuse: bool = True
    clears: frozenset[int] = frozenset()
    patience: float = 600.0
    interval: float = 5.0
    ends_after: int = 1
    fails: bool = False

    @property
    def polls(self) -> float:
        """Maximum number of polls per try, including those of a restarted triggerer."""
        return self.patience / self.interval + 4

    @property
    def requests(self) -> float:
        """Maximum number of requests per try."""
        return super().requests + self.polls

    @property
    def service(self) -> Service:
        """The service."""
        return Service(self.ends_after, frozenset([MESSAGE]) if self.fails else frozenset())


def check_waiting(night: WaitingNight) -> None:
    """Submit a question, and wait for its answer."""
    service = night.service
    with night.world(service).entered() as world:

        def make(patience: float = night.patience) -> Any:
            return AssistantSubmitChatOperator(
                task_id="task", session_id=SESSION, message=MESSAGE, on_ambiguous=night.on_ambiguous,
                wait_for_completion=True, deferrable=night.deferrable, ledger=night.ledger, reuse=night.reuse,
                timeout=patience, poll_interval=night.interval,
            )  # fmt: skip

        known = 0
        for number, attempt in enumerate(night.tries, 1):
            before = service.submitted.total()
            ended = world.tried(
                attempt, lambda context: world.executed(make, context), number=number, is_clear=number in night.clears
            )
            made = service.submitted.total() - before
            _check_wait(night, attempt, ended)
            if night.on_ambiguous != "retry":
                assert made <= 1, "what may have been submitted is not submitted again"
            elif ended.error is None:
                listed = known + ended.xcom.get("possibly_duplicated", 0)
                assert made <= 1 + listed, "what was submitted twice is counted"
            if ended.error is None:
                assert ended.result["text"] == answer_to(MESSAGE)
                assert service.requests[ended.result["request_id"]].message == MESSAGE
        _check_convergence(night, world, service, lambda: make(PATIENT))


def _check_convergence(night: WaitingNight, world: World, service: Service, make: Callable[[], Any]) -> None:
    """Run the tries, then fault-free ones; the first of these may detect that a request was lost."""
    ended = None
    for number in range(len(night.tries) + 1, len(night.tries) + 4):
        ended = world.tried(Try(), lambda context: world.executed(make, context), number=number)
        if ended.error is None:
            break
    assert ended is not None
    if night.fails or (night.on_ambiguous != "retry" and not isinstance(ended.error, AssistantRequestLostError)):
        return
    assert ended.error is None, f"a retry converges: {ended.error!r}"
    assert ended.result["text"] == answer_to(MESSAGE)
    if night.ledger and night.reuse and not night.clears:
        again = world.tried(Try(), lambda context: world.executed(make, context), number=len(night.tries) + 4)
        assert again.error is None
        assert not again.sent("chat.async"), "what was answered is not asked again"


def _check_wait(night: WaitingNight, attempt: Try, ended: FinishedRequest) -> None:
    # The timeout of a deferred task is stored as a time of day, so setting the clock back before the trigger starts
    # extends it.
    is_moved = night.deferrable and attempt.jump
    polls = [entry.status for entry in ended.sent("chat.request")]
    assert is_moved or len(polls) <= night.polls * (1 + (attempt.killed_at is not None)), "the polls are bounded"
    # Every poll may take as long as the response timeout.
    longest = night.seconds + night.patience + night.polls * night.timeout + LEDGER
    assert is_moved or ended.seconds <= longest, "the time is bounded"
    error = ended.error
    if error is None or ended.is_killed or isinstance(error, AssistantLedgerError) or not polls:
        return
    assert isinstance(error, WAITED) or isinstance(error.__cause__, WAITED), f"polling goes on after this: {error!r}"
    assert not {401, 403} & set(polls[:-1]), "what concerns the key is not polled on"
    if isinstance(error, AssistantRequestTimeoutError | AirflowSensorTimeout) and not attempt.jump:
        assert ended.seconds >= night.patience, "the whole time is waited"


# Errors with which a wait may end.
WAITED = (
    AssistantRequestFailedError,
    AssistantRequestTimeoutError,
    AssistantRequestLostError,
    AssistantBadRequestError,
    AssistantNotFoundError,
    AssistantAuthenticationError,
    AssistantPermissionError,
    AirflowSensorTimeout,
)


def check_sensor(night: WaitingNight) -> None:
    """Wait for a request that another task submitted, until the sensor's own timeout."""
    service = night.service
    service.requests["r1"] = Request(SESSION, MESSAGE, night.ends_after, night.fails)
    with night.world(service).entered() as world:

        def waited(context: dict[str, Any], patience: float = night.patience) -> Any:
            def make() -> Any:
                return AssistantChatRequestSensor(
                    task_id="task", request_id="r1", deferrable=night.deferrable, ledger=night.ledger,
                    timeout=patience, poke_interval=night.interval,
                )  # fmt: skip

            return world.executed(make, context) if night.deferrable else _poked(world, patience, make, context)

        for number, attempt in enumerate(night.tries, 1):
            ended = world.tried(attempt, waited, number=number)
            _check_wait(night, attempt, ended)
            if ended.error is None:
                assert ended.result["text"] == answer_to(MESSAGE)
                assert (ended.result["seconds"] or 0) >= 0
                assert ended.result["noticed_after"] is None or ended.result["noticed_after"] >= 0
                assert ended.result["polls"] >= 1
        if "r1" in service.requests and not night.fails:
            good = world.tried(Try(), lambda context: waited(context, PATIENT), number=9)
            assert good.error is None, repr(good.error)
            assert good.result["text"] == answer_to(MESSAGE)


def _poked(world: World, patience: float, make: Callable[[], Any], context: dict[str, Any]) -> Any:
    """Poke like Airflow in mode ``reschedule``: each time in a new process."""
    began = world.elapsed
    while True:
        if (ended := make().poke(context)).is_done:
            return ended.xcom_value
        if world.elapsed - began > patience:
            raise AirflowSensorTimeout("the sensor of 'docs' has timed out")
        world.sleep(make().poke_interval)


# -- generation ------------------------------------------------------------------------------------

NIGHT: dict[str, st.SearchStrategy[Any]] = {
    "tries": st.lists(TRIES, min_size=1, max_size=3).map(tuple),
    "retries": st.integers(0, 4),
    "timeout": st.sampled_from([30.0, 3600.0]),
    "on_ambiguous": st.sampled_from(["retry", "retry", "skip", "fail"]),
}
CHAT_NIGHTS = st.builds(ChatNight, **NIGHT)
# The handling of these statuses depends only on the number of retries.
PLAIN_NIGHTS = st.builds(ChatNight, tries=NIGHT["tries"], retries=NIGHT["retries"], timeout=NIGHT["timeout"])
PENDING = st.builds(Answer, word=WORDS)
WAITING_NIGHTS = st.builds(
    WaitingNight,
    **NIGHT,
    deferrable=st.booleans(),
    ledger=st.sampled_from([True, True, True, False]),
    reuse=st.sampled_from([True, True, False]),
    clears=st.sampled_from([frozenset(), frozenset(), frozenset({2}), frozenset({2, 3})]),
    patience=st.sampled_from([0.0, 60.0, 600.0]),
    interval=st.sampled_from([1.0, 5.0, 300.0]),
    ends_after=st.sampled_from([0, 1, 3, 30]),
    fails=st.sampled_from([False, False, False, True]),
)
