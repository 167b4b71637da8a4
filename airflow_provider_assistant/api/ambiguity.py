"""Decide whether to retry a single call that may already have created something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAmbiguousPermanentError,
    AssistantError,
    AssistantResponseError,
    AssistantTimeoutError,
)

T = TypeVar("T")
OnAmbiguous: TypeAlias = Literal["retry", "fail"]


def decided(steps: flow.Flow[T], call: Call[T], on_ambiguous: OnAmbiguous) -> flow.Flow[T]:
    """
    Run a flow that sends a call, and stop it before a retry that ``on_ambiguous`` forbids.

    :param steps: The flow of :func:`airflow_provider_assistant.api.flow.perform`.
    :param call: The call.
    :param on_ambiguous: What to do if the call failed and may have taken effect nevertheless. ``retry`` sends it again
        as often as the flow does, except for a ``POST …/chat`` that timed out: the service may still be answering, and
        a second request would add the message to the session twice. ``fail`` never sends it again.
    :return: The reply of the call.
    :raises AssistantAmbiguousError: A ``POST …/chat`` timed out; a retry of the task sends it again.
    :raises AssistantAmbiguousPermanentError: ``on_ambiguous`` is ``fail``, and the call may have taken effect. This
        includes a success whose body cannot be used.
    """
    try:
        return (yield from _stopped(steps, lambda error: on_ambiguous == "fail" or _is_slow(call, error)))
    except (AssistantAmbiguousError, AssistantResponseError) as error:
        if on_ambiguous == "retry":
            raise
        cause = error.__cause__ or error
        todo = AssistantAmbiguousPermanentError.default_todo
        if isinstance(cause, AssistantError) and cause.todo:
            todo = f"{cause.todo} {todo}"
        raise AssistantAmbiguousPermanentError(
            f"{error.happened}. It is not sent again, because on_ambiguous is 'fail'",
            todo=todo,
            endpoint=call.endpoint,
            attempts=getattr(error, "attempts", 1),
        ) from cause


def _is_slow(call: Call[T], error: AssistantError) -> bool:
    return call.endpoint == "chat" and isinstance(error, AssistantTimeoutError)


def _stopped(steps: flow.Flow[T], is_enough: Callable[[AssistantError], bool]) -> flow.Flow[T]:
    """Run a flow, and raise before it retries a call whose ambiguous error ``is_enough`` accepts."""
    outcome: flow.Outcome = None
    attempts = 0
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # StopIteration is not generic
        attempts += isinstance(step, flow.Send)
        if isinstance(step, flow.Wait) and step.retry_of and step.ambiguous and step.reason and is_enough(step.reason):
            steps.close()
            raise flow.ambiguous_error(step.retry_of, step.reason, attempts) from step.reason
        outcome = yield step
