"""Spans around what takes time: OpenTelemetry's, where Airflow's tracing is on, and nothing where it is off."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span, Tracer

    from airflow_provider_assistant.api.flow import Wait


def span(name: str, **facts: str | float) -> AbstractContextManager[Span]:
    """
    Put a span around a block, below Airflow's own span of the task or trigger; an exception marks it as failed.

    :param name: What is done, such as ``load``; one of few, because backends group by it.
    :param facts: Attributes of the span.
    """
    attributes = {f"assistant.{fact}": value for fact, value in facts.items()}
    return _tracer().start_as_current_span(f"assistant.{name}", attributes=attributes)


def waited(wait: Wait) -> None:
    """Note in the current span that a request is about to be repeated."""
    from opentelemetry import trace

    facts: dict[str, str | float] = {"assistant.seconds": wait.seconds, "assistant.reason": str(wait.reason)}
    trace.get_current_span().add_event("retry", facts)


# Where tracing is off, or not set up yet, it is a proxy that asks again each time.
@cache
def _tracer() -> Tracer:
    from opentelemetry import trace

    return trace.get_tracer("airflow_provider_assistant")
