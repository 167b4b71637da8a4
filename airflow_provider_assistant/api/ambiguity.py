"""Single calls that create something: when not to send them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAmbiguousErrorForGood,
    AssistantError,
    AssistantResponseError,
    AssistantTimeout,
)

T = TypeVar("T")
OnAmbiguous: TypeAlias = Literal["retry", "fail"]


def decided(steps: flow.Flow[T], call: Call[T], on_ambiguous: OnAmbiguous) -> flow.Flow[T]:
    """
    Run a flow that sends a call, and end it where the call is not to be sent again.

    :param steps: The flow, see :func:`airflow_provider_assistant.api.flow.perform`.
    :param call: The call.
    :param on_ambiguous: What to do when the call may have taken effect although it failed. ``retry`` sends it again as
        often as the flow does, except for a sync chat that timed out: the service is still answering it, and would
        get the message into the same conversation once more. ``fail`` never sends it again.
    :raises AssistantAmbiguousError: A sync chat timed out; a retry of the task sends it again.
    :raises AssistantAmbiguousErrorForGood: The call may have taken effect, also where it succeeded with a reply that
        cannot be read, and ``on_ambiguous`` is ``fail``.
    """
    try:
        return (yield from _stopped(steps, lambda error: on_ambiguous == "fail" or _is_slow(call, error)))
    except (AssistantAmbiguousError, AssistantResponseError) as error:
        if on_ambiguous == "retry":
            raise
        raise AssistantAmbiguousErrorForGood(
            f"{error} So it is not sent again.",
            endpoint=call.endpoint,
            attempts=getattr(error, "attempts", 1),
        ) from error.__cause__ or error


def _is_slow(call: Call[T], error: AssistantError) -> bool:
    return call.endpoint == "chat" and isinstance(error, AssistantTimeout)


def _stopped(steps: flow.Flow[T], is_enough: Callable[[AssistantError], bool]) -> flow.Flow[T]:
    """Run a flow until it is about to repeat a call that may have taken effect."""
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
