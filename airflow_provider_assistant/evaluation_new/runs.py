"""The folder of a run, and the earlier runs beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.evaluation_new.summary import Summary

SCORES, SUMMARY, REPORT, VERDICTS = "scores.parquet", "summary.json", "report.html", "verdicts.parquet"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of an evaluation. ``summary.json`` is written last, so a folder without it is incomplete."""

    path: ObjectStoragePath

    @classmethod
    def of(cls, output_path: str, name: str, moment: datetime, run_id: str) -> RunFolder:
        """
        Return the folder for a run.

        :param moment: The ``run_after`` of the DAG run, by which runs are ordered.
        """
        raise NotImplementedError

    @property
    def scores(self) -> ObjectStoragePath:
        """Path of the matrix of scores."""
        return self.path / SCORES

    @property
    def summary(self) -> ObjectStoragePath:
        """Path of the summary."""
        return self.path / SUMMARY

    @property
    def report(self) -> ObjectStoragePath:
        """Path of the report."""
        return self.path / REPORT

    @property
    def verdicts(self) -> ObjectStoragePath:
        """Path of the verdicts of the judges."""
        return self.path / VERDICTS

    def check_owner(self, run: Mapping[str, str | None]) -> None:
        """Check that the folder does not hold the evaluation of another task instance."""
        raise NotImplementedError

    def read_summary(self) -> Summary | None:
        """Return the summary, or None if the file does not exist."""
        raise NotImplementedError
