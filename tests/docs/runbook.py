"""
Write the sections on exceptions, to which the errors of tasks lead, from their docstrings and the table of statuses.

``python -m tests.docs.generated`` writes the page.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.api.errors import STATUSES
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
BEGIN, END = "<!-- from the exceptions: begin -->\n", "<!-- from the exceptions: end -->\n"
ERRORS = [kind for kind in vars(exceptions).values() if inspect.isclass(kind) and issubclass(kind, AssistantError)]


@dataclass(frozen=True)
class Section:
    """A section of the runbook."""

    error: type[AssistantError]
    happened: str
    meaning: str
    safe: str
    todo: str
    status: int | None = None

    @property
    def title(self) -> str:
        return self.error.__name__ + (f" ({self.status})" if self.status else "")

    @property
    def anchor(self) -> str:
        return self.title.lower().replace(" ", "-").replace("(", "").replace(")", "")


def sections() -> list[Section]:
    """Return the sections: the base class is the last one."""
    found = []
    for kind in [*ERRORS[1:], ERRORS[0]]:
        found += [_section_of_class(kind), *_sections_of_statuses(kind)]
    return found


def _section_of_class(kind: type[AssistantError]) -> Section:
    happened, meaning, *_ = inspect.getdoc(kind).split("\n\n")
    return Section(kind, happened, meaning.replace("\n", " "), kind.default_safe, kind.default_todo)


def _sections_of_statuses(kind: type[AssistantError]) -> Iterator[Section]:
    for status, row in STATUSES.items():
        if row.error is kind and row.own_todo:
            meaning_of_status = f"{row.meaning[0].upper()}{row.meaning[1:]}."
            yield Section(kind, meaning_of_status, "", kind.default_safe, row.own_todo, status)


def written() -> str:
    """Return the page with the text between the marks replaced."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    text = "".join(_text(section) for section in sections())
    return f"{before}{BEGIN}\n{text}{END}{after}"


def _text(section: Section) -> str:
    paragraphs = [f"### {section.title}", f"{section.happened} {section.meaning}".strip()]
    # The page says once what is safe after most of them, and that Airflow retries the task.
    if section.status is None and section.safe not in {AssistantAPIError.default_safe, AssistantError.default_safe}:
        paragraphs.append(f"**Safe**: {section.safe.removeprefix(AssistantError.default_safe).lstrip()}")
    todo = section.todo or "Correct what the message names."
    paragraphs.append(f"**To do**: {todo}{'' if section.error.default_retryable else ' Not retried.'}")
    return "\n\n".join(paragraphs) + "\n\n"
