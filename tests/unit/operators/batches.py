"""Questions of chat batches, and what a batch wrote."""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as pq

from airflow_provider_assistant.asking.answers import STATUSES
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator

SUBMIT = r"chat/async$"
CHAT = r"chat$"
CLOSE = r"session/close$"
DEFAULTS = {"key_columns": ["id"], "poll_interval": 0.05, "timeout": 30}
COUNTED = {
    "submitted", "reused", "rejected", "ambiguous", "possibly_duplicated", "sessions_closed", "sessions_not_closed",
    "without_text",
}  # fmt: skip


def many(count, **changes):
    return [{"id": number, "message": f"Question {number}?"} | changes for number in range(count)]


def batch_of(source, output, **arguments):
    arguments = {**DEFAULTS, "output_path": str(output), **arguments}
    operator = AssistantChatBatchOperator(task_id="ask", source=source, **arguments)
    operator.render_template_fields({})
    return operator


def rows_of(path):
    return pq.read_table(path).to_pylist()


def statuses(output):
    return dict(Counter(row["status"] for row in rows_of(output)))


def counts(result):
    return {name: result[name] for name in (*STATUSES, *COUNTED) if result[name]}


def findings_of(result):
    return rows_of(result["findings"]) if result["findings"] else []


class Killed(BaseException):
    """Stands for SIGKILL: no code runs after it."""


def killed_at(monkeypatch, owner, name, *, after=False):
    """Replace a function by one that raises Killed on the first call."""
    method = getattr(owner, name)

    def kill(*arguments, **options):
        monkeypatch.setattr(owner, name, method)
        if after:
            method(*arguments, **options)
        raise Killed

    monkeypatch.setattr(owner, name, kill)
