"""Conversations: questions of one session that are asked in order, each after the answer to the one before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_assistant.api.sessions import session_id
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.keys import key_column
from airflow_provider_assistant.loading.fingerprints import encoded, hash_of


class Conversations(NamedTuple):
    """
    The conversations of a source; each list has one element per question.

    :param session_ids: The generated session of each question.
    :param turns: The position of each question in its conversation, from 1.
    """

    session_ids: list[str]
    turns: list[int]


class NextTurn(NamedTuple):
    """
    The questions of one turn.

    :param blocked: Reason by ``question_id``, for questions that are not asked.
    """

    positions: list[int]
    blocked: dict[str, str]


def read_conversations(
    names: Sequence[Any],
    numbers: Sequence[Any],
    messages: Sequence[Any],
    repetitions: Sequence[int],
    *,
    scope: str,
    problems: Mapping[int, str],
) -> Conversations:
    """
    Return the session and the turn of each question.

    The session id depends on all messages of the conversation: if one changes, a retry asks the whole conversation
    again in a new session, instead of continuing one that began differently.

    :param names: Name of each question's conversation.
    :param numbers: Number of each question within its conversation; only their order matters.
    :param repetitions: Repetition of each question. Each repetition of a conversation has a session of its own.
    :param scope: Scope from which session ids are generated.
    :param problems: Error by position, for rows that cannot be read. Each of these is a conversation of its own.
    :raises AssistantInputError: A question has no conversation or no number, or a number is given twice.
    """
    texts, _ = key_column(names)
    conversations: dict[tuple[str | None, int], list[tuple[float, int]]] = {}
    for position, (text, repetition) in enumerate(zip(texts, repetitions, strict=True)):
        if position in problems:
            conversations[None, position] = [(0.0, position)]
            continue
        number = _number(numbers[position])
        if text is None or number is None:
            missing = f"of conversation {text!r} has a turn that is no number" if text else "has no conversation"
            raise AssistantInputError(f"question {position + 1} {missing}", safe=NOTHING_SENT, field="turn")
        conversations.setdefault((text, repetition), []).append((number, position))
    session_ids, turns = [""] * len(texts), [0] * len(texts)
    for (text, repetition), rows in conversations.items():
        rows.sort()
        if len({number for number, _ in rows}) < len(rows):
            raise AssistantInputError(
                f"conversation {text!r} has two questions with the same turn",
                safe=NOTHING_SENT,
                field="turn",
            )
        said = hash_of(encoded([str(messages[position]) for _, position in rows]))
        session = session_id("thread", scope, str(text), str(repetition), said)
        for turn, (_, position) in enumerate(rows, start=1):
            session_ids[position], turns[position] = session, turn
    return Conversations(session_ids, turns)


def next_turn(
    turn: int,
    turns: Sequence[int],
    question_ids: Sequence[str],
    session_ids: Sequence[str],
    statuses: Mapping[str, str],
) -> NextTurn:
    """
    Return the questions of a turn whose conversation goes on, and why the others of this turn are not asked.

    :param turn: Number of the turn, from 1.
    :param turns: Turn of each question.
    :param question_ids: Identity of each question.
    :param session_ids: Session of each question.
    :param statuses: Status by ``question_id``, after the turn before.
    """
    before = {
        session: statuses.get(question_id, "not_submitted")
        for session, number, question_id in zip(session_ids, turns, question_ids, strict=True)
        if number == turn - 1
    }
    found = NextTurn([], {})
    for position, number in enumerate(turns):
        if number != turn:
            continue
        status = before.get(session_ids[position], "complete")
        if status == "complete":
            found.positions.append(position)
        else:
            found.blocked[question_ids[position]] = f"not sent: turn {turn - 1} of its session has no answer ({status})"
    return found


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
