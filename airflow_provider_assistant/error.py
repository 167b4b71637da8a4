"""
The base of all exceptions.

An error carries two facts. ``retryable``: the same request or task may succeed later. If not, the error is also an
AirflowFailException, so that Airflow does not retry the task. ``maybe_done``: the request may have been carried out.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Self

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_assistant.texts import escaped

RECORDED = "What was created before is recorded in the ledger and is not sent again."


def sentence(text: str) -> str:
    """Return a text that ends as a sentence does."""
    # The text may end with a statement to copy, or with a link.
    is_ended = text.endswith((".", "!", "?", ";")) or text.rpartition(" ")[2].startswith("https://")
    return text if is_ended else f"{text}."


# Exceptions are compared and hashed by identity, and keep Python's own representation.
@dataclass(eq=False, repr=False)
class AssistantError(AirflowException):
    """
    The task failed for a reason that no other section describes.

    An event of a trigger cannot be used, or a worker and a triggerer have different versions of this package.

    The text of the exception is one line: what happened, what is safe, what to do. Control characters are escaped.

    :param happened: What happened and where, without a full stop at the end.
    :param safe: What is not lost or not changed, in sentences.
    :param todo: What to do, in sentences.
    :param retryable: Whether the same request or task may succeed later. Default: what the class says.
    :param maybe_done: Whether the request may have been carried out.
    :param stops_all: Whether every further request of the task would meet the same error. Default: what the class says.
    :param retry_after: Seconds that the service asked to wait (``Retry-After``).
    """

    default_retryable: ClassVar[bool] = True
    default_safe: ClassVar[str] = RECORDED
    default_todo: ClassVar[str] = "Install the same version on all workers and triggerers, then run the task again."
    default_stops_all: ClassVar[bool] = False

    # Every field has a default, so that an instance survives pickling, which passes one of them.
    happened: str = ""
    _: KW_ONLY
    safe: str | None = None
    todo: str | None = None
    retryable: bool | None = None
    maybe_done: bool = False
    stops_all: bool | None = None
    retry_after: float | None = None

    def __new__(cls, *arguments: Any, **fields: Any) -> Self:
        """Make an error; one that is not retryable is also an AirflowFailException."""
        retryable = fields.get("retryable")
        is_retryable = cls.default_retryable if retryable is None else retryable
        return super().__new__(cls if is_retryable else _final(cls), *arguments)  # type: ignore[return-value, arg-type]

    def __post_init__(self) -> None:
        self.happened = escaped(self.happened)
        self.safe = escaped(self.safe) if self.safe else None
        self.todo = escaped(self.todo) if self.todo else None
        if self.retryable is None:
            self.retryable = self.default_retryable
        if self.stops_all is None:
            self.stops_all = self.default_stops_all
        self.args = (self.happened,)

    def __str__(self) -> str:
        if not self.safe and not self.todo:
            return self.happened
        return " ".join(sentence(text) for text in (self.happened, self.safe, self.todo) if text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self).__module__, type(self).__name__, self.fields())

    def fields(self) -> dict[str, Any]:
        """Return the values of the fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def serialize(self) -> tuple[str, tuple[()], dict[str, Any]]:
        """Return the class and its arguments, which Airflow stores to raise the exception again."""
        return f"{type(self).__module__}.{type(self).__name__}", (), self.fields()


@functools.cache
def _final(kind: type[AssistantError]) -> type[AssistantError]:
    """Return a subclass by the same name that is also an AirflowFailException."""
    if issubclass(kind, AirflowFailException):
        return kind
    return type(kind.__name__, (kind, AirflowFailException), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _rebuilt(module: str, name: str, fields: dict[str, Any]) -> AssistantError:
    error: AssistantError = getattr(importlib.import_module(module), name)(**fields)
    return error
