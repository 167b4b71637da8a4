"""
Write the runbook from the table of messages.

``python -m tests.docs.runbook`` updates the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from airflow_provider_assistant.messages import MESSAGES, Message

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "runbook.md"
BEGIN, END = "<!-- from the table of messages: begin -->\n", "<!-- from the table of messages: end -->\n"


def written() -> str:
    """Return the page with the text between the marks replaced."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{_index()}\n{''.join(map(_section, MESSAGES))}{END}{after}"


def _index() -> str:
    lines = ["| Exception | What happened | Airflow retries |", "|---|---|---|"]
    lines += [
        f"| [`{message.title}`](#{message.anchor}) | {message.happened} | {'no' if message.is_final else 'yes'} |"
        for message in MESSAGES
    ]
    return "\n".join(lines) + "\n"


def _section(message: Message) -> str:
    return "\n".join(_lines(message)) + "\n"


def _lines(message: Message) -> Iterator[str]:
    yield f"### {message.title}"
    yield ""
    yield f"**What happened**: {message.happened}"
    yield ""
    yield f"**What it means**: {message.meaning}"
    yield ""
    yield f"**What is safe**: {message.safe}"
    yield ""
    retries = (
        "Airflow does not retry the task: clear it afterwards." if message.is_final else "Airflow retries the task."
    )
    yield f"**What to do**: {message.todo} {retries}"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(written())
