"""The earlier turns of each question of a conversation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_assistant.evaluation.case import Case


def with_transcripts(cases: Sequence[Case]) -> list[Case]:
    """
    Return the cases, each turn of a conversation with the turns before it.

    A user-defined scorer gets them in the row as ``transcript``: a list of mappings with ``message`` and ``answer``.

    :param cases: The questions; those with a ``turn`` and the same session are a conversation.
    """
    all_turns = [case for case in cases if _is_turn(case)]
    all_turns.sort(key=lambda case: case.row["turn"])
    turns_by_session: defaultdict[str | None, list[Case]] = defaultdict(list)
    for case in all_turns:
        turns_by_session[case.session_id].append(case)
    completed = []
    for case in cases:
        if not _is_turn(case) or len(turns_by_session[case.session_id]) == 1:
            completed.append(case)
            continue
        turns = turns_by_session[case.session_id]
        earlier_turns = turns[: turns.index(case)]
        completed.append(_with_transcript(replace(case, conversation=turns[0].key), earlier_turns))
    return completed


def _is_turn(case: Case) -> bool:
    return case.session_id is not None and isinstance(case.row.get("turn"), int | float)


def _with_transcript(case: Case, earlier_turns: Sequence[Case]) -> Case:
    if not earlier_turns:
        return case
    transcript = tuple((turn.message, turn.answer) for turn in earlier_turns)
    turn_rows = [{"message": turn.message, "answer": turn.answer} for turn in earlier_turns]
    return replace(case, transcript=transcript, row={**case.row, "transcript": turn_rows})
