"""The reference agrees with the code: its tables, its figures, and the connections to paste."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, get_args

import pytest

from airflow_provider_assistant import assets, exceptions, retry_policy
from airflow_provider_assistant.asking import answers, poller, state, wait
from airflow_provider_assistant.cli import runner
from airflow_provider_assistant.client import cancellation
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.evaluation.cells import EXPECTATIONS
from airflow_provider_assistant.evaluation.rubrics import BUILT_IN
from airflow_provider_assistant.evaluation.scorers import SCORERS
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.connection import ConnectionExtra
from airflow_provider_assistant.knowledge import folder
from airflow_provider_assistant.lake.rows import values_of, with_digits
from airflow_provider_assistant.ledger import clock, store
from airflow_provider_assistant.loading import counts, findings, guards, load, progress
from airflow_provider_assistant.loading.options import OPTIONS, LoadOptions, OnAmbiguous, OnChange
from airflow_provider_assistant.operators import documents
from airflow_provider_assistant.parsing import child
from airflow_provider_assistant.sending.sender import BREAKER
from airflow_provider_assistant.tables.files import FORMATS
from tests.contract.cases import CASES
from tests.docs import command_line
from tests.docs.generated import DATASETS, OPERATORS, PARAMETERS, SCORES, generated, route, tasks
from tests.docs.pages import ROOT, blocks, codes, listed, pages, prose, section, table, words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.sdk import BaseOperator

    from tests.task_runs.run import Run

COMMANDS = str(command_line.PAGE.relative_to(ROOT))
CONNECTION, LINEAGE = "docs/start/connection.md", "docs/load/assets-and-lineage.md"
INCREMENTAL, LEDGER = "docs/load/incremental-loads.md", "docs/operate/ledger.md"
ROWS, HANDBOOK = "docs/load/load-dataframe.md", "docs/load/knowledge-sources.md"


@pytest.mark.promise("pages", "Tables of the reference say what the code does: they are generated from it.")
def test_what_the_pages_repeat_from_the_code_is_generated() -> None:
    stale = [str(path.relative_to(ROOT)) for path, text in generated().items() if path.read_text() != text]
    assert not stale, "python -m tests.docs.generated writes them"


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXIT_CODES = ("OK", "WRONG", "FAILED", "INTERRUPTED")
# Page, heading and first column of each table that lists what there is, and the names in the code.
LISTS: list[tuple[str, str, str, Any]] = [
    (LINEAGE, "Links", "Button", {link.name for kind in tasks().values() for link in kind.operator_extra_links}),
    (DATASETS, "Kinds of findings", "Kind", get_args(findings.Kind)),
    (DATASETS, "States of requests", "State", ["open", "ambiguous", "timed_out", "complete", "failed", "lost"]),
    ("docs/ask/chat-batch.md", "What is in the file", "Status", answers.STATUSES),
    ("docs/evaluate/judge.md", "Rubrics", "Scorer", [f"judge.{name}" for name in (*BUILT_IN, "<name>")]),
    (SCORES, "Columns", "Column", ["a key", "message", *EXPECTATIONS, "human"]),
    (SCORES, "Scorers", "Name", [*SCORERS, "column:<name>", "judge.<name>", "package.module.function"]),
    (LEDGER, "Retry or skip", "`on_ambiguous`", get_args(OnAmbiguous)),
    (INCREMENTAL, "When a row has changed", "`on_change`", get_args(OnChange)),
    (ROWS, "Files", "Name ends in", FORMATS),
    (HANDBOOK, "Files", "Files", folder.MARKDOWN | folder.TEXT | child.FORMATS.keys()),
    (
        *("docs/start/install.md", "Extras", "Extra"),
        {*PROJECT["optional-dependencies"]} - {"dev", "docs", "cluster", "release"},
    ),
    (COMMANDS, "Exit codes", "Code", [str(getattr(runner, name)) for name in EXIT_CODES]),
    (
        *(COMMANDS, "JSON", "Command"),
        re.findall(r"^### airflow assistant (.*)$", command_line.PAGE.read_text(), re.MULTILINE),
    ),
]


@pytest.mark.parametrize(
    ("page", "heading", "column", "names"), LISTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_table_lists_what_there_is(page: str, heading: str, column: str, names: Any) -> None:
    assert sorted(listed(page, heading, column)) == sorted(names)


MILLION = 1_000_000
NUMBER = {0.25: "a quarter", 2: "two", 10: "ten", 20: "twenty", 120: "two minutes"}
SETTINGS = ClientSettings("", "")
FIGURES = [
    ("docs/ask/chat-batch.md", f"saved within {NUMBER[state.FLUSH]} seconds"),
    ("docs/ask/chat-batch.md", f"polled first at {NUMBER[wait.FIRST]} of it"),
    ("docs/ask/chat-batch.md", f"a line every {poller.PROGRESS:g} seconds"),
    (LEDGER, f"writes nothing for {clock.DEFAULT_SECONDS:g} seconds"),
    (LEDGER, f"gives what is in flight {NUMBER[cancellation.GRACE]} seconds"),
    ("docs/reference/configuration.md", f"from {clock.SHORTEST:g} to {clock.LONGEST:g},"),
    ("docs/reference/configuration.md", f"The schema has a version, now {store.VERSION}."),
    ("docs/operate/rate-limiting.md", f"a line every {NUMBER[progress.INTERVAL]} seconds"),
    ("docs/load/load-dataframe.md", f"first {NUMBER[findings.LOGGED]} in the log"),
    ("docs/load/load-dataframe.md", f"rejects the first {load.FIRST_ROWS} rows"),
    (INCREMENTAL, f"list at least {guards.LEAST_CHANGED} of them, or remove at least {guards.LEAST_REMOVED}."),
    ("docs/evaluate/feedback.md", f"failures in a row (at least {BREAKER})"),
    (HANDBOOK, f"{folder.LARGEST_TEXT // MILLION} MB (text, HTML) or {child.LARGEST_FILE // MILLION} MB (others)"),
    (HANDBOOK, f"with {NUMBER[child.SECONDS]} and {child.MEMORY // 2**30} GiB for a file"),
    (LINEAGE, f"`{'`, `'.join(get_args(assets.AssetKind)[1:-1])}` or `{get_args(assets.AssetKind)[-1]}`"),
    (LINEAGE, f"`{inspect.signature(assets.assistant_asset).parameters['kind'].default}` (the helper's default)"),
]


@pytest.mark.parametrize(("page", "text"), FIGURES)
def test_a_figure_of_a_page_is_that_of_the_code(page: str, text: str) -> None:
    assert text in words(page)


# -- operators -------------------------------------------------------------------------------------


def test_every_endpoint_has_an_operator() -> None:
    text = (ROOT / OPERATORS).read_text()
    assert [route(case) for case in CASES if route(case) not in text] == []


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
    last = inspect.cleandoc(vars(kind)["__doc__"]).rpartition("\n\n")[2]
    bases = [base for base in kind.__bases__ if base in own_classes() and PARAMETERS.parameters(base)]
    assert all(base.__name__ in last for base in bases), "the last line names the bases that have other parameters"


def test_results_have_the_keys_that_the_reference_names(
    connection: Callable[..., None], run_dag: Callable[..., Run], tmp_path: Path
) -> None:
    from airflow.sdk import DAG, chain

    (tmp_path / "a.txt").write_text("Refunds are paid in five days.")
    lake_path = {"output_path": str(tmp_path / "lake")}
    message = {"session_id": "s", "message": "When are refunds paid?"}
    rows = {"source": [{"title": "Refunds", "content": "In five days.", "category": "faq"}]}
    answered = str(tmp_path / "answers.parquet")

    def task(name: str, task_id: str | None = None, **arguments: Any) -> BaseOperator:
        return tasks()[f"Assistant{name}"](task_id=task_id or name, **arguments)

    with DAG("docs_results", schedule=None) as dag:
        submit = task("SubmitChatOperator", **message)
        request = {"request_id": submit.output["request_id"]}
        chain(
            task("LimitsOperator"),
            task("LimitsToParquetOperator", **lake_path),
            task("UploadFilesOperator", files=str(tmp_path / "a.txt")),
            task("LoadTextOperator", **rows),
            task("LoadQAOperator", **rows, columns={"question": "title", "answer": "content"}),
            task("ChatOperator", **message),
            submit,
            task("ChatBatchOperator", source=[{"message": "When?"}], output_path=answered, poll_interval=0.1),
            task("ChatRequestSensor", **request),
            task("FeedbackOperator", **request, session_id="s", feedback="good"),
            task("CloseSessionOperator", session_id="s"),
            task("StatisticsToParquetOperator", **lake_path),
            task("ReadToParquetOperator", **lake_path, path="/m2m/tenants/acme-inc/limits", dataset="other"),
            task("FeedbackToParquetOperator", **lake_path),
            task("RequestsToParquetOperator", **lake_path),
            task("LoadsToParquetOperator", **lake_path),
            task("ParquetToWarehouseOperator", **lake_path, database=str(tmp_path / "warehouse.duckdb")),
            task("EvaluateOperator", answers=answered, output_path=str(tmp_path / "evaluations")),
        )
    run = run_dag(dag)
    assert not run.errors
    for built in dag.tasks:
        returned = inspect.cleandoc(built.execute.__doc__).partition(":return:")[2].partition(":raises")[0]
        said = {*codes(returned), *re.findall(r"\w+", "".join(codes(returned)))}
        if "LoadCounts" in returned:
            said |= set(counts.LoadCounts().as_dict())
        assert set(run.xcom(built.task_id)) <= said, built.task_id


def names() -> dict[str, list[str]]:
    """Return every class name of this package that the pages mention, with the pages."""
    found: dict[str, list[str]] = {}
    for page in pages():
        for name in re.findall(r"`(Assistant\w+)(?:\.\w+)?(?:\(\))?`", prose(page)):
            found.setdefault(name, []).append(page.name)
    return found


def test_classes_of_the_pages_exist() -> None:
    known = {*tasks(), *vars(exceptions), *vars(documents), *vars(retry_policy)}
    known |= {"AssistantClient", "AssistantHook", "AssistantOperator"}
    known |= {"AssistantChatRequestTrigger", "AssistantChatBatchTrigger"}
    known |= set(listed("docs/operate/observe.md", "Alerts", "Alert"))
    assert {name: where for name, where in names().items() if name not in known} == {}


# -- errors, datasets, connection ------------------------------------------------------------------


def test_items_of_lists() -> None:
    for row in table(section(DATASETS, "Items of lists")):
        keys = json.loads(row["`list_keys`"].strip("`").replace("none", "{}"))
        found = values_of(with_digits(codes(row["Reply"])[0]), keys)
        assert [value.metric for value in found] == codes(row["Metrics"])


def test_tables_of_the_ledger_are_named() -> None:
    schema = importlib.import_module("airflow_provider_assistant.ledger.schema")
    assert set(schema.metadata.tables) <= set(codes(prose(ROOT / "docs/reference/configuration.md")))


def test_status_words_that_are_known_from_the_start() -> None:
    sentence = words(CONNECTION).split("Known from the start:")[1].split(".")[0]
    # Words are compared without spaces.
    complete, failed = (set(part.replace(" ", "").split(",")) for part in sentence.split(";"))
    assert (complete, failed) == (set(SETTINGS.words.complete), set(SETTINGS.words.failed))


def connections() -> list[Any]:
    """Return the connections to the service in the pages, as JSON and as URI."""
    found = [pytest.param(block.code, id=block.name) for block in blocks("json") if '"conn_type"' in block.code]
    shown = re.compile(r"'(\{\s*\"conn_type\": ?\"assistant\".*?\})'$|(assistant://[^\s']+)", re.DOTALL | re.MULTILINE)
    for block in blocks("text", "bash"):
        for number, pair in enumerate(shown.findall(block.code)):
            found.append(pytest.param("".join(pair), id=f"{block.name}.{number}"))
    assert len(found) >= 4
    return found


@pytest.mark.parametrize("connection", connections())
def test_connections_can_be_pasted(connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", connection)
    hook = AssistantHook()
    assert hook.settings.client.base_url.endswith("/api/v1")
    assert hook.resolve_tenant_id() == "acme-inc"
    if connection.startswith("{"):
        assert set(json.loads(connection)["extra"]) <= set(ConnectionExtra.model_fields)


@pytest.mark.parametrize("row", table(section(CONNECTION, "Base URL")), ids=lambda row: row["You write"])
def test_base_urls(row: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    shown = json.dumps({"conn_type": "assistant", "host": codes(row["You write"])[0], "password": "k"})
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", shown)
    assert AssistantHook().settings.client.base_url == codes(row["Requests go below"])[0]
