"""Single calls: a chat, a chat request and its sensor, the close of a session, one rating, the upload of one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
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
from airflow_provider_assistant.operators.chat import AssistantChatOperator, AssistantCloseSessionOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sandbox.store import Chat, Document, Session
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.simulate.night import Night, Operation, nights
from tests.simulate.world import CLEARED, TRIES, Ended, Try, World, answer_to

SESSION, MESSAGE, FAILING = "session-1", "What is this thing?", "thing"
# Client errors that are transient.
PASSING = {408, 425, 429}
# Seconds that a task spends on a ledger that cannot be used.
LEDGER = 60.0
# Long enough for every request to end.
PATIENT = 1e6


@dataclass
class Call(Operation):
    """One call. Its last tries are without faults."""

    on_ambiguous: Literal["retry", "skip", "fail"] = "retry"

    def begin(self, world: World) -> None:
        world.teach(MESSAGE)

    def make(self, world: World) -> Any:
        """Return the operator."""
        raise NotImplementedError

    def execute(self, world: World, attempt: Try, context: dict[str, Any]) -> Any:
        return world.run(lambda: self.make(world), context)

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        assert ended.seconds <= 2 * self.seconds(world) + 65 * world.timeout + LEDGER, "the time is bounded"
        error = ended.error
        if ended.is_killed or isinstance(error, AssistantLedgerError) or attempt.end:
            return
        statuses = [one.status for one in ended.sent]
        if error is None:
            assert not statuses or 200 <= statuses[-1] < 300, f"success means success: {statuses}"
            return
        assert statuses, f"nothing was wrong with the task itself: {error!r}"
        self.check_permanence(error, statuses)
        refused = [status for status in statuses[:-1] if 300 <= status < 500 and status not in PASSING]
        assert not refused, f"a refusal is not repeated: {statuses}"
        assert not attempt.is_undisturbed or attempt.odd or attempt.outage or attempt.gateway, (
            f"all was well: {error!r}"
        )

    def check_permanence(self, error: BaseException, statuses: list[int]) -> None:
        """Check that Airflow does not retry exactly what a retry cannot help."""
        if self.on_ambiguous != "retry" or isinstance(error, AirflowSkipException):
            return
        is_permanent, last = isinstance(error, AirflowFailException), statuses[-1]
        if last >= 500 or last in PASSING or last == 0 or isinstance(error, AssistantResponseError):
            assert not is_permanent, f"a transient error can be retried: {error!r}"
        elif last in {400, 401, 403, 404} and not isinstance(error, AssistantRequestLostError) and len(statuses) == 1:
            assert is_permanent, f"a permanent error is not retried: {error!r}"

    def check_end(self, world: World, night: Night) -> None:
        good = self.calm(world)
        assert good.error is None, repr(good.error)
        self.check_done(world, good)

    def check_done(self, world: World, good: Ended) -> None:
        """Check what the last try has done."""


@dataclass
class SyncChat(Call):
    """Ask, and wait for the answer."""

    def make(self, world: World) -> Any:
        return AssistantChatOperator(
            task_id="task", session_id=SESSION, message=MESSAGE, on_ambiguous=self.on_ambiguous
        )

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        super().check_try(world, attempt, ended, number=number)
        made = len([one for one in ended.sent if one.is_received])
        if self.on_ambiguous != "retry":
            assert made <= 1, "what may have arrived is not sent again"
        if ended.error is None:
            assert made <= 1 + ended.xcom.get("possibly_duplicated", 0), "what was asked twice is counted"
            assert ended.result["seconds"] >= 0
            assert not ended.sent[-1].answered or ended.result["text"] == answer_to(MESSAGE)

    def check_done(self, world: World, good: Ended) -> None:
        assert good.result["text"] == answer_to(MESSAGE)


@dataclass
class CloseSession(Call):
    """Close a session."""

    def begin(self, world: World) -> None:
        world.service.store.save(Session(SESSION, "docs", world.service.clock()))

    def make(self, world: World) -> Any:
        return AssistantCloseSessionOperator(task_id="task", session_id=SESSION)

    def check_done(self, world: World, good: Ended) -> None:
        assert [one.closed_at is not None for one in world.stored(Session)] == [True]


@dataclass
class UploadOne(Call):
    """Upload a file with the hook."""

    def path(self, world: World) -> Path:
        """Return the file."""
        return world.folder / "Größe und Maß.txt"

    def begin(self, world: World) -> None:
        self.path(world).write_bytes("Größe: 12 µm. ".encode() * 5_000)

    def execute(self, world: World, attempt: Try, context: dict[str, Any]) -> Any:
        return AssistantHook().upload_document(self.path(world)).as_dict()

    def check_done(self, world: World, good: Ended) -> None:
        stored = world.stored(Document)
        assert good.result["document_id"] in {world.wire.real_id(one.id) for one in stored} | {None}
        content = self.path(world).read_text()
        assert {(one.title, one.content) for one in stored} == {(self.path(world).name, content)}, "all of it arrives"


@dataclass
class RateOne(Call):
    """Rate one answer."""

    is_sent: bool = field(default=False, init=False, repr=False)

    def begin(self, world: World) -> None:
        chat = Chat("r1", "docs", SESSION, "async", MESSAGE, None, None, 0.0, ended_at=1.0, answer="Yes.")
        world.service.store.save(chat)

    def make(self, world: World) -> Any:
        return AssistantFeedbackOperator(task_id="task", session_id=SESSION, request_id="r1", feedback="good")

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        assert not (self.is_sent and ended.sent), "what was acknowledged is not sent again"
        super().check_try(world, attempt, ended, number=number)
        self.is_sent = self.is_sent or (ended.error is None and attempt.ledger_away is None)

    def check_done(self, world: World, good: Ended) -> None:
        assert [(one.id, one.rating) for one in world.stored(Chat) if one.rating] == [("r1", "good")]
        again = self.calm(world)
        assert again.error is None
        assert not again.sent, "what was rated is not rated again"


# -- waiting -------------------------------------------------------------------------------------

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


@dataclass
class SubmitAndWait(Call):
    """
    Submit a question, and wait for its answer.

    :param deferrable: whether the task defers.
    :param ledger: whether the task uses a ledger.
    :param reuse: whether a cleared task takes up its request again.
    :param patience: longest total wait, in seconds.
    :param interval: seconds between polls.
    """

    deferrable: bool = False
    ledger: bool = True
    reuse: bool = True
    patience: float = 600.0
    interval: float = 5.0
    known: int = field(default=0, init=False, repr=False)

    def polls(self) -> float:
        return min(self.patience, 1e4) / self.interval + 8 + (1e6 if self.patience == PATIENT else 0)

    def make(self, world: World) -> Any:
        return AssistantSubmitChatOperator(
            task_id="task",
            session_id=SESSION,
            message=MESSAGE,
            on_ambiguous=self.on_ambiguous,
            wait_for_completion=True,
            deferrable=self.deferrable,
            ledger=self.ledger,
            reuse=self.reuse,
            timeout=self.patience,
            poll_interval=self.interval,
        )

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        self.check_wait(world, attempt, ended)
        made = len([one for one in ended.to("chat.async") if one.is_received])
        if self.on_ambiguous != "retry":
            assert made <= 1, "what may have been submitted is not submitted again"
        if ended.error is None:
            assert made <= 1 + ended.xcom.get("possibly_duplicated", 0), "what was submitted twice is counted"
            assert ended.result["text"] == answer_to(MESSAGE)
            request = world.service.store.find(Chat, "docs", world.wire.real_id(ended.result["request_id"]))
            assert request is not None
            assert request.message == MESSAGE

    def check_wait(self, world: World, attempt: Try, ended: Ended) -> None:
        """Check polls, time and errors of a wait."""
        # The timeout of a deferred task is stored as a time of day: a clock that is set back extends it.
        is_moved = self.deferrable and attempt.jump
        polls = [one.status for one in ended.to("chat.request")]
        most = self.polls() * (1 + (attempt.end is not None))
        assert is_moved or len(polls) <= most, "the polls are bounded"
        longest = 2 * self.seconds(world) + 65 * world.timeout + self.patience + self.polls() * world.timeout + LEDGER
        assert is_moved or ended.seconds <= longest, "the time is bounded"
        error = ended.error
        if error is None or ended.is_killed or isinstance(error, AssistantLedgerError) or not polls or attempt.end:
            return
        is_waited = isinstance(error, WAITED) or isinstance(error.__cause__, WAITED)
        assert is_waited or attempt.outage, f"polling goes on after this: {error!r}"
        refused = [one.status for one in ended.to("chat.request")[:-1] if not one.is_page]
        assert not {401, 403} & set(refused), f"what concerns the key is not polled on: {polls}"
        if isinstance(error, AssistantRequestTimeoutError | AirflowSensorTimeout) and not attempt.jump:
            assert ended.seconds >= self.patience, "the whole time is waited"

    def check_end(self, world: World, night: Night) -> None:
        self.patience = PATIENT
        # The first of these may find that a request was lost.
        for number in range(60, 63):
            ended = self.calm(world, number)
            if ended.error is None:
                break
        is_failing = world.service.settings.fail_messages
        is_stopped = self.on_ambiguous != "retry" and not isinstance(ended.error, AssistantRequestLostError)
        if is_failing or (ended.error is not None and is_stopped):
            return
        assert ended.error is None, f"a retry converges: {ended.error!r}"
        assert ended.result["text"] == answer_to(MESSAGE)
        if self.ledger and self.reuse and not any(attempt.is_cleared for attempt in night.tries):
            again = self.calm(world, 70)
            assert again.error is None
            assert not again.to("chat.async"), "what was answered is not asked again"


@dataclass
class WaitForRequest(SubmitAndWait):
    """Wait with a sensor for a request that another task has submitted."""

    def begin(self, world: World) -> None:
        super().begin(world)
        chat = Chat("r1", "docs", SESSION, "async", MESSAGE, None, None, world.service.clock())
        world.service.store.save(chat)

    def make(self, world: World) -> Any:
        return AssistantChatRequestSensor(
            task_id="task",
            request_id="r1",
            deferrable=self.deferrable,
            ledger=self.ledger,
            timeout=self.patience,
            poke_interval=self.interval,
        )

    def execute(self, world: World, attempt: Try, context: dict[str, Any]) -> Any:
        if self.deferrable:
            return super().execute(world, attempt, context)
        # As Airflow does in the mode ``reschedule``: each time in a new process.
        began = world.elapsed
        while True:
            poked = self.make(world).poke(context)
            if poked.is_done:
                return poked.xcom_value
            if world.elapsed - began > self.patience:
                raise AirflowSensorTimeout("the sensor of 'docs' has timed out")
            world.sleep(self.interval)

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        self.check_wait(world, attempt, ended)
        if ended.error is None:
            assert ended.result["text"] == answer_to(MESSAGE)
            assert (ended.result["seconds"] or 0) >= 0
            assert (ended.result["noticed_after"] or 0) >= 0
            assert ended.result["polls"] >= 1

    def check_end(self, world: World, night: Night) -> None:
        self.patience = PATIENT
        if "r1" in world.wire.forgotten or world.service.settings.fail_messages:
            return
        good = self.calm(world)
        assert good.error is None, repr(good.error)
        assert good.result["text"] == answer_to(MESSAGE)


# -- generation ----------------------------------------------------------------------------------

AMBIGUOUS = st.sampled_from(["retry", "retry", "skip", "fail"])
CHAT_NIGHTS = nights(st.builds(SyncChat, AMBIGUOUS))
CLOSE_NIGHTS = nights(st.builds(CloseSession))
UPLOAD_NIGHTS = nights(st.builds(UploadOne), settings={"allow_duplicates": st.just(True)})
RATING_NIGHTS = nights(st.builds(RateOne))
WAITING: dict[str, st.SearchStrategy[Any]] = {
    "on_ambiguous": AMBIGUOUS,
    "deferrable": st.booleans(),
    "ledger": st.sampled_from([True, True, True, False]),
    "reuse": st.sampled_from([True, True, False]),
    "patience": st.sampled_from([0.0, 60.0, 600.0]),
    "interval": st.sampled_from([1.0, 5.0, 300.0]),
}
PROCESSING: dict[str, st.SearchStrategy[Any]] = {
    "processing_seconds": st.sampled_from([0.0, 1.0, 20.0, 60.0]),
    "fail_messages": st.sampled_from([None, None, None, FAILING]),
}
WAITING_NIGHTS = nights(st.builds(SubmitAndWait, **WAITING), CLEARED, settings=PROCESSING)
SENSOR_NIGHTS = nights(st.builds(WaitForRequest, **WAITING), TRIES, settings=PROCESSING)
