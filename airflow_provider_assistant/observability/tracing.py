"""OpenTelemetry spans; they do nothing if Airflow's tracing is off."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span, Tracer


def span(name: str, **facts: str | float) -> AbstractContextManager[Span]:
    """
    Return a span for a ``with`` block, as a child of Airflow's span for the task or trigger.

    An exception inside the block marks the span as failed.

    :param name: Use few different names, because backends group by them.
    :param facts: Attributes of the span; their names get the prefix ``assistant.``.
    """
    attributes = {f"assistant.{fact}": value for fact, value in facts.items()}
    return tracer().start_as_current_span(f"assistant.{name}", attributes=attributes)


def waited(seconds: float, reason: object) -> None:
    """Add a ``retry`` event to the current span."""
    from opentelemetry import trace

    attributes: dict[str, str | float] = {
        "assistant.seconds": seconds,
        "assistant.reason": str(reason),
    }
    trace.get_current_span().add_event("retry", attributes)


# Safe to cache: before tracing is set up, this is a proxy that looks up the real tracer on each use.
@cache
def tracer() -> Tracer:
    """Return the OpenTelemetry tracer of this package."""
    from opentelemetry import trace

    return trace.get_tracer("airflow_provider_assistant")
