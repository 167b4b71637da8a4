"""Single calls: a chat, a chat request and its sensor, the close of a session, one rating, the upload of one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout, AirflowSkipException
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantGatewayError,
    AssistantLedgerError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRequestFailedError,
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
        is_foreign = isinstance(error, AssistantResponseError | AssistantGatewayError)
        if (last >= 500 and last != 501) or last in PASSING or last == 0 or is_foreign:
            assert not is_permanent, f"a transient error can be retried: {error!r}"
        elif last in {400, 401, 403, 404} and len(statuses) == 1:
            assert is_permanent, f"a permanent error is not retried: {error!r}"

    def check_end(self, world: World, night: Night) -> None:
        good = self.calm(world)
        assert good.error is None, repr(good.error)
        self.check_done(world, good)

    def check_done(self, world: World, good: Ended) -> None:
        """Check what the last try has done."""


@dataclass
class Message(Call):
    """Send one message. Over all tries, it is sent again only if ``on_ambiguous`` allows it."""

    endpoint: ClassVar[str]

    def options(self) -> dict[str, Any]:
        return {
            "task_id": "task", "session_id": SESSION, "message": MESSAGE, "on_ambiguous": self.on_ambiguous,
        }  # fmt: skip

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        is_left = isinstance(ended.error, AirflowSkipException | AssistantAmbiguousError)
        if not (is_left and not ended.sent):
            super().check_try(world, attempt, ended, number=number)
        made = len([one for one in ended.to(self.endpoint) if one.is_received])
        if self.on_ambiguous != "retry":
            assert made <= 1, "what may have arrived is not sent again"
        if ended.error is None:
            assert made <= 1 + ended.xcom.get("possibly_duplicated", 0), "what was sent twice is counted"

    def check_end(self, world: World, night: Night) -> None:
        good = self.calm(world)
        received = [one for one in world.wire.journal if one.endpoint == self.endpoint and one.is_received]
        is_careful = self.on_ambiguous != "retry"
        if is_careful and not any(attempt.is_cleared for attempt in night.tries):
            is_kept = all(attempt.ledger_away is None for attempt in night.tries)
            assert len(received) <= 1 or not is_kept, "what may have arrived is not sent again by a retry either"
        if is_careful and isinstance(good.error, AirflowSkipException | AssistantAmbiguousError):
            return
        assert good.error is None, repr(good.error)
        self.check_done(world, good)


@dataclass
class SyncChat(Message):
    """Ask, and wait for the answer."""

    endpoint: ClassVar[str] = "chat"

    def make(self, world: World) -> Any:
        return AssistantChatOperator(**self.options())

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        super().check_try(world, attempt, ended, number=number)
        if ended.error is None:
            assert ended.result["seconds"] >= 0
            assert not ended.sent[-1].answered or ended.result["text"] == answer_to(MESSAGE)

    def check_done(self, world: World, good: Ended) -> None:
        assert good.result["text"] == answer_to(MESSAGE)


@dataclass
class Submit(Message):
    """Submit a question."""

    endpoint: ClassVar[str] = "chat.async"

    def make(self, world: World) -> Any:
        return AssistantSubmitChatOperator(**self.options())

    def check_try(self, world: World, attempt: Try, ended: Ended, *, number: int) -> None:
        super().check_try(world, attempt, ended, number=number)
        # A reply has no NUL after it is read.
        if ended.error is None and "\N{REPLACEMENT CHARACTER}" not in ended.result["request_id"]:
            request = world.service.store.find(Chat, "docs", world.wire.real_id(ended.result["request_id"]))
            assert request is not None
            assert request.message == MESSAGE

    def check_end(self, world: World, night: Night) -> None:
        super().check_end(world, night)
        if self.on_ambiguous == "retry":
            first, again = self.calm(world), self.calm(world)
            assert not again.sent, "what was submitted is not submitted again"
            assert again.result["request_id"] == first.result["request_id"]


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
    AssistantBadRequestError,
    AssistantNotFoundError,
    AssistantAuthenticationError,
    AssistantPermissionError,
    AirflowSensorTimeout,
)


@dataclass
class WaitForRequest(Call):
    """
    Wait with a sensor for a request that another task has submitted.

    :param patience: longest total wait, in seconds.
    :param interval: seconds between polls.
    """

    deferrable: bool = False
    patience: float = 600.0
    interval: float = 5.0

    def polls(self) -> float:
        return min(self.patience, 1e4) / self.interval + 8 + (1e6 if self.patience == PATIENT else 0)

    def begin(self, world: World) -> None:
        super().begin(world)
        chat = Chat("r1", "docs", SESSION, "async", MESSAGE, None, None, world.service.clock())
        world.service.store.save(chat)

    def make(self, world: World) -> Any:
        return AssistantChatRequestSensor(
            task_id="task",
            request_id="r1",
            deferrable=self.deferrable,
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
            assert ended.result["seconds"] >= 0
            assert ended.result["polls"] >= 1

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
        assert is_waited or attempt.outage or attempt.gateway, f"polling goes on after this: {error!r}"
        refused = [one.status for one in ended.to("chat.request")[:-1] if not one.is_page]
        assert not {401, 403} & set(refused), f"what concerns the key is not polled on: {polls}"
        if isinstance(error, AssistantRequestTimeoutError | AirflowSensorTimeout) and not attempt.jump:
            assert ended.seconds >= self.patience, "the whole time is waited"

    def check_end(self, world: World, night: Night) -> None:
        self.patience = PATIENT
        if "r1" in world.wire.forgotten or world.service.settings.fail_messages:
            return
        good = self.calm(world)
        assert good.error is None, repr(good.error)
        assert good.result["text"] == answer_to(MESSAGE)


# -- generation ----------------------------------------------------------------------------------

AMBIGUOUS = st.sampled_from(["retry", "retry", "skip", "fail"])
LEDGERS = st.sampled_from([True, True, True, False])
CHAT_NIGHTS = nights(st.builds(SyncChat, AMBIGUOUS))
SUBMIT_NIGHTS = nights(st.builds(Submit, AMBIGUOUS), CLEARED)
CLOSE_NIGHTS = nights(st.builds(CloseSession))
UPLOAD_NIGHTS = nights(st.builds(UploadOne), settings={"allow_duplicates": st.just(True)})
RATING_NIGHTS = nights(st.builds(RateOne))
WAITING: dict[str, st.SearchStrategy[Any]] = {
    "deferrable": st.booleans(),
    "patience": st.sampled_from([0.0, 60.0, 600.0]),
    "interval": st.sampled_from([1.0, 5.0, 300.0]),
}
PROCESSING: dict[str, st.SearchStrategy[Any]] = {
    "processing_seconds": st.sampled_from([0.0, 1.0, 20.0, 60.0]),
    "fail_messages": st.sampled_from([None, None, None, FAILING]),
}
SENSOR_NIGHTS = nights(st.builds(WaitForRequest, **WAITING), TRIES, settings=PROCESSING)
