"""The findings of a chat batch: questions that could not be submitted, or may have been submitted twice."""

from __future__ import annotations

from airflow_provider_assistant.chat_batch.questions import Questions
from airflow_provider_assistant.chat_batch.state import RETRY_CONTINUES
from airflow_provider_assistant.lake import storing
from airflow_provider_assistant.loading.findings import Findings, Kind
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.texts import storable


class QuestionFindings(Findings):
    """
    Findings that also keep the reason of each question that was not submitted, for the output.

    :param path: Path of the file.
    :param questions: The questions that are submitted; ``row`` of a finding is the row of the source.
    :param is_first: Whether these are the first questions of the batch; if not, the findings in the file are kept.
    """

    def __init__(self, path: StoragePath, questions: Questions, *, is_first: bool) -> None:
        super().__init__(path, always=False)
        self.reasons: dict[str, str] = {}
        self._questions = questions
        if not is_first:
            self._keep()

    def _keep(self) -> None:
        import pyarrow.parquet as pq

        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            kept = pq.ParquetFile(file).read().to_pylist()
        for row in kept:
            super().add(**row)

    def add(
        self,
        kind: Kind,
        key: str,
        reason: str,
        *,
        row: int | None = None,
        document_ids: list[str] | None = None,
        group: str | None = None,
    ) -> None:
        """Add a finding, see :meth:`~airflow_provider_assistant.loading.findings.Findings.add`."""
        source_row = row and self._questions.row_numbers[row - 1]
        with storing(self.path, RETRY_CONTINUES):
            super().add(kind, key, reason, row=source_row, document_ids=document_ids, group=group)
        if row is not None and kind in {"rejected", "failed", "ambiguous", "skipped"}:
            self.reasons[self._questions.question_ids[row - 1]] = storable(f"{kind}: {reason}")

    def close(self) -> None:
        """Write the remaining findings and close the file."""
        with storing(self.path, RETRY_CONTINUES):
            super().close()
