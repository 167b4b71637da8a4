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
    conversations: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.session_id is not None and isinstance(case.row.get("turn"), int | float):
            conversations[case.session_id].append(case)
    earlier: dict[int, list[Case]] = {}
    for turns in conversations.values():
        turns.sort(key=lambda case: case.row["turn"])
        earlier |= {id(case): turns[:number] for number, case in enumerate(turns)}
    return [_with(case, earlier.get(id(case), [])) for case in cases]


def _with(case: Case, earlier: Sequence[Case]) -> Case:
    if not earlier:
        return case
    transcript = tuple((one.message, one.answer) for one in earlier)
    told = [{"message": message, "answer": answer} for message, answer in transcript]
    return replace(case, transcript=transcript, row={**case.row, "transcript": told})
