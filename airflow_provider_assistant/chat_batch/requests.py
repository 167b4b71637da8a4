"""The records of a chat batch: its open chat requests, and the results of its questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

Mode: TypeAlias = Literal["async", "sync"]
State: TypeAlias = Literal["complete", "failed", "lost"]
LatencySource: TypeAlias = Literal["service", "measured"]


class PendingRequest(NamedTuple):
    """
    An open chat request.

    :param submitted_at: In seconds since the epoch.
    """

    question_id: str
    request_id: str
    submitted_at: float


class FinishedRequest(NamedTuple):
    """
    The result of one question.

    :param request_id: None if the service returned none.
    :param status: ``complete``; ``failed``; or ``lost``, if the service no longer knows the chat request.
    :param error: Reason why there is no answer, or None.
    :param raw: The last reply as JSON text, with every digit; None if there is none.
    :param ended_at: Time of the end by the service's own times, or else of the poll that found it, in seconds since the
        epoch.
    :param seconds: Seconds from the submission to ``ended_at``.
    :param polls: Number of polls; 0 in sync mode.
    :param latency: Seconds that the service took at most. None if unknown.
    :param noticed_after: Seconds from the submission to the poll that found the end. None in sync mode.
    :param latency_source: ``service``, by its own times; ``measured``, by the polls or, in sync mode,
        by the round trip. None without a latency.
    :param latency_error: Seconds by which ``latency`` may be too long: the time between the last poll
        that found the request pending and the poll that found its end; in sync mode, the whole round
        trip if it had several attempts. 0 by the service's own times. None without a latency.
    :param confidence_level: Confidence of the service in its answer, such as ``low``. None if unknown.
    :param confidence_score: The same as a number. None if unknown.
    """

    question_id: str
    request_id: str | None
    status: State
    text: str | None
    error: str | None
    raw: str | None
    ended_at: float
    seconds: float
    polls: int
    latency: float | None = None
    noticed_after: float | None = None
    latency_source: LatencySource | None = None
    latency_error: float | None = None
    confidence_level: str | None = None
    confidence_score: float | None = None


class Submission(NamedTuple):
    """A question that the service has accepted: its request, the time in seconds since the epoch, and the attempts."""

    request_id: str | None
    submitted_at: float
    attempts: int


@dataclass(slots=True)
class EarlierTurns:
    """The earlier turns of the conversations: submissions, reasons and statuses by question, and facts."""

    submissions: dict[str, Submission] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
