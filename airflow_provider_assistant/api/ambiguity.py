"""Decide whether to retry a single call that may already have created something."""

from __future__ import annotations

import random
from typing import Any, Literal, TypeAlias, TypeVar

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.outage import Outage
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAmbiguousPermanentError,
    AssistantError,
    AssistantResponseError,
)

T = TypeVar("T")
OnAmbiguous: TypeAlias = Literal["retry", "fail"]


def decided(
    call: Call[T],
    on_ambiguous: OnAmbiguous,
    rule: flow.RetryPolicy,
    *,
    now: flow.Clock,
    rng: random.Random,
    outage: Outage | None = None,
) -> flow.Flow[T]:
    """
    Send one call as :func:`.flow.perform` does, without the retries that ``on_ambiguous`` forbids.

    :param call: The call.
    :param on_ambiguous: What to do if the call failed and may have taken effect nevertheless.
        ``retry`` sends it again as often as the flow does. ``fail`` never sends it again.
    :param rule: Limits for the retries.
    :param now: Clock, returning seconds since the epoch.
    :param rng: Random generator of the jitter.
    :param outage: What is known from the other requests of the client. Default: None, there are none.
    :return: The reply of the call.
    :raises AssistantAmbiguousError: A ``POST …/chat`` timed out; a retry of the task sends it again.
    :raises AssistantAmbiguousPermanentError: ``on_ambiguous`` is ``fail``, and the call may have
        taken effect. This includes a success whose body cannot be used.
    """

    def is_final(_: AssistantError) -> bool:
        return on_ambiguous == "fail"

    try:
        return (yield from flow.perform(call, rule, now=now, rng=rng, is_final=is_final, outage=outage))
    except (AssistantAmbiguousError, AssistantResponseError) as error:
        if on_ambiguous == "retry":
            raise
        raise permanent(call, error) from error.__cause__ or error


def permanent(
    call: Call[Any], error: AssistantAmbiguousError | AssistantResponseError, on_ambiguous: str = "fail"
) -> AssistantAmbiguousPermanentError:
    """Return the error of a call that may have taken effect and is never sent again."""
    cause = error.__cause__ or error
    todo = AssistantAmbiguousPermanentError.default_todo
    if isinstance(cause, AssistantError) and cause.todo:
        todo = f"{cause.todo} {todo}"
    return AssistantAmbiguousPermanentError(
        f"{error.happened}. It is not sent again, because on_ambiguous is {on_ambiguous!r}",
        todo=todo,
        endpoint=call.endpoint,
        attempts=getattr(error, "attempts", 1),
    )
