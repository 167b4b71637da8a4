"""The findings of a chat batch: questions that could not be submitted, or may have been submitted twice."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_assistant.chat_batch.questions import Questions
from airflow_provider_assistant.loading.findings import Finding, FindingsFile, read_findings
from airflow_provider_assistant.texts import storable


class QuestionFindings:
    """
    Write findings to a file, and keep the reason of each question that was not submitted, for the output.

    :param questions: The questions that are submitted; ``row`` of a finding is the row of the source.
    """

    def __init__(self, file: FindingsFile, questions: Questions) -> None:
        self.reasons: dict[str, str] = {}
        self._file = file
        self._questions = questions

    def keep_earlier(self) -> None:
        """Keep the findings that are already in the file: those of the earlier turns."""
        for row in read_findings(self._file.path):
            self._file.add(Finding(**row))

    def add(self, finding: Finding) -> None:
        """Add a finding; its ``row`` is the number of the question."""
        if finding.row is None:
            self._file.add(finding)
            return
        position = finding.row - 1
        self._file.add(replace(finding, row=self._questions.row_numbers[position]))
        if finding.kind in {"rejected", "failed", "ambiguous", "skipped"}:
            reason = storable(f"{finding.kind}: {finding.reason}")
            self.reasons[self._questions.question_ids[position]] = reason
