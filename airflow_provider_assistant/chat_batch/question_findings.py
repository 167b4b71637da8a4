"""The findings of a chat batch: questions that could not be submitted, or may have been submitted twice."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_assistant.chat_batch.questions import Questions
from airflow_provider_assistant.loading.findings import Finding, FindingsFile
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
        import pyarrow.parquet as pq

        if not self._file.path.is_file():
            return
        with self._file.path.open("rb") as file:
            rows = pq.ParquetFile(file).read().to_pylist()
        for row in rows:
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
