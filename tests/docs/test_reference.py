"""The tables of the reference agree with the code."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import runpy
import tomllib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_args

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, BaseSensorOperator

from airflow_provider_assistant import assets, decorators, exceptions, lake, retry_policy
from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.reads import READS
from airflow_provider_assistant.chat_batch.requests import State
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.evaluation.scoring import scores_schema
from airflow_provider_assistant.evaluation.summary import Summary
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.connection import ConnectionExtra
from airflow_provider_assistant.loading import report
from airflow_provider_assistant.loading.findings import findings_schema
from airflow_provider_assistant.loading.options import OPTIONS, LoadOptions, OnAmbiguous, OnChange
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.operators import documents
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.provider_info import get_provider_info
from airflow_provider_assistant.sensors.documents import AssistantDocumentsReadySensor
from airflow_provider_assistant.transfers.base import LedgerExportOperator
from airflow_provider_assistant.transfers.compare_documents import AssistantCompareDocumentsOperator
from airflow_provider_assistant.transfers.parquet_to_iceberg import AssistantParquetToIcebergOperator
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from airflow_provider_assistant.transfers.read_to_parquet import AssistantReadToParquetOperator
from tests.contract.cases import CASES, Case
from tests.docs.pages import ROOT, blocks, blocks_of, codes, pages, prose, section, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.task_runs.run import Run

OPERATORS, ERRORS, DATASETS = "docs/reference/operators.md", "docs/reference/errors.md", "docs/reference/datasets.md"
EVALUATION = "docs/reference/evaluation.md"
LINEAGE = "docs/load/assets-and-lineage.md"
METRICS, CONFIGURATION, CONNECTION = (
    "docs/reference/metrics.md",
    "docs/reference/configuration.md",
    "docs/start/connection.md",
)


# -- operators -------------------------------------------------------------------------------------


def tasks() -> dict[str, type[BaseOperator]]:
    """Return the operators, transfers and sensors by name."""
    info = get_provider_info()
    modules = [name for kind in ("operators", "sensors") for group in info[kind] for name in group["python-modules"]]
    modules += [group["python-module"] for group in info["transfers"]]
    found = {
        name: value
        for module in modules
        for name, value in vars(importlib.import_module(module)).items()
        if name.startswith("Assistant") and isinstance(value, type) and issubclass(value, BaseOperator)
        if value.__module__ == module
    }
    bases = {base for kind in found.values() for base in kind.__mro__[1:]}
    return {name: kind for name, kind in found.items() if kind not in bases}


def task_rows() -> dict[str, dict[str, str]]:
    text = section(OPERATORS, "Operators")
    operators = table(text)
    sensors = table(text[text.index("| Sensor ") :])
    return {codes(row.get("Operator") or row["Sensor"])[0]: row for row in (*operators, *sensors)}


def test_every_operator_has_a_row() -> None:
    assert set(task_rows()) == set(tasks())


def test_endpoints_are_those_of_the_specification() -> None:
    said = set()
    for name, row in task_rows().items():
        if found := re.match(r"`((?:GET|POST) …/\S+)`", row["Endpoint"]):
            said.add(found[1])
        else:
            others = LedgerExportOperator | AssistantEvaluateOperator | AssistantParquetToWarehouseOperator
            others |= (
                AssistantParquetToIcebergOperator | AssistantReadToParquetOperator | AssistantCompareDocumentsOperator
            )
            assert issubclass(tasks()[name], others | AssistantDocumentsReadySensor)
    assert len(said) == 10
    assert said == set(map(route, CASES))


def route(case: Case) -> str:
    """Return method and path of an endpoint, as the pages write them."""
    path = re.sub(r"^/m2m/(sites|tenants)/[^/]+", "", case.path)
    return f"{case.method} …{path}"


def test_results_have_the_keys_of_the_table(
    connection: Callable[..., None], run_dag: Callable[..., Run], tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text("Refunds are paid in five days.")
    made = tasks()

    def task(name: str, task_id: str, **arguments: Any) -> BaseOperator:
        return made[name](task_id=task_id, **arguments)

    from airflow.sdk import DAG, chain

    message = {"session_id": "s", "message": "When are refunds paid?"}
    text = {"title": "Refunds", "content": "In five days.", "category": "faq"}
    with DAG("docs_results", schedule=None) as dag:
        submit = task("AssistantSubmitChatOperator", "submit", **message)
        request_id = submit.output["request_id"]
        chain(
            task("AssistantLimitsOperator", "limits"),
            task("AssistantLimitsToParquetOperator", "limits_to_parquet", output_path=str(tmp_path / "lake")),
            task("AssistantUploadFilesOperator", "upload", files=str(tmp_path / "a.md")),
            task("AssistantLoadTextOperator", "text", source=[text]),
            task(
                "AssistantLoadQAOperator",
                "qa",
                source=[text],
                columns={"question": "title", "answer": "content"},
            ),
            task("AssistantChatOperator", "chat", **message),
            submit,
            task("AssistantSubmitChatOperator", "deferred", **message, deferrable=True),
            task("AssistantSubmitChatOperator", "waited", **message, wait_for_completion=True, deferrable=False),
            task(
                "AssistantChatBatchOperator",
                "ask",
                source=[{"message": "When are refunds paid?"}],
                output_path=str(tmp_path / "answers.parquet"),
                poll_interval=0.1,
            ),
            task("AssistantChatRequestSensor", "sensor", request_id=request_id),
            task("AssistantFeedbackOperator", "rate", session_id="s", request_id=request_id, feedback="good"),
            task("AssistantCloseSessionOperator", "close", session_id="s"),
            task("AssistantStatisticsToParquetOperator", "statistics", output_path=str(tmp_path / "lake")),
            task("AssistantReadToParquetOperator", "read", read="statistics", output_path=str(tmp_path / "lake")),
            task("AssistantFeedbackToParquetOperator", "feedback", output_path=str(tmp_path / "lake")),
            task("AssistantRequestsToParquetOperator", "requests", output_path=str(tmp_path / "lake")),
            task("AssistantLoadsToParquetOperator", "loads", output_path=str(tmp_path / "lake")),
            task(
                "AssistantParquetToWarehouseOperator",
                "warehouse",
                output_path=str(tmp_path / "lake"),
                database=str(tmp_path / "warehouse.duckdb"),
            ),
            task(
                "AssistantParquetToIcebergOperator",
                "iceberg",
                output_path=str(tmp_path / "lake"),
                properties={"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()},
            ),
            task(
                "AssistantEvaluateOperator",
                "evaluate",
                answers=str(tmp_path / "answers.parquet"),
                output_path=str(tmp_path / "evaluations"),
            ),
        )
    run = run_dag(dag)
    assert not run.errors
    rows = task_rows()
    waited = {codes(row["Key"])[0] for row in table(section(OPERATORS, "AssistantSubmitChatOperator after waiting"))}
    waited |= {"request_id", "session_id", "site_id"}
    for built in dag.tasks:
        result = run.xcom(built.task_id)
        if built.task_id in {"deferred", "waited"}:
            assert set(result) == waited, built.task_id
            assert result["state"] == "complete"
            assert result["error"] is None
        else:
            cell = rows[built.task_type]["XCom"]
            said = set(codes(cell))
            for counts in (
                *("Counts of a load", "Counts of a batch", "Counts of an export", "Counts of a read"),
                "Head of an evaluation",
            ):
                if f"#{counts.lower().replace(' ', '-')})" in cell:
                    said |= {codes(row["Key"])[0] for row in table(section(OPERATORS, counts))}
            assert set(result) == said, built.task_id


def test_import_paths() -> None:
    said = {row["Module"].strip("`"): set(codes(row["Classes"])) for row in table(section(OPERATORS, "Import paths"))}
    for module, names in said.items():
        for name in names:
            assert getattr(importlib.import_module(module), name).__module__ == module
    assert set(tasks()) <= set().union(*said.values())


def test_templated_arguments() -> None:
    said = {
        row["Class"].strip("`"): codes(row["Templated"]) for row in table(section(OPERATORS, "Templated arguments"))
    }
    common = said.pop("all operators that call the service")
    assert tuple(common) == AssistantOperator.template_fields
    for name, kind in tasks().items():
        own = said.pop(name, [])
        expected = [*common, *own] if issubclass(kind, AssistantOperator) else own
        assert list(kind.template_fields) == expected, name
    assert not said


def test_links() -> None:
    said = {row["Button"]: set(codes(row["Classes"])) for row in table(section(OPERATORS, "Links"))}
    found: dict[str, set[str]] = {}
    for name, kind in tasks().items():
        for link in kind.operator_extra_links:
            found.setdefault(link.name, set()).add(name)
    assert said == found
    assert {row["Button"] for row in table(section(LINEAGE, "Links"))} == set(found)


def test_task_decorators() -> None:
    said = {
        codes(row["Decorator"])[0]: codes(row["Operator"])[0] for row in table(section(OPERATORS, "Task decorators"))
    }
    for entry in get_provider_info()["task-decorators"]:
        decorator = getattr(decorators, entry["class-name"].rpartition(".")[2])
        operator = decorator(print).operator_class
        assert operator.custom_operator_name == f"@task.{entry['name']}"
        assert issubclass(operator, tasks()[said.pop(operator.custom_operator_name)])
    assert not said


def test_kinds_of_assets() -> None:
    (said,) = [row["What it is"] for row in table(section(LINEAGE, "The URI")) if row["Part"] == "kind"]
    assert codes(said) == list(get_args(assets.AssetKind))
    assert inspect.signature(assets.assistant_asset).parameters["kind"].default == codes(said)[0]


PARAMETERS = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "site" / "parameters.py")))


def test_tables_of_parameters_are_those_of_the_classes() -> None:
    for page in sorted((ROOT / "docs/reference/operators").glob("*.md")):
        text = page.read_text()
        assert text == PARAMETERS.written(text), "python docs/site/parameters.py writes it"


@pytest.mark.parametrize("page", sorted((ROOT / "docs/reference/operators").glob("*.md")), ids=lambda page: page.stem)
def test_the_reference_has_each_parameter_of_an_operator_once(page: Path) -> None:
    text = page.read_text()
    titles = set(re.findall(r"^## (\w+)$", text, flags=re.MULTILINE)) & set(tasks())
    common = shown_parameters(section(str(page), "Common parameters")) if len(titles) > 1 else {}
    listed: list[str] = []
    for title in titles:
        own = re.split(r"^#+ ", section(str(page), title), flags=re.MULTILINE)[0]
        names = re.search(r"^\[Common parameters\]\(#common-parameters\): (.*)", own, flags=re.MULTILINE)
        shared = codes(names[1]) if names else []
        listed += shared
        shown = shown_parameters(own) if "| Parameter |" in own else {}
        assert set(shown).isdisjoint(shared)
        assert shown | {name: common[name] for name in shared} == defaults(tasks()[title])
    assert {name for name in listed if listed.count(name) > 1} == set(common)


def shown_parameters(text: str) -> dict[str, str]:
    """Return the defaults in a table of parameters."""
    rows = table(text[text.index("| Parameter |") :])
    return {codes(row["Parameter"])[0]: row["Default"].strip("`") for row in rows}


def defaults(kind: type) -> dict[str, str]:
    """Return the parameters of a class and its bases in this package, with their defaults."""
    found: dict[str, str] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("airflow_provider_assistant.") and "__init__" in vars(base):
            for parameter, default in PARAMETERS.own_parameters(base).items():
                found.setdefault(parameter, "required" if default is inspect.Parameter.empty else repr(default))
    return found


def test_every_operator_has_a_reference() -> None:
    pages = [page.read_text() for page in (ROOT / "docs/reference/operators").glob("*.md")]
    assert all(sum(f"\n## {name}\n" in page for page in pages) == 1 for name in tasks())


def own_classes() -> set[type]:
    """Return the operators and sensors, and their bases in this package."""
    found = {base for kind in tasks().values() for base in kind.__mro__}
    return {kind for kind in found if kind.__module__.startswith("airflow_provider_assistant.")}


@pytest.mark.parametrize("kind", sorted(own_classes(), key=str), ids=lambda kind: kind.__name__)
def test_a_parameter_is_documented_once_in_the_class_that_defines_it(kind: type) -> None:
    defined = set(PARAMETERS.own_parameters(kind)) if "__init__" in vars(kind) else set()
    documented = re.findall(r":param (\w+):", vars(kind)["__doc__"])
    assert len(documented) == len(set(documented))
    # The options of a load are documented as such.
    options = set(OPTIONS) if set(OPTIONS) <= defined else set()
    assert (LoadOptions.__name__ in vars(kind)["__doc__"]) is bool(options)
    assert set(documented) == defined - options


@pytest.mark.parametrize("kind", sorted(own_classes(), key=str), ids=lambda kind: kind.__name__)
def test_a_docstring_ends_with_the_bases_that_have_the_other_parameters(kind: type) -> None:
    last = inspect.cleandoc(vars(kind)["__doc__"]).rpartition("\n\n")[2]
    for base in kind.__bases__:
        if base in own_classes() and PARAMETERS.parameters(base):
            assert base.__name__ in last


@pytest.mark.parametrize(("argument", "values"), [("on_ambiguous", OnAmbiguous), ("on_change", OnChange)])
def test_choices_of_loads(argument: str, values: Any) -> None:
    rows = table(section("docs/reference/operators/documents.md", "Common parameters"))
    (said,) = [row["Meaning"] for row in rows if codes(row["Parameter"])[0] == argument]
    assert codes(said) == list(get_args(values))


def test_fields_of_documents() -> None:
    text = section(OPERATORS, "Fields of a document")
    for row in table(text[text.index("| Class ") :]):
        payload = getattr(documents, codes(row["Class"])[0]).payload
        assert codes(row["Fields"]) == list(payload.model_fields)


def test_counts() -> None:
    text = section(OPERATORS, "Counts of a load")
    assert [codes(row["Key"])[0] for row in table(text)] == list(report.LoadCounts().as_dict())
    total, *parts = re.findall(r"\w+", codes(text)[0])
    counts = report.LoadCounts(**dict.fromkeys(parts, 1))
    assert total == "rows"
    assert counts.done == len(parts)


def test_default_timeout_of_sensors() -> None:
    assert "seven days" in section(OPERATORS, "AssistantChatRequestSensor")
    assert BaseSensorOperator(task_id="any").timeout == 7 * 24 * 3600


# -- errors ----------------------------------------------------------------------------------------


def test_errors_by_status() -> None:
    rows = table(section(ERRORS, "By HTTP status"))
    code = {**errors.STATUSES, "5xx": errors.SERVER_ERROR, "other 4xx": errors.REFUSED, "other": errors.UNEXPECTED}
    assert [row["Status"] for row in rows] == [str(status) for status in code]
    for row, expected in zip(rows, code.values(), strict=True):
        assert row["Exception"] == f"`{expected.error.__name__}`"
        assert row["Condition"] == expected.condition
        assert row["What to do"] == expected.todo
        assert row["Repeated in the task"] == yes(errors.is_transient(expected.error("")))
        assert row["Airflow retries"] == yes(not issubclass(expected.error, AirflowFailException))


def test_errors_without_a_status() -> None:
    rows = {row["Exception"].strip("`"): row for row in table(section(ERRORS, "Without a status"))}
    kinds = {
        name: kind
        for name, kind in vars(exceptions).items()
        if isinstance(kind, type) and issubclass(kind, exceptions.AssistantError)
        if kind is not exceptions.AssistantError and not issubclass(kind, exceptions.AssistantAPIError)
    }
    assert set(rows) == set(kinds)
    for name, kind in kinds.items():
        assert rows[name]["Repeated in the task"] == yes(errors.is_transient(kind(""))), name
        assert rows[name]["Airflow retries"] == yes(not issubclass(kind, AirflowFailException)), name


def yes(fact: bool) -> str:
    return "yes" if fact else "no"


def test_findings() -> None:
    columns = table(section(DATASETS, "Findings file"))
    said = [(codes(row["Column"])[0], codes(row["Type"])[0], row["Nullable"]) for row in columns]
    # The name of list items differs between versions of pyarrow.
    types = [re.sub(r"<\w+: ", "<", str(field.type)) for field in findings_schema()]
    assert said == [
        (field.name, kind, yes(field.nullable)) for field, kind in zip(findings_schema(), types, strict=True)
    ]
    text = section(DATASETS, "findings")
    kinds = [codes(row["Kind"])[0] for row in table(text[text.index("| Kind ") :])]
    assert kinds == list(get_args(report.Kind))


# -- datasets, metrics -----------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", lake.DATASETS)
def test_columns(dataset: str) -> None:
    said = [
        (codes(row["Column"])[0], codes(row["Type"])[0], row["Nullable"]) for row in table(section(DATASETS, dataset))
    ]
    assert said == [(field.name, str(field.type), yes(field.nullable)) for field in lake.DATASETS[dataset].schema()]


def test_the_contract_for_programs() -> None:
    contract = runpy.run_path(str(ROOT / "docs" / "site" / "contract.py"))
    assert contract["FILE"].read_text() == contract["text_of_contract"](), "python docs/site/contract.py writes it"


def test_states_of_requests() -> None:
    text = section(DATASETS, "requests")
    states = {codes(row["State"])[0]: row["What the ledger knows"] for row in table(text[text.index("| State ") :])}
    assert set(states) == {"open", "ambiguous", "timed_out", *get_args(State)}
    assert {state for state, meaning in states.items() if "batches only" in meaning} == {"timed_out"}


def in_words(schema: dict[str, Any]) -> str:
    """Return a type of a JSON schema in the words of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(in_words, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    nested = {"array": ("list", "items"), "object": ("map", "additionalProperties")}.get(schema["type"])
    return f"{nested[0]} of {in_words(schema[nested[1]])}" if nested else schema["type"]


def test_fields_of_a_summary() -> None:
    schema = Summary.model_json_schema(mode="serialization")
    for name, model in {"Summary": schema, **schema["$defs"]}.items():
        said = [(codes(row["Field"])[0], row["Type"]) for row in table(section(EVALUATION, name))]
        assert said == [(field, in_words(kind)) for field, kind in model["properties"].items()], name


def test_columns_of_scores() -> None:
    said = [(codes(row["Column"])[0], codes(row["Type"])[0]) for row in table(section(EVALUATION, "Scores"))]
    assert said == [(field.name, re.sub(r"<\w+: ", "<", str(field.type))) for field in scores_schema()]


def test_items_of_lists() -> None:
    for row in table(section(DATASETS, "Items of lists")):
        keys = json.loads(row["`list_keys`"].strip("`").replace("none", "{}"))
        found = lake.flatten(json.loads(codes(row["Reply"])[0]), keys)
        assert [metric.metric for metric in found] == codes(row["Metrics"])


def test_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, tuple[str, set[str]]] = {}

    class Stats:
        @staticmethod
        def incr(name: str, count: int = 1, *, tags: dict[str, str]) -> None:
            sent[name] = ("counter", set(tags))

        @staticmethod
        def gauge(name: str, value: float, *, tags: dict[str, str]) -> None:
            sent[name] = ("gauge", set(tags))

        @staticmethod
        def timing(name: str, value: Any, *, tags: dict[str, str]) -> None:
            sent[name] = ("timer", set(tags))

    monkeypatch.setattr(metrics, "airflow_stats", lambda: Stats)
    requests = metrics.Requests()
    requests.add("chat", "429", 1.0)
    requests.add("chat", "503", 1.0)
    metrics.retry("chat")
    metrics.async_completion("complete", 1.0)
    metrics.poll_lag(1.0)
    metrics.pause(1.0)
    metrics.in_flight_limit(1)
    metrics.rows("qa", {"created": 1})
    metrics.drafts("qa", 1)
    metrics.questions({"complete": 1})
    metrics.exported_rows("statistics", 1)
    metrics.evaluation("nightly", "passed", means={"chrf": 1.0}, coverage=1.0, pass_rate=1.0)
    names = {value for value in vars(metrics).values() if isinstance(value, str) and value.startswith("assistant.")}
    assert set(sent) == names

    said = {
        codes(row["Metric"])[0]: (row["Kind"], set(codes(row["Tags"]))) for row in table((ROOT / METRICS).read_text())
    }
    assert said == sent


def test_endpoint_tags() -> None:
    text = (ROOT / METRICS).read_text()
    rows = table(text[text.index("\n| `endpoint` |") :])
    said = {row["Endpoint"].strip("`"): codes(row["`endpoint`"])[0] for row in rows}
    assert said.pop("requests through `AssistantHook.call") == "other"
    further_reads = said.pop("[further reads](hook.md#usage-sessions-and-other-reads)")
    assert further_reads == "tenant"
    assert said == {route(case): case.call("request").endpoint for case in CASES}


# -- connection, configuration ---------------------------------------------------------------------


def test_configuration() -> None:
    said = {
        (codes(row["Section"])[0], codes(row["Option"])[0]): (row["Type"], row["Default"].replace("empty", ""))
        for row in table((ROOT / CONFIGURATION).read_text())
    }
    assert said == {
        (name, option): (facts["type"], facts["default"])
        for name, content in get_provider_info()["config"].items()
        for option, facts in content["options"].items()
    }


def test_connection_fields() -> None:
    rows = table(section(CONNECTION, "Fields"))
    standard, extra = rows[:2], {codes(row["Where"])[0]: row for row in rows[2:]}
    (kind,) = get_provider_info()["connection-types"]
    labels = kind["ui-field-behaviour"]["relabeling"]
    assert {codes(row["Where"])[0]: row["Field"] for row in standard} == labels
    assert list(extra) == list(ConnectionExtra.model_fields) == list(kind["conn-fields"])
    assert {name: row["Field"] for name, row in extra.items()} == {
        name: field["label"] for name, field in kind["conn-fields"].items()
    }
    defaults = ClientSettings("", "")
    values = {
        "service_name": "host of the base URL",
        "timeout": f"{defaults.timeout:.0f}",
        "chat_timeout": f"{defaults.chat_timeout:.0f}",
        "retries": str(defaults.retry.attempts - 1),
        "max_concurrency": str(defaults.max_concurrency),
        "max_response_bytes": str(defaults.max_response_bytes),
        "verify": str(defaults.verify).lower(),
        "rating_words": ", ".join(defaults.rating_words),
    }
    assert {name: row["Default"] for name, row in extra.items()} == {name: values.get(name, "none") for name in extra}
    words = prose(ROOT / CONNECTION).split("Known from the start:")[1].split(".")[0]
    complete, failed = (set(re.findall(r"\w+", part)) for part in words.split(";"))
    assert (complete, failed) == (set(defaults.words.complete), set(defaults.words.failed))


def connections() -> list[Any]:
    """Return the connections to the service in the pages, as JSON and as URI."""
    found = [pytest.param(block.code, id=block.name) for block in blocks("json") if '"conn_type"' in block.code]
    for block in blocks("text", "bash"):
        for number, shown in enumerate(
            re.findall(
                r"'(\{\s*\"conn_type\": ?\"assistant\".*?\})'$|(assistant://[^\s']+)",
                block.code,
                re.DOTALL | re.MULTILINE,
            )
        ):
            found.append(pytest.param("".join(shown), id=f"{block.name}.{number}"))
    return found


@pytest.mark.parametrize("connection", connections())
def test_connections_can_be_pasted(connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", connection)
    hook = AssistantHook()
    assert hook.settings.client.base_url.endswith("/api/v1")
    assert hook.resolve_tenant_id() == "acme-inc"
    if connection.startswith("{"):
        assert set(json.loads(connection)["extra"]) <= set(ConnectionExtra.model_fields)


def test_every_way_to_connect_is_shown() -> None:
    assert len(connections()) >= 6


@pytest.mark.parametrize("row", table(section(CONNECTION, "Base URL")), ids=lambda row: row["You write"])
def test_base_urls(row: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    shown = json.dumps({"conn_type": "assistant", "host": codes(row["You write"])[0], "password": "k"})
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", shown)
    assert AssistantHook().settings.client.base_url == codes(row["Requests go below"])[0]


# -- the rest --------------------------------------------------------------------------------------


def test_layers_are_those_that_are_enforced() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = next(found for found in project["tool"]["importlinter"]["contracts"] if found["type"] == "layers")
    (drawn,) = [block for block in blocks_of(ROOT / "docs/internals/architecture.md") if block.language == "text"]
    assert drawn.code.splitlines() == contract["layers"]


def test_hook_methods() -> None:
    rows = table(section("docs/reference/hook.md", "Sync"))
    said = {codes(row["Method"])[0].partition("(")[0]: row["Endpoint"] for row in rows}
    assert list(said.values()) == [
        *(f"`{route(case)}`" for case in sorted(CASES, key=lambda case: case.row)),
        "any other",
    ]
    for row in rows:
        name, _, arguments = codes(row["Method"])[0].rstrip(")").partition("(")
        parameters = inspect.signature(getattr(AssistantHook, name)).parameters.values()
        positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]
        assert positional == [argument for argument in arguments.split(", ") if argument], name


def test_further_reads() -> None:
    """Each read has a row with its path, and a method of its own or one in the table above."""
    rows = table(section("docs/reference/hook.md", "Usage, sessions and other reads"))
    names = [codes(row["Name"])[0] for row in rows]
    assert {*names, "limits", "statistics"} == set(READS)
    for row, name in zip(rows, names, strict=True):
        assert codes(row["Endpoint"])[0] == f"GET …{READS[name].removeprefix('/m2m')}"
        method, _, arguments = codes(row["Method"])[0].rstrip(")").partition("(")
        parameters = inspect.signature(getattr(AssistantHook, method)).parameters.values()
        positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]
        assert positional == [argument for argument in arguments.split(", ") if argument], name
    tags = (ROOT / METRICS).read_text()
    assert all(f"`{name}`" in tags for name in names)


def test_readme_shows_a_short_dag_first() -> None:
    first = next(block for block in blocks_of(ROOT / "README.md") if block.language == "python")
    assert len(first.code.splitlines()) <= 24
    before = "\n".join((ROOT / "README.md").read_text().splitlines()[: first.line])
    assert before.count("\n## ") == 1


def names() -> dict[str, list[str]]:
    """Return every class name of this package that the pages mention, with the pages."""
    found: dict[str, list[str]] = {}
    for page in pages():
        for name in re.findall(r"`(Assistant\w+)(?:\.\w+)?(?:\(\))?`", prose(page)):
            found.setdefault(name, []).append(page.name)
    return found


@pytest.mark.parametrize("name", sorted(names()))
def test_classes_exist(name: str) -> None:
    known = {*tasks(), *vars(exceptions), *vars(documents), *vars(retry_policy)}
    known |= {"AssistantClient", "AssistantHook", "AssistantOperator"}
    known |= {"AssistantChatRequestTrigger", "AssistantChatBatchTrigger"}
    known |= set(re.findall(r"- alert: (\w+)", (ROOT / "docs/operate/observability/alerts.yml").read_text()))
    assert name in known, names()[name]
