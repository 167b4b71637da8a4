"""Conversations: questions of one session that are asked in order, each after the answer to the one before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_assistant.api.sessions import session_id
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.keys import key_column
from airflow_provider_assistant.ledger import hash_of
from airflow_provider_assistant.tables.fingerprints import encoded


class Conversations(NamedTuple):
    """
    The conversations of a source; each list has one element per question.

    :param session_ids: The generated session of each question.
    :param turns: The position of each question in its conversation, from 1.
    """

    session_ids: list[str]
    turns: list[int]


class _Question(NamedTuple):
    """
    A question of a conversation; the lower number is asked first.

    :param position: Its position in the source.
    """

    number: float
    position: int


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
    conversations: dict[tuple[str | None, int], list[_Question]] = {}
    for position, (name, repetition) in enumerate(zip(texts, repetitions, strict=True)):
        if position in problems:
            # No other conversation has the name None, so the position makes this one unique.
            conversations[None, position] = [_Question(0.0, position)]
            continue
        number = _number(numbers[position])
        if name is None or number is None:
            problem = f"question {position + 1} has no conversation"
            if name:
                problem = f"the turn of question {position + 1}, of conversation {name!r}, is not a number"
            raise AssistantInputError(
                problem,
                safe=NOTHING_SENT,
                field="turn",
            )
        conversations.setdefault((name, repetition), []).append(_Question(number, position))
    session_ids = [""] * len(texts)
    turns = [0] * len(texts)
    for (name, repetition), questions in conversations.items():
        questions.sort()
        distinct_numbers = {question.number for question in questions}
        if len(distinct_numbers) < len(questions):
            raise AssistantInputError(
                f"conversation {name!r} has two questions with the same turn",
                safe=NOTHING_SENT,
                field="turn",
            )
        texts_of_turns = [str(messages[question.position]) for question in questions]
        messages_hash = hash_of(encoded(texts_of_turns))
        session = session_id("thread", scope, str(name), str(repetition), messages_hash)
        for turn, question in enumerate(questions, start=1):
            session_ids[question.position] = session
            turns[question.position] = turn
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
    earlier_status_by_session = {}
    for position, number in enumerate(turns):
        if number == turn - 1:
            status = statuses.get(question_ids[position], "not_submitted")
            earlier_status_by_session[session_ids[position]] = status
    following = NextTurn(positions=[], blocked={})
    for position, number in enumerate(turns):
        if number != turn:
            continue
        # The first turn has no turn before it.
        status = earlier_status_by_session.get(session_ids[position], "complete")
        if status == "complete":
            following.positions.append(position)
        else:
            reason = f"not sent: turn {turn - 1} of its session has no answer ({status})"
            following.blocked[question_ids[position]] = reason
    return following


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    # A number that is not finite has no order.
    return number if math.isfinite(number) else None
