"""The table: one line for each operator and sensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_provider_assistant.operators.chat import AssistantChatOperator, AssistantCloseSessionOperator
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.operators.retention import AssistantRetentionOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.sensors.documents import AssistantDocumentsReadySensor
from airflow_provider_assistant.transfers.ledger_to_parquet import (
    AssistantFeedbackToParquetOperator,
    AssistantLoadsToParquetOperator,
    AssistantRequestsToParquetOperator,
)
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from airflow_provider_assistant.transfers.read_to_parquet import AssistantReadToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.modes.world import CONNECTION, NAME, OTHER_SITE, SESSION, SITE, SOURCE, TENANT


@dataclass(frozen=True)
class Place:
    """
    Where a run finds its files and writes others.

    :param folder: A copy of the files that exist before each run.
    :param request_id: A complete chat request.
    :param part: Name of the run and the task instance, for files that they do not share.
    """

    folder: Path
    request_id: str
    part: str = "a"

    def file(self, name: str) -> str:
        return str(self.folder / name)

    def scores(self) -> str:
        (scores,) = self.folder.glob("evaluations/**/*_before/scores.parquet")
        return str(scores)

    def own(self, name: str) -> str:
        return str(self.folder / f"own-{self.part}-{name}")


@dataclass(frozen=True)
class Line:
    """
    How an operator or a sensor is built, and what it does.

    :param kind: The class.
    :param arguments: Arguments of the constructor, from the place of the run.
    :param posts: Number of POST requests of a run.
    :param files: Number of new files of a run.
    :param second_files: Further files of a second instance of a mapped task.
    :param posts_again: Number of POST requests of a run that is cleared after it has succeeded.
    :param is_sensor: Whether Airflow's modes of sensors apply.
    :param others: Arguments of the second instance of a mapped task, as far as they differ from those of the first.
    :param posts_later: Number of POST requests of another run after the first. Default: None, as many.
    :param not_in: Modes that do not apply, with the reason.
    """

    kind: type[Any]
    arguments: Callable[[Place], dict[str, Any]]
    posts: int = 0
    files: int = 0
    second_files: int = 0
    posts_again: int = 0
    is_sensor: bool = False
    others: Callable[[Place], dict[str, Any]] = lambda place: {}
    posts_later: int | None = None
    not_in: Mapping[str, str] = field(default_factory=dict)

    def second(self, place: Place) -> dict[str, Any]:
        """Return the arguments of the second instance of a mapped task."""
        second = replace(place, part="b")
        return {**self.arguments(second), **self.others(second)}

    @property
    def name(self) -> str:
        return self.kind.__name__.strip("_")

    def build(self, task_id: str = "task", **arguments: Any) -> Any:
        """Make the task in the DAG of the context."""
        return self.kind(task_id=task_id, **arguments)


USES = {"assistant_conn_id": CONNECTION, "tenant_id": TENANT, "site_id": SITE}
QUICK = {"poll_interval": 0.05, "timeout": 30}
QA = [
    {"id": "1.10", "page": "7", "title": "1.10", "text": "007?", "answer": "42"},
    {"id": "2", "page": "7", "title": "2", "text": "{{ ds }}", "answer": "2.0"},
]
QUESTIONS = [{"id": "1", "text": "007", "talk": "1.10"}, {"id": "2", "text": "1.10", "talk": "2.20"}]
MESSAGE = {"session_id": SESSION, "message": "42", "user_email": "ada@example.com", "response_language": "en"}


def load(place: Place) -> dict[str, Any]:
    return {
        **USES,
        "source_name": "7",
        "namespace": "1e3",
        "findings_path": place.own("findings.parquet"),
        "lake_path": place.file("lake"),
    }


def rows(place: Place) -> dict[str, Any]:
    texts = {"columns": {"question": "text"}, "constants": {"category": "1.10"}}
    return {**load(place), **texts, "key_columns": "id", "group_columns": "page", "allowed_root": place.file("")}


def questions(place: Place) -> dict[str, Any]:
    return {
        **USES,
        **QUICK,
        "columns": {"message": "text"},
        "constants": {"response_language": "en"},
        "key_columns": "id",
        "session": "talk",
        "allowed_root": place.file(""),
        "output_path": place.own("answers.parquet"),
        "lake_path": place.file("lake"),
    }


def other_site(place: Place) -> dict[str, Any]:
    return {"site_id": OTHER_SITE}


def other_lake(place: Place) -> dict[str, Any]:
    return {"output_path": place.file("lake-2")}


def export(place: Place) -> dict[str, Any]:
    return {"output_path": place.file("lake"), "timezone": "UTC"}


def reply(place: Place) -> dict[str, Any]:
    return {**USES, **export(place)}


LINES = [
    Line(AssistantChatOperator, lambda place: {**USES, **MESSAGE, "lake_path": place.file("lake")},
         posts=1, files=1, posts_again=1),
    Line(AssistantSubmitChatOperator, lambda place: {**USES, **MESSAGE}, posts=1),
    Line(AssistantCloseSessionOperator, lambda place: {**USES, "session_id": "1e4"}, posts=1, posts_again=1),
    Line(AssistantChatBatchOperator, lambda place: {**questions(place), "source": QUESTIONS}, posts=2, files=2),
    Line(AssistantLoadQAOperator, lambda place: {**rows(place), "source": QA},
         posts_later=0, posts=2, files=2, others=other_site),
    Line(AssistantLoadTextOperator,
         lambda place: {**load(place), "source": place.file("rows.csv"), "csv_options": {"delimiter": ";"},
                        "key_columns": ["id"], "allowed_root": place.file("")},
         posts_later=0, posts=2, files=2, others=other_site),
    Line(AssistantUploadFilesOperator,
         lambda place: {**load(place), "files": place.file("files"), "allowed_root": place.file("")},
         posts_later=0, posts=2, files=2, others=other_site),
    Line(AssistantEvaluateOperator,
         lambda place: {"answers": place.file("answers.parquet"), "output_path": place.file("evaluations"),
                        "expectations": [{"key": "1.10", "expected": "1.10"}, {"key": "shoes", "expected": "7"}],
                        "scorers": ["token_f1"], "pass_if": "token_f1 >= 0", "gate": ["token_f1 >= 0"],
                        "baseline": str(Path(place.scores()).parent), "name": NAME, "lake_path": place.file("lake"),
                        "timezone": "UTC"},
         files=4, others=lambda place: {"name": "2.0"}),
    Line(AssistantFeedbackOperator,
         lambda place: {**USES, "session_id": SESSION, "request_id": place.request_id, "feedback": "good"},
         posts_later=0, posts=1, others=lambda place: {"feedback": "bad"}),
    Line(AssistantRateAnswersOperator,
         lambda place: {**USES, "answers": place.file("answers.parquet"), "scores": place.scores(),
                        "rules": {"good": "token_f1 >= 0"}},
         # The second rating of a request does not replace the first one, which findings say.
         posts_later=0, posts=2, second_files=1, others=lambda place: {"rules": {"bad": "token_f1 >= 0"}}),
    Line(AssistantLimitsOperator, lambda place: USES),
    Line(AssistantFeedbackToParquetOperator, export, files=2, others=other_lake),
    Line(AssistantRequestsToParquetOperator, export, files=2, others=other_lake),
    Line(AssistantLoadsToParquetOperator, export, files=2, others=other_lake),
    Line(AssistantLimitsToParquetOperator, lambda place: {**reply(place), "list_keys": {"plans": "name"}}, files=1,
         others=other_lake),
    Line(AssistantStatisticsToParquetOperator, lambda place: {**reply(place), "list_keys": {"plans": "name"}},
         files=2, others=other_site),
    Line(AssistantReadToParquetOperator,
         lambda place: {**reply(place), "path": f"/m2m/sites/{SITE}/sessions",
                        "dataset": "sessions", "list_keys": {"sessions": "session_id"}},
         files=1, others=lambda place: {"path": f"/m2m/sites/{OTHER_SITE}/sessions"}),
    Line(AssistantRetentionOperator, lambda place: {"output_path": place.file("lake"), "days": 400}),
    Line(AssistantParquetToWarehouseOperator,
         lambda place: {"output_path": place.file("lake"), "database": place.own("w.duckdb"),
                        "datasets": ["statistics"]}),
    Line(AssistantChatRequestSensor,
         lambda place: {"assistant_conn_id": CONNECTION, "site_id": SITE, "request_id": place.request_id,
                        "poke_interval": 0.05},
         is_sensor=True),
    Line(AssistantDocumentsReadySensor,
         lambda place: {"assistant_conn_id": CONNECTION, "site_id": SITE,
                        "source_name": SOURCE, "poke_interval": 0.05},
         is_sensor=True),
]  # fmt: skip
