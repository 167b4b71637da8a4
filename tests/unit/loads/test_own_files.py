"""Paths of what a task writes: refused early if they cannot work, and one for each mapped instance."""

from __future__ import annotations

from collections import UserList
from itertools import count
from pathlib import Path

import pytest
from airflow.sdk import DAG

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator, AssistantUploadFilesOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.storage.listing import storage_files
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.task_runs.context import task_context

ROWS = [{"title": "T", "content": "C", "category": "c", "message": "M"}]
MESSAGE = {"session_id": "s", "message": "m"}
BATCH = {"source": [{"message": "m"}], "poll_interval": 0.05}
# Class, its other arguments, the parameter, and whether it is a file that each instance replaces.
OUTPUTS = [
    (AssistantChatBatchOperator, BATCH, "output_path", True),
    (AssistantChatBatchOperator, {**BATCH, "output_path": "{{ 'a' }}"}, "lake_path", False),
    (AssistantLoadTextOperator, {"source": ROWS}, "findings_path", True),
    (AssistantLoadTextOperator, {"source": ROWS}, "lake_path", False),
    (AssistantChatOperator, MESSAGE, "lake_path", False),
    (AssistantEvaluateOperator, {"answers": ROWS}, "output_path", False),
    (AssistantLimitsToParquetOperator, {}, "output_path", False),
    (AssistantStatisticsToParquetOperator, {}, "output_path", False),
]
IDS = [f"{kind.__name__}-{name}" for kind, _, name, _ in OUTPUTS]


def execute(task, **context):
    """Execute a task, with its templates rendered for its instance."""
    filled = task_context(task.task_id, **context)
    task.render_template_fields(filled)
    return task.execute(filled)


@pytest.mark.parametrize(("kind", "arguments", "name", "is_file"), OUTPUTS, ids=IDS)
def test_a_path_that_cannot_be_written_is_refused_before_anything_is_sent(
    kind, arguments, name, is_file, service, connection, tmp_path
):
    (tmp_path / "file").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken").symlink_to(tmp_path / "none")
    below_files = [tmp_path / "file" / "x.parquet", tmp_path / "file" / "y" / "x", tmp_path / "broken" / "x"]
    wrong = [*below_files, tmp_path / "folder"] if is_file else [*below_files, tmp_path / "file"]
    number = count()
    for path in wrong:
        with pytest.raises(AssistantInputError, match=name):
            execute(kind(task_id=f"task_{next(number)}", **{**arguments, name: path}))
    assert service.journal() == []


MAPPED = [(kind, arguments, name) for kind, arguments, name, is_file in OUTPUTS if is_file]


@pytest.mark.parametrize(("kind", "arguments", "name"), MAPPED)
def test_one_file_for_all_instances_is_refused_before_anything_is_sent(
    kind, arguments, name, service, connection, tmp_path
):
    path = tmp_path / "one.parquet"
    with DAG("mapped", schedule=None) as dag:
        kind.partial(task_id="task", **{**arguments, name: path}).expand(site_id=["acme-docs", "acme-shop"])
    for index, site in enumerate(["acme-docs", "acme-shop"]):
        instance = kind(task_id="task", **{**arguments, name: path, "site_id": site})
        with pytest.raises(AssistantInputError, match="map_index"):
            execute(instance, map_index=index, dag=dag)
    assert service.journal() == []
    # Each with its own: as a template, or as a mapped argument.
    template = str(tmp_path / "of-{{ ti.map_index }}.parquet")
    own = [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]
    with DAG("with_paths", schedule=None) as dag:
        kind.partial(task_id="task", **arguments).expand(**{name: own})
    for index in (0, 1):
        execute(kind(task_id="task", **{**arguments, name: template}), map_index=index)
        execute(kind(task_id="task", **{**arguments, name: own[index]}), map_index=index, run_id="next", dag=dag)


def test_instances_whose_paths_turn_out_to_be_the_same_do_not_replace_each_other(service, connection, tmp_path):
    path = str(tmp_path / "{{ 'same' }}.parquet")

    def ask(map_index, **context):
        return execute(
            AssistantChatBatchOperator(task_id="task", output_path=path, **BATCH), map_index=map_index, **context
        )

    assert ask(0)["complete"] == 1
    sent = service.posts()
    with pytest.raises(AssistantInputError, match=r"has the answers of the task instance 'dag/run/task/0'"):
        ask(1)
    assert service.posts() == sent
    # Its own file, and that of another run, are replaced.
    assert ask(0)["reused"] == 1
    assert ask(1, run_id="next")["complete"] == 1


def outputs(*items):
    """Return the outputs of a mapped task, as Airflow passes them: a sequence that is not a list."""
    return UserList(items)


def test_the_output_of_a_mapped_task_is_a_list_of_files(service, connection, tmp_path):
    service.behave(allow_duplicates=True)
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"Text {name}.")
        (tmp_path / f"{name}.csv").write_text(f"title,content,category\n{name},C,c\n")
    texts, tables = ([str(tmp_path / f"{name}.{suffix}") for name in "abc"] for suffix in ("txt", "csv"))
    for of, paths in [(AssistantUploadFilesOperator, texts), (AssistantLoadTextOperator, tables)]:
        argument = "files" if of is AssistantUploadFilesOperator else "source"
        a, b, c = paths
        for number, source in enumerate(
            [outputs(a, b, c), outputs(Path(a), Path(b), Path(c)), outputs([a, b], [c, a])]
        ):
            counts = execute(of(task_id=f"task_{number}", **{argument: source, "namespace": str(number)}))
            assert counts["created" if number == 0 or of is AssistantUploadFilesOperator else "unchanged"] == 3, source
    assert [name for name, _ in storage_files(outputs([], []), allow_empty=True)] == []
