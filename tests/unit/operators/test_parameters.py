"""Every parameter of every operator and sensor with values of every kind: an error before any request, or a value."""

from __future__ import annotations

import inspect
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from airflow.sdk import DAG

from airflow_provider_assistant import parameters
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.task_parameters import check_rendered, parameters_of
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
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.sensors.documents import AssistantDocumentsReadySensor
from airflow_provider_assistant.storage.opening import storage_path
from airflow_provider_assistant.transfers.ledger_to_parquet import (
    AssistantFeedbackToParquetOperator,
    AssistantLoadsToParquetOperator,
    AssistantRequestsToParquetOperator,
)
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from airflow_provider_assistant.transfers.read_to_parquet import AssistantReadToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.docs.generated import tasks

ROWS = [{"title": "T", "question": "Q", "answer": "A", "content": "C", "message": "M", "key": "1"}]
MESSAGE = {"session_id": "s", "message": "m"}
LAKE = {"output_path": "lake"}
# The arguments that each class needs.
KINDS = {
    AssistantChatBatchOperator: {"source": ROWS, "output_path": "answers.parquet"},
    AssistantChatOperator: MESSAGE,
    AssistantChatRequestSensor: {"request_id": "r"},
    AssistantCloseSessionOperator: {"session_id": "s"},
    AssistantDocumentsReadySensor: {},
    AssistantEvaluateOperator: {"answers": ROWS, "output_path": "evaluations"},
    AssistantFeedbackOperator: {"session_id": "s", "request_id": "r", "feedback": "good"},
    AssistantFeedbackToParquetOperator: LAKE,
    AssistantLimitsOperator: {},
    AssistantLimitsToParquetOperator: LAKE,
    AssistantLoadQAOperator: {"source": ROWS},
    AssistantLoadTextOperator: {"source": ROWS},
    AssistantLoadsToParquetOperator: LAKE,
    AssistantParquetToWarehouseOperator: {"output_path": "lake", "database": "w.duckdb"},
    AssistantRateAnswersOperator: {"answers": "a", "scores": "s", "rules": {"good": "token_f1 >= 0.8"}},
    AssistantReadToParquetOperator: {"path": "/m2m/usage", "dataset": "usage", **LAKE},
    AssistantRequestsToParquetOperator: LAKE,
    AssistantStatisticsToParquetOperator: LAKE,
    AssistantSubmitChatOperator: MESSAGE,
    AssistantUploadFilesOperator: {"files": "folder"},
}


def checks_of(kind):
    return {name: parameter.check for name, parameter in parameters_of(kind).items()}


# Numbers of other libraries, and none.
ODD = [Decimal("2.5"), np.float32(2.5), np.nan, 2 + 1j, b"2", [2], {"seconds": 2}, object(), time(0, 2)]
# Waits that neither Airflow's database nor a clock can hold.
HUGE = [1e12, 1e300, 10**30, timedelta.max]
# By check: values that are an error when the DAG is parsed.
WRONG = {
    parameters.count: ["", 0, -1, 1.5, True, "2", timedelta(seconds=2), math.nan, 10**9, *ODD],
    parameters.tolerated: ["", -1, -0.5, True, "2", timedelta(seconds=2), math.nan, math.inf, *ODD],
    parameters.seconds: ["", None, -1, True, "2", timedelta(seconds=-1), math.nan, math.inf, Path("2"), *HUGE, *ODD],
    parameters.interval: ["", None, 0, -1, True, "2", timedelta(0), math.nan, math.inf, Path("2"), *HUGE, *ODD],
    parameters.flag: ["", 0, 1, "true", 1.0],
    parameters.text: ["", " \n", 1.1, True, timedelta(1), ["x"]],
    parameters.path: ["", " \n", 7, 1.5, True, timedelta(1), ["x"]],
    parameters.folder: ["", " \n", 7, 1.5, True, timedelta(1), ["x"]],
    parameters.day: ["", 7, 1.5, True, "yesterday", timedelta(1), datetime(2026, 11, 21, tzinfo=UTC)],
    parameters.names: ["", 1.1, True, timedelta(1), {"a": "b"}, ["a", ""], ["a", None], [1.1]],
    parameters.text_list: ["", "a", 7, {"a": "b"}, ["a", ""], ["a", None], [1.1]],
    parameters.text_map: ["", "a", 7, ["a"], {"a": ""}, {"a": None}, {"a": 1.1}],
    parameters.csv_options: ["", "a", 7, ["a"], {"delimiter": 1.1}, {"skip_lines": 2.5}],
    parameters.anything: ["", " "],
}
# By check: accepted values, and what the task uses.
RIGHT = {
    parameters.count: [(1, 1), (64, 64)],
    parameters.tolerated: [(0, 0), (3, 3), (0.5, 0.5)],
    parameters.seconds: [(0, 0.0), (90, 90.0), (1.5, 1.5), (timedelta(minutes=2), 120.0)],
    parameters.interval: [(90, 90.0), (0.5, 0.5), (timedelta(minutes=2), 120.0)],
    parameters.flag: [(True, True), (False, False)],
    parameters.text: [("x", "x"), (42, "42"), ("1.10", "1.10")],
    parameters.path: [
        ("x", "x"),
        (Path("a/b"), "a/b"),
        (storage_path("file:///no-such-folder/x"), "file:///no-such-folder/x"),
    ],
    parameters.folder: [
        ("x", "x"),
        (Path("a/b"), "a/b"),
        (storage_path("file:///no-such-folder/x"), "file:///no-such-folder/x"),
    ],
    parameters.day: [("2026-11-21", "2026-11-21"), (date(2026, 11, 21), "2026-11-21")],
    parameters.names: [("a", "a"), (["a", 7], ["a", "7"]), (("a",), ["a"]), (2024, "2024")],
    parameters.text_list: [(["a", 7], ["a", "7"]), ([], [])],
    parameters.text_map: [({"title": "a"}, {"title": "a"}), ({"title": 7}, {"title": "7"}), ({}, {})],
    parameters.csv_options: [
        ({"delimiter": "\t", "quotechar": ""}, {"delimiter": "\t", "quotechar": ""}),
        (
            {"header": False, "skip_lines": 2, "null_texts": [""]},
            {"header": False, "skip_lines": "2", "null_texts": [""]},
        ),
    ],
}
# Parameters whose value has further rules of its own.
RULES = {"scorers", "gate", "pass_if", "schema", "baseline", "judge", "datasets", "dataset"}
TOGETHER = {"deferrable", "conn_id", "on_missing", "ledger"}


def built(kind, **arguments):
    with DAG("parameters", schedule=None):
        built = kind(task_id="task", **{**KINDS[kind], **arguments})
    context = {
        "ti": SimpleNamespace(dag_id="parameters", run_id="run", task_id="task", map_index=-1, try_number=1),
        "dag_run": SimpleNamespace(logical_date=datetime(2026, 11, 21, tzinfo=UTC), run_after=None),
    }
    built.render_template_fields(context)
    return built, context


def test_every_operator_and_sensor_is_here():
    assert set(KINDS) == set(tasks().values())


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_checked(kind):
    for base in kind.__mro__:
        if base.__module__.startswith("airflow_provider_assistant.") and "__init__" in vars(base):
            names = set(inspect.signature(vars(base)["__init__"]).parameters) - {"self", "kwargs"}
            assert names <= set(parameters_of(kind)), base


@pytest.mark.parametrize("check", WRONG, ids=lambda check: check.__name__)
def test_what_a_check_refuses_and_accepts(check):
    """By one parameter that has this check."""
    kind, name = next(
        (kind, name)
        for kind in KINDS
        for name, found in checks_of(kind).items()
        if found is check and name not in RULES | TOGETHER
    )
    for value in WRONG[check]:
        with pytest.raises(AssistantInputError):
            kind(task_id="task", **{**KINDS[kind], name: value})
    for value, used in RIGHT.get(check, ()):
        task, context = built(kind, **{name: value})
        check_rendered(task, context)
        assert (getattr(task, name), type(getattr(task, name))) == (used, type(used)), value


@pytest.mark.promise("Airflow", "A wrong argument fails when the DAG is parsed, and the error names the parameter.")
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_value_of_each_parameter_is_refused_when_the_dag_is_parsed(kind, service, connection):
    for name, check in checks_of(kind).items():
        for value in WRONG.get(check, ["other", 0])[:2]:
            with pytest.raises(AssistantInputError) as caught:
                kind(task_id="load_faq", **{**KINDS[kind], name: value})
            assert f"task 'load_faq': {name} " in str(caught.value), value
            assert caught.value.field == name, value
    assert service.journal() == []


@pytest.mark.parametrize("value", [1.1, {"a": 1}, ["a"]])
def test_an_output_whose_text_is_not_certain_names_the_parameter(value):
    task, context = built(AssistantChatRequestSensor)
    # As if the DAG had the output of another task here.
    task.given_parameters["request_id"] = object()
    task.later_parameters.add("request_id")
    task.request_id = value
    with pytest.raises(AssistantInputError, match="task 'task': request_id must be text"):
        check_rendered(task, context)


def test_a_path_object_may_contain_a_template(tmp_path):
    task, context = built(AssistantChatBatchOperator, output_path=tmp_path / "{{ 'monday' }}.parquet")
    check_rendered(task, context)
    assert task.output_path == str(tmp_path / "monday.parquet")


@pytest.mark.parametrize("value", [math.nan, -1, "5", True])
def test_the_timeout_of_airflows_sensors_is_checked_as_well(value):
    with pytest.raises(AssistantInputError, match="task 'wait': timeout must be a number of seconds"):
        AssistantChatRequestSensor(task_id="wait", request_id="r", timeout=value)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (AssistantEvaluateOperator, {"scorers": ["no_scorer"]}),
        (AssistantEvaluateOperator, {"gate": ["nonsense"]}),
        (AssistantEvaluateOperator, {"gate": 5}),
        (AssistantEvaluateOperator, {"pass_if": "token_f1 >"}),
        (AssistantEvaluateOperator, {"baseline": {"day": "yesterday"}}),
        (AssistantEvaluateOperator, {"judge": {"language": "en"}}),
        (AssistantEvaluateOperator, {"judge": 5}),
        (AssistantReadToParquetOperator, {"read": "nothing"}),
        (AssistantLoadQAOperator, {"missing_in": "groups"}),
        (AssistantParquetToWarehouseOperator, {"conn_id": "both"}),
        (AssistantDocumentsReadySensor, {"source_name": "a", "document_ids": ["b"]}),
        *product(
            [AssistantChatRequestSensor, AssistantDocumentsReadySensor],
            [
                {"soft_fail": True, "never_fail": True},
                {"max_wait": -1},
            ],
        ),
    ],
)
def test_errors_about_several_parameters_name_the_task(kind, arguments):
    with pytest.raises(AssistantInputError, match="the_task"):
        kind(task_id="the_task", **{**KINDS[kind], **arguments})
