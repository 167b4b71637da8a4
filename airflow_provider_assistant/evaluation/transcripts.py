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
    conversations: defaultdict[str | None, list[Case]] = defaultdict(list)
    for case in sorted(filter(_is_turn, cases), key=lambda case: case.row["turn"]):
        conversations[case.session_id].append(case)
    found = []
    for case in cases:
        turns = conversations[case.session_id] if _is_turn(case) else [case]
        earlier = turns[: turns.index(case)]
        found.append(_with(case, earlier))
    return found


def _is_turn(case: Case) -> bool:
    return case.session_id is not None and isinstance(case.row.get("turn"), int | float)


def _with(case: Case, earlier: Sequence[Case]) -> Case:
    if not earlier:
        return case
    transcript = tuple((turn.message, turn.answer) for turn in earlier)
    told = [{"message": message, "answer": answer} for message, answer in transcript]
    return replace(case, transcript=transcript, row={**case.row, "transcript": told})
